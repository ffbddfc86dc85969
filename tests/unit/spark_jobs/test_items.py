"""The fast path gives the same message as the slow one."""

import json
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.errors import MessageError, MessageTooLargeError
from lanes.message import LARGEST_BODY_BYTES, run_bytes
from lanes.runs import Mark
from spark_jobs.rows.reader import RowReader, moment

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
