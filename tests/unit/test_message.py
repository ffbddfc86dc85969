"""The message and its CloudEvents form."""

import enum
import json
import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.encoding import program_source
from lanes.errors import InvalidMessageError, MessageDecodeError, MessageTooLargeError
from lanes.message import LARGEST_BODY_BYTES, SQS_ID, JsonText, Message, id_in, size_bytes, time_of

EVENT = {"specversion": "1.0", "id": "7", "source": "shop", "type": "order.placed", "data": {"order": 7}}


class Missing(datetime):
    """As the missing time of pandas."""

    def utcoffset(self):
        """Raise, as it does."""
        raise ValueError("NaTType does not support utcoffset")


NOT_A_TIME = Missing(2026, 1, 1, tzinfo=UTC)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_the_body_is_a_cloud_event():
    """Any language that knows CloudEvents can read it."""
    message = Message(
        kind="order.placed",
        data={"order": 7},
        id="order-7",
        priority=50,
        time=datetime(2026, 11, 20, 12, tzinfo=UTC),
        traceparent="00-1-2-01",
        group="customer-1",
        deduplication_id="once",
    )

    assert json.loads(message.to_body()) == {
        "specversion": "1.0",
        "id": "order-7",
        "source": "lanes",
        "type": "order.placed",
        "time": "2026-11-20T12:00:00+00:00",
        "datacontenttype": "application/json",
        "data": {"order": 7},
        "priority": 50,
        "traceparent": "00-1-2-01",
    }


@given(
    data=json_values,
    priority=st.none() | st.integers(-(10**12), 10**12),
    identity=st.text(min_size=1, max_size=128),
    time=st.datetimes(timezones=st.just(UTC) | st.just(timezone(timedelta(hours=-7)))),
)
def test_a_message_reads_back_as_it_was_written(data, priority, identity, time):
    """Whatever the data, the id, the priority and the time."""
    message = Message(kind="order.placed", data=data, priority=priority, id=identity, time=time, group="g")

    assert Message.from_body(message.to_body(), group="g") == message


@given(text=st.text(st.characters()))
def test_a_body_has_only_characters_that_sqs_takes(text):
    """Those that XML 1.0 has not are escaped; the others stay short."""
    body = Message(kind="k", data=text).to_body()

    assert all(_is_allowed(character) for character in body)
    assert json.loads(body)["data"] == text


def test_letters_beyond_ascii_are_not_escaped():
    """Escaped they would count six bytes each."""
    assert "größe" in Message(kind="k", data="größe").to_body()


