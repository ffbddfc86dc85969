"""The outbox's protocol, searched exhaustively: two relays, crashes, ended locks, refusals, lost answers, operators."""

from dataclasses import replace

import pytest

from tests.model.outbox_protocol import (
    A_DEAD_CLAIM,
    HIGH,
    LOW,
    NOBODY,
    PENDING,
    PROCESSING,
    PUBLISHED,
    Entry,
    Mistakes,
    Protocol,
    RelayState,
    State,
)
from tests.model.search import Violation, explore
from tests.model.sql_protocol import ABSENT, PARKED, READY, Process, SqlProtocol
from tests.model.sql_protocol import State as SqlState

pytestmark = pytest.mark.nightly

LIMIT = 2_000_000


def start(*entries, relays=2, **budgets):
    """Give the first state; relays are a number of idle ones, or where each is."""
    relays = (RelayState(),) * relays if isinstance(relays, int) else relays
    return State(entries=entries, relays=relays, **budgets)


GROUP = (Entry("g", LOW), Entry("g", LOW))
FIRST = Entry("g", LOW, state=PROCESSING, owner=A_DEAD_CLAIM, ready=False, timer=True)
WAITS = Entry("g", LOW, ready=False, parked=True)
# Of a group that waits as one; the relay that had its first entry has died.
PARKED_GROUP = (FIRST, WAITS, WAITS)
TIMER = frozenset({FIRST.chain})
SCENES = {
    "a group, two relays, crash and refusal": start(*GROUP, expiries=1, moves=0),
    "a group, locks that end twice": start(*GROUP, crashes=0, failures=0, expiries=2, moves=0),
    "a group across lanes, moved by an operator": start(
        Entry("g", LOW), Entry("g", HIGH), relays=1, crashes=1, failures=1, expiries=1, moves=1
    ),
    "three of a group, one relay": start(
        *GROUP, Entry("g", LOW), relays=1, crashes=1, failures=2, expiries=2, moves=0
    ),
    "a group beside a single urgent entry": start(
        *GROUP, Entry(None, HIGH), crashes=1, failures=0, expiries=1, moves=0
    ),
    "an operator beside two relays": start(*GROUP, crashes=0, failures=0, expiries=0, moves=1),
    "a group that waits as one": start(
        *PARKED_GROUP, crashes=2, failures=0, expiries=0, moves=0, relays=1, timers=TIMER
    ),
    "an operator beside a group that waits": start(
        *PARKED_GROUP, crashes=1, failures=0, expiries=0, moves=1, relays=1, timers=TIMER
    ),
    "a timer of a group that was empty": start(
        replace(FIRST, lane=HIGH, owner=0, in_queue=True),
        replace(FIRST, state=PENDING, owner=NOBODY, ready=True, timer=False),
        relays=(RelayState("mark", held=(0,), outcomes=((0, PUBLISHED),)), RelayState()),
        crashes=1,
        failures=0,
        expiries=0,
        moves=1,
        timers=frozenset({"1#g"}),
        looking=("1#g", False),
    ),
}


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_nothing_is_lost_out_of_order_or_stuck(scene):
    """Every interleaving of the scene was visited."""
    states, without_end = explore(scene, Protocol(), limit=LIMIT)

    assert states > 100
    assert without_end[:1] == []


@pytest.mark.parametrize(
    ("mistake", "found"),
    [
        ("mark_before_publish", "is lost"),
        ("claim_by_read_then_write", "two relays hold entry"),
        ("mark_after_lock_lost", "(was published and is FAILED again|which another one holds)"),
        ("ignore_group_order", "was sent before entry"),
    ],
)
def test_a_known_mistake_is_found(mistake, found):
    """The search would not be worth much if it missed what others got wrong."""
    scene = start(*GROUP, crashes=1, failures=1, expiries=1, moves=0)

    with pytest.raises(Violation, match=found):
        explore(scene, Protocol(Mistakes(**{mistake: True})), limit=LIMIT)


@pytest.mark.parametrize("mistake", ["park_without_timer", "park_before_timer"])
def test_parking_without_a_timer_gets_stuck(mistake):
    """A relay that dies between a mark and the wake after it leaves nobody to wake the next of the group."""
    scene = start(*GROUP, crashes=2, failures=0, expiries=1, moves=0)

    _, without_end = explore(scene, Protocol(Mistakes(**{mistake: True}), batch=1), limit=LIMIT)
    assert without_end


def sql_start(count, *, written=0, relays=1, **budgets):
    """Give a group of some written entries and a writer for each of the others."""
    entries = (READY, *(PARKED for _ in range(written - 1)))[:written] + (ABSENT,) * (count - written)
    writers = tuple(Process("write", entry=number) for number in range(written, count))
    processes = (*writers, *(Process("begin") for _ in range(relays)))
    return SqlState(entries=entries, owners=(-1,) * count, processes=processes, **budgets)


SQL_SCENES = {
    "two writers and a relay that dies": sql_start(2),
    "two writers and two relays": sql_start(2, relays=2, crashes=0, expiries=0),
    "three of a group and a relay": sql_start(3, written=1, crashes=0, expiries=1),
    "a writer behind an entry, and relays that die": sql_start(2, written=1, relays=2, expiries=0),
    "a writer behind an entry, and a lock that ends": sql_start(2, written=1, relays=2, crashes=0),
}


@pytest.mark.parametrize("scene", SQL_SCENES.values(), ids=SQL_SCENES)
def test_nothing_is_lost_out_of_order_or_stuck_at_read_committed(scene):
    """Every interleaving of statements, row locks and commits was visited."""
    states, without_end = explore(scene, SqlProtocol(), limit=LIMIT)

    assert states > 100
    assert without_end[:1] == []


@pytest.mark.parametrize("mistake", ["lists_parked", "keeps_claimed"])
def test_without_the_rows_of_its_table_a_group_gets_stuck(mistake):
    """A writer parks its entry behind one that a relay ends at the same moment, and neither sees the other."""
    protocol = SqlProtocol(**{mistake: False})
    _, without_end = explore(SQL_SCENES["two writers and two relays"], protocol, limit=LIMIT)

    assert without_end


@pytest.mark.parametrize(
    ("mistake", "scene"),
    [
        ("end_timer_at_wake", "a group that waits as one"),
        ("end_timer_set_since", "a timer of a group that was empty"),
    ],
)
def test_a_timer_that_ends_before_its_group_gets_the_rest_stuck(mistake, scene):
    """A relay dies before it wakes them, and another one has ended the timer of the group, or is just doing so."""
    _, without_end = explore(SCENES[scene], Protocol(Mistakes(**{mistake: True})), limit=LIMIT)
    assert without_end
