"""An entry's message: its body as it was written, but for what an operator or the relay changed."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.encoding import with_members
from lanes.errors import MessageDecodeError
from lanes.outbox.entry import Entry
from tests.support.sending import FakeSqs, make_producer

BODY = """ { "type":"order.placed", "id":"a", "source":"shop", "specversion":"1.0", "subject":"7",
  "data":{"n":0.1000000000000000055,"a":1,"a":2}, "priority" : 50 } """
ENTRY = Entry(
    id="a",
    kind="order.placed",
    source="shop",
    group=None,
    body=BODY,
    priority=50,
    lane="HIGH",
    position=0,
    created_at=0.0,
)


def sent(entry):
    """Return the body that a relay's producer sends."""
    sqs = FakeSqs()
    make_producer(sqs).send_many([entry.message()])
    ((one,),) = sqs.queues.values()
    return one.body


def test_the_entry_of_another_program_is_sent_as_it_was_written():
    """Its numbers, names, spaces and members that lanes does not know are its own."""
    assert sent(ENTRY) == BODY


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"priority": -100}, BODY.replace("50", "-100")),
        ({"id": "b"}, BODY.replace('"a", "source"', '"b", "source"')),
        ({"body": BODY.replace("50", '"50"')}, BODY.replace("50", '"50"')),
        (
            {"body": BODY.replace(', "priority" : 50', "")},
            BODY.replace(', "priority" : 50', "").replace(' { "type"', ' {"priority":50, "type"'),
        ),
    ],
)
def test_only_what_the_entry_says_otherwise_is_written_anew(changes, expected):
    """The priority of an operator; an id column that differs from the body's."""
    assert sent(replace(ENTRY, **changes)) == expected


def test_a_number_beyond_the_floats_is_refused():
    """As NaN is: no handler could read it."""
    with pytest.raises(MessageDecodeError, match="is larger than any number"):
        replace(ENTRY, body=BODY.replace("0.1000000000000000055", "1e999")).message()


MEMBERS = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=4)


@given(MEMBERS, MEMBERS, st.sampled_from([None, 1]))
def test_members_are_changed_and_added(members, changes, indent):
    """Wherever they are, in an empty object too."""
    text = with_members(
        json.dumps(members, indent=indent), {name: json.dumps(value) for name, value in changes.items()}
    )

    assert json.loads(text) == members | changes
