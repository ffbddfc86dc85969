"""Keys that are joined from parts: two different tuples of parts never have one key."""

import dataclasses

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lanes.aws import audit, overrides
from lanes.aws.ledger import LONGEST_KEY, effect_key, entry_key
from lanes.config.lanes import NAME
from lanes.message import REDRIVEN, Message, identity_of
from lanes.outbox.dynamodb import table
from lanes.outbox.entry import Entry, chain_of
from lanes.overrides import MOVED_ID

# Few characters, so that two examples often differ in the place of the separator only.
TEXTS = st.text("#%23-a|", min_size=1, max_size=5)
LANES = st.from_regex(NAME, fullmatch=True) | st.sampled_from(["A", "A-a", "A_2"])
POSITIONS = st.integers(0, 10**20 - 1) | st.integers(0, 30)
ENTRY = Entry(
    id="", kind="k", source="s", group="g", body="", priority=0, lane="A", position=0, created_at=0.0
)


def outbox_entry(position, identity):
    return dataclasses.replace(ENTRY, position=position, id=identity)


JOINED = {
    "identity": (st.tuples(TEXTS, TEXTS, TEXTS), identity_of),
    "effect": (st.tuples(TEXTS, TEXTS, TEXTS), lambda *parts: effect_key(identity_of(*parts))["pk"]["S"]),
    "entry": (st.tuples(LANES, TEXTS), entry_key),
    "redirect": (st.tuples(LANES, TEXTS), lambda *parts: overrides.redirect_key(*parts)["pk"]["S"]),
    "copy": (st.tuples(LANES, TEXTS), audit._key),
    "chain": (st.tuples(LANES, TEXTS), chain_of),
    "outbox partition": (st.tuples(TEXTS, st.none() | TEXTS), table.partition_of),
    "outbox position": (
        st.tuples(POSITIONS, TEXTS),
        lambda *parts: table.key_of(outbox_entry(*parts))["sk"]["S"],
    ),
    "outbox claim": (
        st.tuples(st.integers(-9, 9), POSITIONS, TEXTS),
        lambda priority, *parts: table.claim_order(outbox_entry(*parts), priority),
    ),
    "outbox chain": (
        st.tuples(LANES, POSITIONS, TEXTS),
        lambda lane, *parts: table.chain_order(outbox_entry(*parts), lane),
    ),
}


@pytest.mark.parametrize("name", JOINED)
@given(data=st.data())
def test_different_parts_have_different_keys(name, data):
    """Wherever a part holds the separator of another one."""
    parts, key = JOINED[name]
    one, other = data.draw(parts), data.draw(parts)
    if name == "outbox partition":
        # The entries of a group share their partition.
        one, other = ((identity if group is None else None, group) for identity, group in (one, other))

    assert (key(*one) == key(*other)) == (one == other)


@given(source=st.text(min_size=1), identity=st.text(min_size=1), other=st.text(min_size=1))
@example(source="shop", identity="eu#7", other="shop#eu")
def test_an_event_is_not_taken_for_one_of_another_source(source, identity, other):
    """Any source and id: no id makes another source, or another kind, have the same key."""
    key, prefix = identity_of(source, "k", identity), identity_of(other, "k", "")
    assert source == other or not identity_of("s", source, identity).startswith(identity_of("s", other, ""))

    assert source == other or not key.startswith(prefix)


def test_a_long_key_is_not_that_of_an_event_named_like_its_hash():
    """Long keys are hashed, and a hash may be another event's id."""
    hashed = effect_key("x" * (LONGEST_KEY + 1))["pk"]["S"]

    assert effect_key(hashed.partition("#")[2]) != effect_key("x" * (LONGEST_KEY + 1))
    assert effect_key(f"sha256:{hashed.partition('#')[2]}")["pk"]["S"] != hashed


@pytest.mark.parametrize("name", ["redrive-7", "moved-9999999999999-7"])
@pytest.mark.parametrize("field", ["id", "deduplication_id"])
def test_no_sender_names_a_message_like_a_copy_or_a_moved_one(name, field):
    """Schedules would not look at it, and overrides would leave it alone."""
    chosen = Message(kind="k", **{field: name}).message_deduplication_id

    assert not chosen.startswith(REDRIVEN)
    assert not MOVED_ID.fullmatch(chosen)
    assert chosen == Message(kind="k", **{field: name}).message_deduplication_id