def test_the_largest_body_is_one_mebibyte():
    """The limit counts bytes, and belongs to what is allowed."""
    rest = size_bytes(Message(kind="k", data="", id="1").to_body())
    fitting = Message(kind="k", data="ä" * ((LARGEST_BODY_BYTES - rest) // 2), id="1")
    filled = Message(kind="k", data=fitting.data + "a" * ((LARGEST_BODY_BYTES - rest) % 2), id="1")

    assert size_bytes(filled.to_body()) == LARGEST_BODY_BYTES
    with pytest.raises(MessageTooLargeError) as caught:
        Message(kind="k", data=filled.data + "a", id="1").to_body()
    assert caught.value.size_bytes == LARGEST_BODY_BYTES + 1
    assert caught.value.limit_bytes == LARGEST_BODY_BYTES


def circle():
    """Give data that contains itself."""
    data = []
    data.append(data)
    return data


def depth():
    """Give data that is nested beyond what can be written."""
    data = []
    for _ in range(100_000):
        data = [data]
    return data


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"kind": ""}, "kind"),
        ({"kind": "two words"}, "kind"),
        ({"kind": "k" * 129}, "kind"),
        ({"kind": "k\x00"}, "kind"),
        ({"kind": None}, "kind"),
        ({"id": ""}, "id"),
        ({"id": "i" * 129}, "id"),
        ({"id": 7}, "id"),
        ({"id": "half \ud800"}, "id"),
        ({"group": ""}, "group"),
        ({"group": "g" * 129}, "group"),
        ({"group": "two words"}, "group"),
        ({"group": "größe"}, "group"),
        ({"group": "g\n"}, "group"),
        ({"deduplication_id": ""}, "deduplication_id"),
        ({"deduplication_id": "d" * 129}, "deduplication_id"),
        ({"deduplication_id": "d d"}, "deduplication_id"),
        ({"source": ""}, "source"),
        ({"source": "half \udfff"}, "source"),
        ({"priority": True}, "priority"),
        ({"priority": "50"}, "priority"),
        ({"priority": 1.5}, "priority"),
        ({"time": datetime(2026, 11, 20)}, "time"),  # noqa: DTZ001 - the missing time zone is the point
        ({"expires": NOT_A_TIME}, "expires"),
        ({"time": "now"}, "time"),
        ({"traceparent": 1}, "traceparent"),
        ({"data": float("nan")}, "not JSON"),
        ({"data": [float("inf")]}, "not JSON"),
        ({"data": {1, 2}}, "not JSON"),
        ({"data": b"bytes"}, "not JSON"),
        ({"data": object()}, "not JSON"),
        ({"data": circle()}, "not JSON"),
        ({"data": depth()}, "not JSON"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_a_message_that_breaks_a_rule_is_refused(fields, problem):
    """The error names the field and what is allowed."""
    with pytest.raises(InvalidMessageError, match=problem):
        Message(**{"kind": "k", **fields}).to_body()


def test_a_missing_time_is_no_time_for_later():
    """A table of pandas has some."""
    with pytest.raises(InvalidMessageError, match="without a time zone"):
        time_of(NOT_A_TIME, 0.0, latest=timedelta(days=1))


def test_a_member_of_an_enum_is_its_text():
    """So its message has one identity and one group with that of another program, which has only the text."""
    texts = dict.fromkeys(("kind", "id", "group", "source", "deduplication_id"), "eu")
    time, region = datetime(2026, 1, 2, tzinfo=UTC), enum.Enum("Region", {"EU": "eu"}, type=str).EU
    message = Message(**dict.fromkeys(texts, region), time=time)

    assert {name: f"{getattr(message, name)}" for name in texts} == texts
    assert message == Message(**texts, time=time)
    assert Message(kind="k", source="s", id=region).identity == "s#k#eu"


@given(identity=st.text(min_size=1, max_size=128), other=st.text(min_size=1, max_size=128))
def test_ids_derived_for_sqs_fit_and_tell_messages_apart(identity, other):
    """Ids with characters that SQS has not are hashed."""
    mine, others = Message(kind="k", id=identity), Message(kind="k", id=other)

    assert SQS_ID.fullmatch(mine.message_deduplication_id)
    assert SQS_ID.fullmatch(mine.message_group_id)
    assert (mine.message_deduplication_id == others.message_deduplication_id) == (identity == other)


PART = st.text("ab#%23-é", min_size=1, max_size=5)


@given(one=st.tuples(PART, PART, PART), other=st.tuples(PART, PART, PART))
def test_one_source_kind_and_id_are_one_message_and_others_are_not(one, other):
    """Wherever the parts hold the separator, and whether or not SQS takes their characters."""
    mine, others = (Message(source=source, kind=kind, id=name) for source, kind, name in (one, other))

    for name in ("identity", "message_deduplication_id", "message_group_id"):
        assert (getattr(mine, name) == getattr(others, name)) == (one == other)
    assert id_in(mine.identity) == one[2]


@pytest.mark.parametrize("text", ['{"a":1,"a":0.1000000000000000055}', "1e2", ' [ "\\u00e9" ]\n', "null"])
def test_json_text_is_sent_as_it_is(text):
    """Parsed to check it only; another encoder may write numbers and names in other ways than Python."""
    body = Message(kind="k", data=JsonText(text), priority=5, traceparent="00-1-2-01").to_body()

    assert f'"data":{text},"priority":5,"traceparent":"00-1-2-01"}}' in body
    assert Message.from_body(body).data == json.loads(text)


@pytest.mark.parametrize("text", ["", "{", "1 2", "NaN", "1e999", "[" * 100_000])
def test_text_that_is_not_json_is_refused(text):
    """Before any call, like data that cannot be written as JSON."""
    with pytest.raises(InvalidMessageError, match="the data is not JSON"):
        Message(kind="k", data=JsonText(text)).to_body()


def test_a_program_is_the_source_of_its_messages(monkeypatch):
    """So two programs may use the same ids; the processes of one program are one source."""
    assert Message(kind="k").source == "lanes"  # LANES_SOURCE of the tests
    monkeypatch.delenv("LANES_SOURCE")
    monkeypatch.setattr("sys.argv", ["/app/billing.py"])
    assert Message(kind="k").source == Message(kind="k").source == "billing"

    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders-consumer")
    assert Message(kind="k").source == "orders-consumer"


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("/app/orders/__main__.py", "orders"),
        ("/usr/bin/nightly", "nightly"),
        ("__main__.py", "lanes"),
        ("-c", "lanes"),
        ("-m", "lanes"),
        ("", "lanes"),
        ("/app/line\nfeed.py", "lanes"),
    ],
)
def test_the_name_of_a_program_is_that_of_its_file(monkeypatch, file, source):
    """What has no file of its own is called lanes."""
    monkeypatch.delenv("LANES_SOURCE")
    monkeypatch.setattr("sys.argv", [file])

    assert program_source() == source


