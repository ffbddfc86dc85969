"""Rows become messages, the same row always the same message, and an item is the message of its row."""

import json
import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.errors import MessageError, MessageTooLargeError
from lanes.message import LARGEST_BODY_BYTES, SQS_ID, Message, run_bytes
from lanes.runs import Mark
from spark_jobs.rows import RowReader, moment

READER = RowReader(kind="invoice.remind", priority=-100)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_columns_go_before_options():
    """The kind and priority of a row override the options."""
    row = {"kind": "invoice.issue", "data": {"n": 1}, "group": "g", "id": "i", "priority": 50}

    message = READER.message(row)

    assert (message.kind, json.loads(message.data), message.group, message.id, message.priority) == (
        "invoice.issue",
        {"n": 1},
        "g",
        "i",
        50,
    )


def test_nulls_leave_it_to_the_options():
    """A row that names nothing takes the kind and the priority of the options, and is its own group."""
    message = READER.message({"kind": None, "data": "[1]", "group": None, "priority": None})

    assert (message.kind, json.loads(message.data), message.group, message.priority) == (
        "invoice.remind",
        [1],
        None,
        -100,
    )
    assert message.message_group_id == f"spark#invoice.remind#{message.id}"


@pytest.mark.parametrize("given", [None, ""])
def test_an_empty_id_is_refused(given):
    """A derived one would make another message of the row, without a word."""
    with pytest.raises(ValueError, match="its id is null or empty; fill it, or leave the id out"):
        READER.item({"data": "1", "id": given}, 1)


def test_null_data_are_refused():
    """A handler would get null; whoever means it writes it."""
    with pytest.raises(ValueError, match="its data is null; for a message with null write the text 'null'"):
        READER.item({"data": None, "id": "a"}, 1)
    assert '"data":null' in READER.item({"data": "null", "id": "a"}, 1).body


def test_equal_rows_have_ids_by_their_number():
    """The first one has that of a row without equals."""
    ids = [READER.message({"data": "1"} | more).id for more in ({}, {"occurrence": 1}, {"occurrence": 2})]

    assert ids[0] == ids[1] != ids[2]


def test_priority_zero_is_a_priority():
    """Zero is not taken for a missing priority."""
    assert READER.message({"data": "1", "priority": 0}).priority == 0


def test_numbers_serve_as_group_and_id():
    """Keys of tables are often numbers; zero is one of them."""
    message = READER.message({"data": "1", "group": 0, "id": 42})

    assert (message.group, message.id) == ("0", "42")


@given(JSON_VALUES)
def test_the_same_row_has_the_same_id(data):
    """The id follows from the row alone."""
    first, again = READER.message({"data": {"x": data}}), READER.message({"data": {"x": data}})

    assert first.id == again.id
    assert Message.from_body(first.to_body()).id == first.id


@pytest.mark.parametrize("identity", [{}, {"id": "1"}])
def test_data_nested_too_deep_is_refused(identity):
    """The row is named, or set aside, instead of an error of Python that ends the task."""
    deep = 1
    for _ in range(3_000):
        deep = [deep]

    with pytest.raises((ValueError, MessageError), match=r"recursion|nested"):
        READER.item({"data": deep, **identity}, 1)


def test_the_order_of_columns_makes_no_other_message():
    """A table whose columns are written in another order has the same rows."""
    one, other = READER.message({"data": {"a": 1, "b": 2}}), READER.message({"data": {"b": 2, "a": 1}})

    assert one.id == other.id


TEXTS = [
    '{"n":12345678901234567.111}',
    '{"n":12345678901234567.222}',
    '{"a":1,"a":2}',
    '{"b":1, "a":2}',
    '{"a":2,"b":1}',
    "0.1000000000000000055",
    "1e2",
    "100.0",
    '"\\u00e9"',
    '"é"',
    " [1]\n",
]


def test_json_text_goes_out_as_it_came():
    """It is parsed to check it, never to write it anew: a float holds 17 digits, a dict one of two equal names."""
    for text in TEXTS:
        assert f'"data":{text},"priority"' in READER.item({"data": text}, 1).body

    assert len({READER.item({"data": text}, 1).identity for text in TEXTS}) == len(TEXTS)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e400"])
