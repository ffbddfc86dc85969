"""The note of a dead letter, also one that a sender wrote."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.consumer.settlement import DeadLetterNote
from lanes.operate.dead_letters import FIELDS, details_of, read_note, row_of
from tests.unit.operate.test_dead_letters import LETTER

OURS = {
    **dataclasses.asdict(
        DeadLetterNote(
            reason="attempts exhausted",
            error="TimeoutError: late",
            attempts=5,
            yields=0,
            receives=9,
            first_received_at=1_800_000_000.5,
            dead_lettered_at=1_800_000_100.0,
        )
    ),
    "lane": "MAIN",
    "message_id": "afbdfcd6-4c44-7dc9-9983-f7057c06dc27",
    "deduplication_id": "order-7",
    "sent_at": 1_800_000_000.0,
    "attributes": {
        "tenant": {"DataType": "String", "StringValue": "t"},
        "image": {"DataType": "Binary", "BinaryValue": "aGk="},
    },
}


def test_every_field_that_we_write_is_read():
    """A list shows them all."""
    assert read_note(json.dumps(OURS)) == OURS
    assert OURS.keys() == FIELDS.keys()


@pytest.mark.parametrize("text", ["", "7", "[]", "null", "{", '"note"', "[" * 100_000])
def test_what_is_not_a_note_is_none(text):
    """Then the dead letter counts as moved by SQS."""
    assert read_note(text) == {}


@pytest.mark.parametrize(
    "foreign",
    [
        {"dead_lettered_at": "yesterday"},
        {"dead_lettered_at": 1e300},
        {"dead_lettered_at": float("nan")},
        {"first_received_at": -1},
        {"sent_at": True},
        {"attempts": "many"},
        {"attempts": {"n": 1}},
        {"deduplication_id": ["a"]},
        {"deduplication_id": "x" * 200},
        {"message_id": "half \ud800"},
        {"attributes": "tenant"},
        {"attributes": {"tenant": "t"}},
        {"attributes": {"tenant": {"DataType": "Binary", "BinaryValue": "?"}}},
        {"attributes": {"tenant": {"DataType": "String", "StringValue": "t", "Extra": "x"}}},
        {"reason": None},
        {"error": 7},
        {"anything": "else"},
    ],
    ids=lambda foreign: ascii(foreign)[:60],
)
def test_a_field_in_another_form_is_left_out(foreign):
    """SQS keeps a sender's attributes when it moves a message, so any sender can write a note."""
    assert read_note(json.dumps({**OURS, **foreign})) == {
        name: value for name, value in OURS.items() if name not in foreign
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda one: st.lists(one, max_size=2)
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, JSON)))
def test_no_note_breaks_a_list(note):
    """One such dead letter would hide all others from the operator."""
    letter = dataclasses.replace(LETTER, note=read_note(json.dumps(note)))

    row_of(letter)
    json.dumps(details_of(letter), default=str)
    letter.copied_as.encode("ascii")