@pytest.mark.parametrize(
    "body",
    [
        "",
        "hello",
        "[]",
        "7",
        "null",
        "{}",
        "[" * 100_000,
        "1" * 5000,
        json.dumps({"Records": [{"eventSource": "aws:s3"}]}),
        json.dumps({**EVENT, "specversion": "0.3"}),
        json.dumps({**EVENT, "specversion": 1.0}),
        json.dumps({**EVENT, "id": ""}),
        json.dumps({**EVENT, "id": 7}),
        json.dumps({**EVENT, "id": "half \ud800"}),
        json.dumps({**EVENT, "type": None}),
        json.dumps({**EVENT, "source": ""}),
        json.dumps({**EVENT, "source": "half \udfff"}),
        json.dumps({**EVENT, "priority": 1.5}),
        json.dumps({**EVENT, "priority": True}),
        json.dumps({**EVENT, "priority": "high"}),
        json.dumps({**EVENT, "time": "yesterday"}),
        json.dumps({**EVENT, "time": 5}),
        json.dumps({**EVENT, "data_base64": "aGk="}),
        json.dumps({**EVENT, "data": float("nan")}),
        json.dumps({**EVENT, "data": 9}).replace("9", "9e999"),
    ],
    ids=lambda body: body[:40],
)
def test_another_body_is_no_event(body):
    """It ends as a decode error and never as another exception."""
    with pytest.raises(MessageDecodeError):
        Message.from_body(body)


@given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")) | json_values.map(json.dumps))
def test_no_body_makes_the_reader_fail_otherwise(body):
    """A poisonous body must not take its batch with it."""
    try:
        Message.from_body(body)
    except MessageDecodeError as error:
        assert error.reason  # noqa: PT017 - reading it may succeed too


def test_an_event_of_another_producer_is_read():
    """Optional parts may be missing, extensions of others may be there, numbers may be texts."""
    message = Message.from_body(json.dumps({**EVENT, "priority": "-50", "tenant": "x"}), group="g")

    assert message.kind == "order.placed"
    assert message.priority == -50
    assert message.group == "g"
    assert message.time.tzinfo is not None
    assert Message.from_body(json.dumps(EVENT)).priority is None


@pytest.mark.parametrize("broken", [5, None, "", ["00"], {"trace": 1}], ids=repr)
def test_a_traceparent_that_is_no_text_counts_as_none(broken):
    """A trace must not cost a message."""
    assert Message.from_body(json.dumps({**EVENT, "traceparent": broken})).traceparent is None


def test_a_time_without_a_zone_counts_as_utc():
    """Some producers leave the zone out; two kinds of time never meet."""
    message = Message.from_body(json.dumps({**EVENT, "time": "2026-11-20T12:00:00"}))

    assert message.time == datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_a_time_in_small_letters_is_read():
    """RFC 3339 allows them."""
    message = Message.from_body(json.dumps({**EVENT, "time": "2026-11-20t12:00:00z"}))

    assert message.time == datetime(2026, 11, 20, 12, tzinfo=UTC)


def _is_allowed(character):
    code = ord(character)
    return (
        code in (0x9, 0xA, 0xD)
        or 0x20 <= code <= 0xD7FF
        or 0xE000 <= code <= 0xFFFD
        or 0x10000 <= code <= 0x10FFFF
    )


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("id", "i" * 129, f"id is '{'i' * 64}'... (129 characters)"),
        ("group", list(range(99)), "group is [0, 1,"),
    ],
)
def test_a_long_value_is_cut_in_an_error_and_its_own_characters_are_counted(field, value, shown):
    """The limit in the same line counts them as well."""
    with pytest.raises(InvalidMessageError, match=re.escape(shown)):
        Message(kind="a.kind", **{field: value}).to_body()


def body_with(**fields):
    """Return the body of an event with these attributes."""
    return json.dumps({"specversion": "1.0", "type": "k", "id": "1", "source": "s", **fields})


@pytest.mark.parametrize(
    ("time", "read"),
    [
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59+00:00"),
        ("2016-12-31t23:59:60.5z", "2016-12-31T23:59:59.500000+00:00"),
        ("2017-01-01T00:59:60+01:00", "2017-01-01T00:59:59+01:00"),
    ],
)
def test_a_leap_second_is_a_time(time, read):
    """RFC 3339 allows it."""
    assert Message.from_body(body_with(time=time)).time.isoformat() == read


@pytest.mark.parametrize(("priority", "read"), [(50.0, 50), (-100.0, -100), (0.0, 0)])
def test_a_whole_number_is_a_priority_in_every_form(priority, read):
    """JSON has one sort of number, and some libraries write it with a point."""
    message = Message.from_body(body_with(priority=priority))

    assert (message.priority, type(message.priority)) == (read, int)


@pytest.mark.parametrize("priority", [50.5, 1e300])
def test_other_numbers_are_not(priority):
    """No rounding decides how urgent a message is."""
    with pytest.raises(MessageDecodeError, match="priority is"):
        Message.from_body(body_with(priority=priority))


@pytest.mark.parametrize(
    ("body", "cure"),
    [
        ("\ufeff" + body_with(), "byte order mark; write UTF-8 without one"),
        (
            json.dumps({"Type": "Notification", "TopicArn": "arn", "Message": "{}"}),
            "enable raw message delivery",
        ),
        (
            json.dumps({"detail-type": "x", "detail": {}, "source": "aws.s3"}),
            "an event of EventBridge; register",
        ),
        (json.dumps({"Records": [{"eventSource": "aws:s3", "s3": {}}]}), "a notification of S3; register"),
    ],
)
def test_an_event_of_another_service_names_its_cure(body, cure):
    """The reason of its dead letter is read at night."""
    with pytest.raises(MessageDecodeError, match=cure):
        Message.from_body(body)