@pytest.mark.parametrize("text", ["{}", '{{"a":[{}]}}'])
def test_numbers_that_no_handler_could_read_are_refused(number, text):
    """A number beyond the floats would be infinite in a handler, which JSON lacks as much as NaN."""
    with pytest.raises(ValueError, match="its data is not a JSON document"):
        READER.item({"data": text.format(number), "id": "1"}, 1)


@pytest.mark.parametrize("year", [1, 9999])
def test_a_time_at_the_end_of_the_calendar_is_refused(year):
    """In UTC it is outside of Python's years: the row is named instead of an OverflowError that ends the task."""
    west, east = timezone(timedelta(hours=-5)), timezone(timedelta(hours=5))
    moment = datetime(1, 1, 1, tzinfo=east) if year == 1 else datetime(9999, 12, 31, 23, 59, tzinfo=west)

    with pytest.raises(ValueError, match="its data cannot be written as JSON"):
        READER.item({"data": {"at": moment}, "id": "1"}, 1)


@pytest.mark.parametrize(
    "other", [{"data": '{"n":2}'}, {"data": '{"n":1}', "kind": "other"}, {"data": '{"n":1}', "group": "g"}]
)
def test_another_row_has_another_id(other):
    """Kind, group and data each make a difference."""
    assert READER.message(other).id != READER.message({"data": '{"n":1}'}).id


def test_priority_makes_no_other_message():
    """Sent again with another urgency, a row is still the same message."""
    assert READER.message({"data": "1", "priority": 5}).id == READER.message({"data": "1"}).id


def test_a_row_without_any_kind_is_refused():
    """No kind is guessed."""
    with pytest.raises(ValueError, match="it has no kind"):
        RowReader(kind=None, priority=0).message({"data": "1"})


def test_a_rows_trace_goes_on_in_its_message_and_is_no_part_of_its_id():
    """A rerun in another trace sends the same messages."""
    traceparent = f"00-{'a' * 32}-{'b' * 16}-01"
    traced = {"data": "1", "traceparent": traceparent}

    assert READER.message(traced).traceparent == traceparent
    assert json.loads(READER.item(traced, 1).body)["traceparent"] == traceparent
    assert READER.message(traced).id == READER.message({"data": "1"}).id


def test_a_resend_of_a_dead_letter_is_another_message_for_sqs():
    """It would drop a repeat for five minutes; the id, the group and the effect stay the same."""
    row = {"data": {"n": 1}, "id": "7", "group": "g"}

    first, again, third = (
        READER.item(row | {"resend_of": letter}, 1) for letter in (None, "a" * 36, "b" * 36)
    )

    assert (first.identity, first.message_group_id) == (again.identity, again.message_group_id)
    ids = {one.message_deduplication_id for one in (first, again, third)}
    assert len(ids) == 3
    assert all(SQS_ID.fullmatch(one) for one in ids)


def test_the_source_can_be_set():
    """It tells the messages of two programs apart."""
    ours, theirs = (
        RowReader(kind="k", priority=0, source=name).item({"data": "1", "id": "7"}, 1) for name in "ab"
    )

    assert json.loads(ours.body)["source"] == "a"
    assert ours.message_deduplication_id != theirs.message_deduplication_id


TIME = re.compile(r'"time":"[^"]+"')
TEXT = st.text(max_size=140)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ROWS = st.fixed_dictionaries(
    {"data": VALUES.map(json.dumps) | st.dictionaries(TEXT, VALUES, max_size=3)},
    optional={
        "kind": st.sampled_from(["a.kind", "another kind", "é", "x" * 129]),
        "id": TEXT | st.integers(),
        "group": st.none() | TEXT | st.integers(),
        "priority": st.none() | st.integers(-200, 200),
        "traceparent": st.none() | TEXT,
    },
)


