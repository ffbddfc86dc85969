"""Each phase of a redrive by itself, on one group's state."""

import dataclasses
from datetime import timedelta

import pytest

from lanes.holds import Hold, Holds, State
from lanes.operate.dead_letters import phases
from lanes.operate.dead_letters.group import Groups, LetterOrder
from lanes.operate.dead_letters.listing import DeadLetterFilter
from lanes.testing.calls import Calls
from lanes.testing.clock import FakeClock
from lanes.testing.overrides import MemoryHolds
from tests.support.dead_letters import MemoryDeadLetters, depth_of

HOLD = Hold(lane="MAIN", group="g", leader="original-0", id="m0", reason="r", error="", since=1)


@pytest.fixture
def queues():
    """A lane without anything in it."""
    return MemoryDeadLetters(FakeClock())


@pytest.fixture
def groups():
    """No group has been seen."""
    return Groups()


def held(state=State.HELD, **fields):
    """Return a held group's holds, and how it is held."""
    store = MemoryHolds(Calls())
    hold = dataclasses.replace(HOLD, state=state, **fields)
    store.found["MAIN", "g"] = hold
    return Holds(store), hold


def received(queues, groups, count, *, group="g"):
    """Put and receive letters of a group."""
    for number in range(count):
        queues.put(number, group=group)
    return groups.hide(queues.receive("MAIN", limit=10, hold=timedelta(seconds=9)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (State.ARRIVING, State.HELD),
        (State.RELEASED, None),
        (State.HELD, State.HELD),
        (State.OPEN, State.OPEN),
    ],
)
def test_a_leader_in_the_queue_has_arrived(queues, groups, before, after):
    """That ends a hold which was released before."""
    holds, _hold = held(before)

    found = phases.record_arrivals(holds, received(queues, groups, 2))

    assert found == holds.read("MAIN", ["g"])
    assert (found["g"].state if found else None) == after


@pytest.mark.parametrize("state", [State.ARRIVING, State.RELEASED])
def test_no_group_is_opened_before_its_leader_arrives(groups, state):
    """Nothing may pass in front of it."""
    holds, hold = held(state)

    phases.open_group(holds, groups["g"], hold)

    assert "on its way" in groups["g"].stopped
    assert holds.read("MAIN", ["g"])["g"] == hold


def test_a_group_is_opened_once_a_run(groups):
    """If it is held again meanwhile, no more of its copies are sent."""
    holds, hold = held()
    phases.open_group(holds, groups["g"], hold)
    opened = holds.read("MAIN", ["g"])["g"]
    phases.open_group(holds, groups["g"], opened)
    assert (opened.state, opened.opening, groups["g"].stopped) == (State.OPEN, groups["g"].opening, "")

    phases.open_group(holds, groups["g"], hold)

    assert "held again" in groups["g"].stopped


@pytest.mark.parametrize("state", [State.OPEN, State.RELEASING])
def test_the_opening_of_a_killed_run_goes_on(groups, state):
    """Its copies in the lane pass by that name."""
    holds, hold = held(state, opening="a1")

    phases.open_group(holds, groups["g"], hold)

    assert (groups["g"].opening, groups["g"].stopped) == ("a1", "")
    assert holds.read("MAIN", ["g"])["g"] == hold


def test_a_second_run_at_the_same_time_finds_the_group_opened(groups):
    """It read the hold before the other one opened it."""
    holds, hold = held()
    holds.open("MAIN", "g", opening="a1")

    phases.open_group(holds, groups["g"], hold)

    assert "another run" in groups["g"].stopped


def test_letters_behind_a_refused_one_of_their_group_stay(queues, groups):
    """Those of other groups are copied."""
    letters = [*received(queues, groups, 2), *received(queues, groups, 1, group="h")]
    queues.refuse = {"order.placed-0"}
    queues.put(5, group="i")
    other = groups.hide(queues.receive("MAIN", limit=10, hold=timedelta(seconds=9)))
    results = [
        phases.copy_wave(queues, groups, wave, lambda _: None)
        for wave in ([letters[0], *other], [letters[1]])
    ]

    assert [copied for copied, _failed in results] == [other, []]
    assert [list(failed) for _copied, failed in results] == [[letters[0].message_id], [letters[1].message_id]]
    assert groups["i"].sent == {other[0].copied_as("")}


def test_no_copy_is_announced_once_the_group_is_held_again(queues, groups):
    """So none is sent: it would follow into the dead-letter queue."""
    holds, hold = held()
    letters = received(queues, groups, 2)
    phases.open_group(holds, groups["g"], hold)
    holds.begin(dataclasses.replace(HOLD, leader="other"))

    phases.announce(holds, groups, letters)

    assert "held again" in groups["g"].stopped
    assert phases.copy_wave(queues, groups, letters[:1], lambda _: None)[0] == []
    assert queues.in_lane() == []


def test_a_letter_that_is_not_next_goes_to_the_end_and_is_no_longer_hidden(queues, groups):
    """The run knows it again by its new id."""
    letters = received(queues, groups, 3)
    groups["g"].order = LetterOrder()

    staying = phases.send_back_others(queues, groups, letters, DeadLetterFilter())

    assert (staying, groups.hidden, depth_of(queues.dead).backlog) == ([], [], 3)


def test_a_hold_with_a_letter_that_stays_does_not_end(queues, groups):
    """Nor is that a reason to work again; one with a follower since it was read is."""
    holds, hold = held()
    received(queues, groups, 1)
    assert phases.end_holds(holds, groups, [hold]) == (0, False)
    groups.forget(groups.hidden)
    holds.behind("MAIN", "g")

    assert phases.end_holds(holds, groups, [hold]) == (0, True)
    assert phases.end_holds(holds, groups, list(holds.held())) == (1, False)


def test_a_change_is_decided_again_if_another_writer_was_first():
    """The count of both is kept, and a refusal is that of the hold as it is by then."""
    store = MemoryHolds(Calls())
    other = Holds(store)
    other.begin(dataclasses.replace(HOLD, state=State.HELD))
    write, meanwhile = store.write, []

    def late(before, after):
        if meanwhile:
            meanwhile.pop()("MAIN", "g")
        return write(before, after)

    store.write = late
    racing = Holds(store)
    meanwhile.append(other.behind)
    assert racing.behind("MAIN", "g")
    assert [hold.behind for hold in store.held()] == [2]
    meanwhile.append(other.end)
    assert not racing.behind("MAIN", "g")
    assert store.held() == []
