"""Rows become messages, the same row always the same message."""

import json
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.errors import MessageError
from lanes.message import SQS_ID, Message
from spark_jobs.rows.reader import RowReader

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