def test_a_character_that_sqs_refuses_is_escaped():
    """AWS: a body has no characters but those of XML 1.0 (API_SendMessage); in JSON each can be written as ASCII."""
    item = RowReader(kind="k", priority=0).item({"data": {"text": "é\ufffe!"}, "id": "1"}, 1)

    assert "\\ufffe!" in item.body
    assert "\ufffe" not in item.body
    assert json.loads(item.body)["data"] == {"text": "é\ufffe!"}


def outcome(make):
    """Give the result, or the error as text."""
    try:
        return make()
    except (MessageError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


@given(row=ROWS, mark=st.sampled_from([None, Mark("spring", 3)]))
def test_an_item_is_the_message_of_its_row(row, mark):
    """Body, ids, size and refusals are the same for both ways of making them."""
    reader = RowReader(kind="of.the.option", priority=-100, mark=mark)
    run = mark.text if mark else ""

    def long_way():
        message = reader.message(row)
        body = message.to_body()
        return (
            TIME.sub("", body, count=1),
            message.identity,
            message.message_group_id,
            message.message_deduplication_id,
            message.priority,
            run,
            len(body.encode()) + run_bytes(run),
        )

    def short_way():
        item = reader.item(row, 1)
        return (
            TIME.sub("", item.body, count=1),
            item.identity,
            item.message_group_id,
            item.message_deduplication_id,
            item.priority,
            item.run,
            item.size_bytes,
        )

    expected, actual = outcome(long_way), outcome(short_way)
    if isinstance(expected, tuple) and isinstance(actual, tuple):
        # The time of day may be written with or without its fraction.
        assert abs(expected[-1] - actual[-1]) <= len(".000000")
        expected, actual = expected[:-1], actual[:-1]
    assert actual == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("12.30"), "12.3"),
        (Decimal("12.00"), "12.0"),
        (Decimal(12), "12"),
        (Decimal(10**37 + 1), f"{10**37 + 1}"),
        (date(2026, 1, 2), '"2026-01-02"'),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), '"2026-01-02T03:00:00+00:00"'),
        ([("a", 1)], '[["a",1]]'),
    ],
)
def test_values_of_spark_are_written_as_json(value, text):
    """Dates, times and decimals have a form in JSON."""
    item = RowReader(kind="a.kind", priority=0).item({"data": {"value": value}}, 1)

    assert f'"data":{{"value":{text}}}' in item.body


@given(microseconds=st.integers(0, 253_402_300_799_999_999))
def test_a_moment_is_written_as_iso_8601(microseconds):
    """The time of a message is exact to the microsecond, at every second of every year."""
    expected = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)

    assert moment(microseconds * 1000 + 999) == expected.isoformat(timespec="microseconds")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {"inner": {1, 2}}])
def test_a_value_that_json_lacks_is_refused(value):
    """The fast encoder refuses it, and the error is that of the message."""
    with pytest.raises(ValueError, match="its data cannot be written as JSON"):
        RowReader(kind="a.kind", priority=0).item({"data": {"value": value}, "id": "1"}, 1)


def test_the_mark_of_a_run_is_a_part_of_the_size():
    """AWS counts attributes as well (API_SendMessage); SQS would refuse the whole call."""
    mark = Mark("spring", 25)
    envelope = RowReader(kind="k", priority=0).item({"data": '""', "id": "1"}, 1).size_bytes
    row = {"data": f'"{"x" * (LARGEST_BODY_BYTES - envelope)}"', "id": "1"}

    assert RowReader(kind="k", priority=0).item(row, 1).size_bytes == LARGEST_BODY_BYTES
    with pytest.raises(MessageTooLargeError, match="1,048,601 bytes"):
        RowReader(kind="k", priority=0, mark=mark).item(row, 1)


def test_a_member_is_no_repeat_of_a_dead_letter_nor_of_a_message_of_another_run():
    """SQS would drop it, and the run never end."""
    row = {"data": "{}", "id": "1", "kind": "k"}
    marks = [None, Mark("spring", 3), Mark("summer", 3)]
    rows = [row, row | {"resend_of": "letter"}]
    ids = {
        RowReader(kind=None, priority=0, mark=mark).item(one, 1).message_deduplication_id
        for mark in marks
        for one in rows
    }

    assert len(ids) == 4
