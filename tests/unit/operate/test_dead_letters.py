"""Listing dead letters, and the notes that the consumer writes on them."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.consumer.settlement import DeadLetterNote
from lanes.errors import ConfigurationError
from lanes.operate.dead_letters import (
    FIELDS,
    DeadLetteredMessage,
    DeadLetterFilter,
    details_of,
    list_dead_letters,
    read_note,
    row_of,
)
from lanes.testing.clock import FakeClock
from tests.support.dead_letters import MemoryDeadLetters, depth_of, taken_from

LETTER = DeadLetteredMessage(
    lane="MAIN",
    message_id="dead-1",
    receipt_handle="r",
    body='{"type": "order.placed", "id": "order-7"}',
    group="customer-1",
    sent_at=1000.0,
    first_received_at=0.0,
    receive_count=1,
    attributes={"lanes.run": {"DataType": "String", "StringValue": "3-0123456789abcdef/statements"}},
    note={
        "reason": "attempts exhausted",
        "error": "TimeoutError: late",
        "dead_lettered_at": 2000.0,
        "message_id": "m-1",
    },
)


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [
        ({}, True),
        ({"kind": "order.*"}, True),
        ({"kind": "payment.*"}, False),
        ({"group": "customer-1"}, True),
        ({"group": "customer-*"}, False),
        ({"run": "statements"}, True),
        ({"run": "state*"}, False),
        ({"reason": "EXHAUSTED"}, True),
        ({"reason": "timeouterror"}, True),
        ({"reason": "no handler"}, False),
        ({"since": 2000.0}, True),
        ({"since": 2001.0}, False),
        ({"until": 2000.0}, False),
        ({"ids": ("other", "order-7")}, True),
        ({"ids": ("m-1",)}, True),
        ({"ids": ("dead-1",)}, True),
        ({"ids": ("dead-2",)}, False),
        ({"kind": "order.*", "group": "customer-2"}, False),
    ],
)
def test_a_filter_means_what_all_of_its_parts_mean(wanted, meant):
    """Groups are exact, since a group may contain any sign."""
    assert DeadLetterFilter(**wanted).matches(LETTER) is meant


@pytest.mark.parametrize("wanted", [{"reason": ""}, {"run": ""}, {"group": ""}, {"ids": ("order-7", "")}])
def test_a_filter_with_an_empty_text_is_refused(wanted):
    """It would mean all dead letters, those of no run, or those without an id of their own."""
    with pytest.raises(ConfigurationError, match="is empty; leave it out for any"):
        DeadLetterFilter(**wanted)


def test_a_dead_letter_that_sqs_moved_by_itself_has_no_note():
    """Its reason says so, and its time is that of sending, which is all that is known."""
    letter = dataclasses.replace(LETTER, note={}, body="<xml/>", moved_by_sqs=True)

    assert (letter.code, letter.reason) == ("moved_by_sqs", "moved by SQS after too many receives")
    assert (letter.kind, letter.event_id, letter.dead_at) == ("", "", 1000.0)


def test_a_dead_letter_without_a_note_that_sqs_did_not_move_is_not_said_to_be_moved():
    """Its body may have left no room for the note."""
    letter = dataclasses.replace(LETTER, note={})

    assert letter.code == "without_note"
    assert letter.reason.startswith("unknown: the consumer's note did not fit beside the body")


def test_a_look_leaves_order_and_number_as_they_are():
    """All is given back at the end."""
    queues = MemoryDeadLetters(FakeClock())
    for number in range(12):
        queues.put(number, group=f"g{number % 4}")

    listing = list_dead_letters(queues, "MAIN", DeadLetterFilter(), limit=100)

    assert (len(listing.letters), listing.beyond) == (12, 0)
    assert depth_of(queues.dead).in_flight == 0
    assert [number for group, number in taken_from(queues.dead) if group == "g1"] == [1, 5, 9]


def test_a_look_says_how_many_it_could_not_see():
    """No more than ten of a group are handed out at once."""
    queues = MemoryDeadLetters(FakeClock())
    for number in range(25):
        queues.put(number)

    listing = list_dead_letters(queues, "MAIN", DeadLetterFilter(), limit=100)

    assert [letter.event_id for letter in listing.letters] == [
        f"order.placed-{number}" for number in range(10)
    ]
    assert listing.beyond == 15


def test_a_look_that_fails_gives_back_what_it_has():
    """An error on the way does not leave messages hidden."""
    queues = MemoryDeadLetters(FakeClock())
    for number in range(20):
        queues.put(number, group=f"g{number}")

    def fail(name):
        if name == "dead_letters":
            raise RuntimeError("no counts")

    queues.before_call = fail
    with pytest.raises(RuntimeError):
        list_dead_letters(queues, "MAIN", DeadLetterFilter(), limit=100)

    assert depth_of(queues.dead).in_flight == 0


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
