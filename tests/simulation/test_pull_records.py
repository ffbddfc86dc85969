"""Records of the pull engine in virtual time: their calls, and a whole invocation after one that killed its process."""

from __future__ import annotations

import itertools

import pytest

from lanes.config import LanesConfig
from simulator.simulated_lanes import Pattern, SimulatedLanes
from tests.simulation.loads import LONGEST_WAIT, pulling, send_apart

WORK = 0.2


def drained(groups, *, messages=200):
    """Return one slot's lanes after a backlog of MAIN."""
    lanes = pulling(1)
    for number in range(messages):
        lanes.send("MAIN", group=f"g{number % groups}", seconds=WORK)
    assert lanes.settle(within=120)
    return lanes


def test_one_group_costs_at_most_one_more_receive_a_batch():
    """Its next records are blocked until the deletion of those in hand."""
    one, many = (drained(groups).calls.counts["ReceiveMessage"] for groups in (1, 10))

    assert one <= many + 200 / 10 + 5


def test_a_batch_that_was_set_aside_for_a_short_record_goes_on_at_once():
    """Without a look of its own, since one beside the short record is new enough."""
    lanes = pulling(1)
    for _ in range(30):
        lanes.send("MAIN", group="g", seconds=WORK)
    for number in range(9):
        lanes.scheduler.after(
            1.0 + number / 2, lambda at=number: lanes.send("HIGH", group=f"h{at}", seconds=0.05)
        )
    assert lanes.settle(within=60)

    handled = sorted(lanes.handled, key=lambda one: one.started_at)
    gaps = sorted(
        after.started_at - before.finished_at
        for before, after in itertools.pairwise(handled)
        if (before.lane, after.lane) == ("HIGH", "MAIN")
    )
    # A deletion and a look come between: none before it could see the next record of that group. The others end with a
    # batch, and its group has to be received.
    assert gaps[len(gaps) // 2] < 4 * lanes.unknowns.call


def test_a_record_that_was_killed_starts_in_a_new_invocation():
    """No environment knows how long it takes, since the one that began it is gone."""
    config = LanesConfig.from_dict({"consumer": {"engine": "pull", "function_timeout": "30s"}})
    lanes = SimulatedLanes(config, pattern=Pattern.PULL, seed=1)
    lanes.scheduler.after(31, lambda: lanes.send("HIGH", group="long", seconds=10.0))
    lanes.scheduler.after(33, lambda: lanes.function.kill(1))
    for second in range(34, 150):
        lanes.scheduler.after(
            second, lambda second=second: lanes.send("MAIN", group=f"m{second}", seconds=0.01)
        )

    lanes.run(seconds=150)

    assert lanes.settle(within=60)
    # At its second start its attempt is written ahead, so its second death is known to be its own.
    assert lanes.function.times.lost == 2
    (long_one,) = [one for one in lanes.handled if one.group == "long"]
    # A dead process keeps it for the rest of its invocation, up to 32 s.
    assert long_one.started_at - long_one.sent_at < 72


def test_records_received_with_a_long_one_start_in_other_slots():
    """The first long record of an environment can not be foreseen, so those behind it return while it runs."""
    lanes = pulling(3)
    for number in range(60):
        send_apart(lanes, "HIGH", after=0.02 * number, group=f"h{number}", seconds=0.02)
    for number in range(9):
        send_apart(lanes, "HIGH", after=10, group=f"x{number}", seconds=20.0 if number == 0 else 0.02)
    for number in range(400):
        send_apart(lanes, "MAIN", after=9.9, group=f"m{number}", seconds=0.02)

    lanes.run(seconds=11)
    assert lanes.settle(within=120)

    waits = {one.group: one.started_at - one.sent_at for one in lanes.handled if one.group.startswith("x")}
    assert len(waits) == 9
    assert max(waits.values()) < 1
    assert lanes.tally.counts["Failed"] == 0


@pytest.mark.parametrize("slots", [2, 3])
def test_a_record_that_returns_beside_a_long_one_wakes_another_slot(slots):
    """No sender rang for it, and the slot has long been at work, so nobody else would."""
    lanes = pulling(slots)
    for number in range(40):
        send_apart(lanes, "HIGH", after=5 + 0.2 * number, group=f"h{number}", seconds=0.02, rings=number == 0)
    for group, seconds in (("long", 20.0), ("behind", 0.02)):
        send_apart(lanes, "HIGH", after=12.07, group=group, seconds=seconds, rings=False)
    lanes.run(seconds=15)

    (behind,) = [one for one in lanes.handled if one.group == "behind"]
    assert behind.started_at - behind.sent_at < LONGEST_WAIT


def test_a_look_that_could_not_see_a_group_lets_no_long_record_start():
    """The slot itself held the group while it looked, so one more message of it was sent unseen."""
    lanes = pulling(1, function_timeout="90s")
    for number in range(10):
        send_apart(lanes, "HIGH", after=1 + 0.5 * number, group=f"w{number}", seconds=0.1)
    for number in range(3):
        send_apart(lanes, "MAIN", after=10, group=f"m{number}", seconds=30.0)
    for group in ("a", "b"):
        send_apart(lanes, "HIGH", after=15, group=group, seconds=0.1)

    def follow():
        """Send one more of the second group while its first one runs."""
        if any(one.group == "a" for one in lanes.handled):
            lanes.scheduler.after(0.02, lambda: lanes.send("HIGH", group="b", seconds=0.1, rings=False))
        else:
            lanes.scheduler.after(0.005, follow)

    lanes.scheduler.after(15, follow)
    lanes.run(seconds=120)

    *_, last = [one for one in lanes.handled if one.group == "b"]
    assert last.started_at - last.sent_at < 0.3
