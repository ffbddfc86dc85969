"""No wake-up of the pull engine is lost: a search over sends at every moment around an invocation's end."""

import itertools
from functools import partial
from random import Random

import pytest

from lanes.bell import COALESCING, MARGIN, RETURN_EVERY
from lanes.mapping.rules import ThrottleBackoff
from lanes.testing.clock import START
from simulator.parameters import Unknowns
from tests.simulation.loads import COLD_START_AND_CALLS, LONGEST_WAIT, needless_waits, pulling, send_apart

LANES = ("HIGH", "MEDIUM", "MAIN")
RINGS = (0.005, 0.03, 0.4)
"""Seconds from a send to its ring."""
MISSES = Unknowns(missed_polls=0.34)
APART = 9.0
LATE = 1.5
"""Seconds of a deletion that lands late."""


def pairs(slots, *, step, span=4.0, works=(0.0, 0.02, 0.5, 1.2), seed=1, **settings):
    """Send two messages again and again, the second one at each step of a span after the first."""
    lanes, chance, moment = pulling(slots, seed=seed, **settings), Random(seed), 1.0
    offsets = [number * step for number in range(int(span / step))]
    chance.shuffle(offsets)
    for number, offset in enumerate(offsets):
        first = moment + chance.random()
        for group, after in ((f"a{number}", first), (chance.choice("ab") + str(number), first + offset)):
            send_apart(
                lanes,
                chance.choice(LANES),
                after=after,
                group=group,
                seconds=chance.choice(works),
                late=chance.choice(RINGS),
            )
        moment = first + offset + APART
    lanes.run(seconds=moment + 60)
    assert lanes.done == lanes.sent
    return lanes


def longest(lanes):
    """Return the longest needless wait and its message."""
    return needless_waits(lanes)[0]


@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("linger", [0, 1])
def test_no_message_waits_while_a_slot_is_free(slots, linger):
    """Whenever it is sent, also when its ring is one with another's."""
    assert longest(pairs(slots, step=0.1, linger=linger))[0] < LONGEST_WAIT


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_no_message_waits_where_short_polls_miss(slots):
    """A slot that a ring has started leaves only after long polls, which ask all servers."""
    assert longest(pairs(slots, step=0.1, unknowns=MISSES))[0] < LONGEST_WAIT


@pytest.mark.parametrize(("slots", "seed"), [(2, 1), (3, 2)])
def test_no_message_waits_in_the_hand_of_a_slot_with_a_long_record(slots, seed):
    """Polls of several lanes may end with messages in each: those below go back, and another slot is rung for."""
    lanes = pairs(slots, step=0.1, works=(0.02, 8.0), seed=seed)

    assert longest(lanes)[0] < LONGEST_WAIT


def test_first_records_of_unknown_length_are_spread_over_the_slots():
    """A new environment receives one at first: it may take long."""
    lanes = pulling(2)
    for group in "ab":
        lanes.send("MAIN", group=group, seconds=20.0)
    lanes.run(seconds=60)

    assert lanes.done == 2
    assert longest(lanes)[0] < LONGEST_WAIT


@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=pytest.mark.nightly if seed else pytest.mark.deep) for seed in range(8)],
)
def test_no_message_waits_at_any_millisecond(slots, seed):
    """
    The same search on a fine grid.

    Where records of one lane take 20 ms or 8 s, a slot may have taken a short one with a long one before it.
    """
    for works, behind in (((0.0, 0.02, 0.5, 1.2), 0.0), ((0.02, 8.0), 8.0)):
        assert longest(pairs(slots, step=0.007, works=works, seed=seed))[0] < LONGEST_WAIT + behind


@pytest.mark.parametrize("slots", [2, 3, 10])
def test_a_message_whose_ring_waits_behind_a_long_record_is_seen_by_another_slot(slots):
    """Its group starts no other invocation, and of the second in which the long one came SQS has dropped the ring."""
    for tenth in range(0, 10 * slots + 20, 3):
        lanes = pulling(slots)
        send_apart(lanes, "MAIN", after=5.5, group="long", seconds=25.0)
        send_apart(lanes, "HIGH", after=5.5 + tenth / 10, group="g", seconds=0.05)
        lanes.run(seconds=5.5 + tenth / 10 + 4)

        assert lanes.done == 1, tenth
        assert longest(lanes)[0] < LONGEST_WAIT, tenth


@pytest.mark.parametrize("slots", [2, 3])
def test_a_message_of_the_second_of_a_record_that_is_unusually_long_is_seen(slots):
    """The slot has asked for ten and got one, so it knows of no more, and its ring was the only one."""
    for hundredth in range(5, 100, 10):
        lanes = pulling(slots)
        for number in range(40 * slots):
            send_apart(lanes, "MAIN", after=1.0 + number / 20, group=f"a{number}", seconds=0.02)
        send_apart(lanes, "MAIN", after=20.0, group="long", seconds=25.0)
        send_apart(lanes, "MAIN", after=20.0 + hundredth / 100, group="g", seconds=0.02)
        lanes.run(seconds=25)

        assert lanes.done == 40 * slots + 1, hundredth
        assert longest(lanes)[0] < LONGEST_WAIT, hundredth


def test_a_ring_behind_a_long_record_finds_the_one_slot_that_is_free():
    """Each of those that are busy rings for the next one."""
    for second in range(8):
        lanes = pulling(10)
        for number in range(9):
            send_apart(lanes, "MAIN", after=3.0 + number, group=f"long{number}", seconds=25.0)
        send_apart(lanes, "HIGH", after=14.5 + second, group="g", seconds=0.05)
        lanes.run(seconds=14.5 + second + 5)

        assert lanes.done == 1, second
        assert longest(lanes)[0] < LONGEST_WAIT + 2, second


def test_a_flood_wakes_the_slots_also_where_counts_are_old():
    """AWS's may be of a minute ago: then one more slot each second, by each that finds more than it takes."""
    lanes = pulling(10, unknowns=Unknowns(stale=30.0))
    for number in range(2_000):
        lanes.scheduler.after(5.0, partial(lanes.send, "MAIN", group=f"g{number}", seconds=0.05, rings=False))
    lanes.scheduler.after(5.0, partial(lanes.senders.ring_for, "MAIN"))
    lanes.run(seconds=25)

    assert lanes.done == 2_000


def test_a_single_message_starts_one_slot_of_many():
    """A slot for each send, however many there are: thin traffic costs the same with ten and with two hundred."""
    invoked = {}
    for slots in (1, 10, 200):
        lanes = pulling(slots)
        for number in range(20):
            send_apart(lanes, LANES[number % 3], after=5.0 + 3.3 * number, group=f"g{number}", seconds=0.05)
        lanes.run(seconds=80)
        assert lanes.done == 20
        invoked[slots] = lanes.function.times.invoked
    assert invoked[200] == pytest.approx(invoked[10], rel=0.05)
    assert invoked[200] < 1.2 * invoked[1]


@pytest.mark.parametrize("work", [0.05, 0.5, pytest.param(5.0, marks=pytest.mark.deep)])
def test_one_ring_wakes_as_many_slots_as_a_flood_needs(work):
    """The first one that finds more than it takes wakes all others."""
    slots = 100
    lanes = pulling(slots)
    for number in range(500):
        lanes.scheduler.after(5.0, partial(lanes.send, "MAIN", group=f"g{number}", seconds=work, rings=False))
    lanes.scheduler.after(5.0, partial(lanes.senders.ring_for, "MAIN"))
    lanes.run(seconds=5 + 500 / slots * work + 30)

    assert lanes.done == 500
    ended = sorted(one.started_at for one in lanes.handled)
    assert ended[-1] - START - 5.0 < 500 / slots * work + 5


@pytest.mark.parametrize("slots", [2, 3])
def test_one_ring_is_enough_for_several_slots(slots):
    """Work for all of them comes with one ring; each slot that sees more than it takes rings for the others."""
    lanes = pulling(slots)
    for number in range(40 * slots):
        lanes.scheduler.after(
            5.0, lambda number=number: lanes.send("MAIN", group=f"g{number}", seconds=0.5, rings=False)
        )
    lanes.scheduler.after(5.0, partial(lanes.senders.ring_for, "MAIN"))
    lanes.run(seconds=120)

    last = max(one.finished_at for one in lanes.handled) - START - 5.0
    assert last < 40 * 0.5 + 3


@pytest.mark.parametrize("slots", [1, 3])
def test_a_backlog_is_worked_off_without_a_pause_where_short_polls_miss(slots):
    """Also over the ends of invocations, each of which leaves work to the next."""
    lanes = pulling(slots, unknowns=MISSES)
    for number in range(200 * slots):
        lanes.send("MAIN", group=f"g{number}", seconds=0.5)
    lanes.run(seconds=300)

    assert lanes.done == lanes.sent
    assert longest_pause(lanes) < LONGEST_WAIT


def longest_pause(lanes):
    """Return the longest time without a start."""
    starts = sorted(one.started_at for one in lanes.handled)
    return max(later - earlier for earlier, later in itertools.pairwise(starts))


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_messages_behind_a_late_deletion_follow_at_once(slots):
    """The tail of a group waits for the deletion of its head, not for the next ring."""
    lanes = pulling(slots)
    usual = lanes.calls.takes

    def takes(operation):
        usual(operation)
        if operation == "DeleteMessageBatch":
            lanes.scheduler.sleep(LATE)

    lanes.calls.takes = takes
    for number in range(60):
        lanes.scheduler.after(
            1.0 + number * 0.001, lambda: lanes.send("MAIN", group="one", seconds=0.05, rings=False)
        )
    lanes.scheduler.after(1.0, partial(lanes.senders.ring_for, "MAIN"))
    lanes.run(seconds=60)

    assert lanes.done == 60
    assert longest_pause(lanes) < LATE + COLD_START_AND_CALLS


@pytest.mark.parametrize("slots", [1, 3])
def test_a_message_without_a_ring_waits_for_the_heartbeat(slots):
    """Twenty seconds at most."""
    lanes = pulling(slots)
    for number in range(30):
        send_apart(lanes, LANES[number % 3], after=30 + 33.3 * number, group=f"g{number}", rings=False)
    lanes.run(seconds=1_200)

    assert lanes.done == 30
    assert longest(lanes)[0] < RETURN_EVERY + COLD_START_AND_CALLS


def test_a_message_without_a_ring_is_served_in_a_lane_with_fewer_slots():
    """The heartbeat's invocation may be one too many for it: then it rings for the first slots."""
    above = {"name": "HIGH", "threshold": 50}
    lanes = pulling(3, lanes=[above, {"name": "MAIN", "maximum_concurrency": 2}])
    send_apart(lanes, "MAIN", after=30, group="g", rings=False)
    lanes.run(seconds=120)

    assert lanes.done == 1
    assert longest(lanes)[0] < RETURN_EVERY + COLD_START_AND_CALLS + 1


@pytest.mark.parametrize("slots", [1, 3])
def test_a_retry_is_served_when_its_backoff_is_over(slots):
    """All slots have left by then; the heartbeat finds it."""
    lanes = pulling(slots, backoff_base=30, backoff_max=30)
    lanes.scheduler.after(2.0, lambda: lanes.send("MAIN", group="g", seconds=0.1, fault="once"))
    lanes.run(seconds=120)

    assert lanes.done == 1
    assert (
        lanes.handled[0].started_at - lanes.handled[0].sent_at < 30 + RETURN_EVERY + 2 * COLD_START_AND_CALLS
    )


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("retries", [True, False])
def test_throttled_rings_lose_no_message(slots, retries):
    """
    More rings than a function may start, ten a second for each slot.

    A ring that Lambda drops comes back after its visibility timeout.
    """
    unknowns = Unknowns(backoff=ThrottleBackoff(retries=retries))
    lanes = pulling(slots, unknowns=unknowns)
    for number in range(300):
        send_apart(lanes, LANES[number % 3], after=5.0 + number * 0.1, group=f"g{number}")
    lanes.run(seconds=120)

    assert lanes.done == 300
    assert longest(lanes)[0] < LONGEST_WAIT


def test_the_ring_of_a_messages_second_is_heard_until_the_second_is_over():
    """One that is sent at the end of it, by a process that does not ring again."""
    for hundredth in range(0, 100, 5):
        lanes = pulling(1)
        lanes.scheduler.after(5.0 + hundredth / 100, partial(lanes.senders.ring_for, "HIGH"))
        send_apart(lanes, "HIGH", after=5.995, group="g", rings=False)
        lanes.run(seconds=15)

        assert lanes.done == 1
        assert longest(lanes)[0] < COALESCING + MARGIN


@pytest.mark.parametrize("slots", [1, 10])
def test_a_slot_of_a_single_message_leaves_when_its_second_is_over(slots):
    """Rather than stay a second and a quarter in whole polls: with thin traffic that is nearly all of its bill."""
    stays = []
    for tenth in range(10):
        lanes = pulling(slots)
        lanes.scheduler.after(5.0, partial(lanes.send, "MEDIUM", group="first", seconds=0.05))
        lanes.run(seconds=25.05 + tenth / 10)
        before = lanes.function.times.invoked
        send_apart(lanes, "MEDIUM", after=0.0, group="g", seconds=0.05)
        lanes.run(seconds=10)

        assert lanes.done == 2
        stays.append((lanes.function.times.invoked - before) / slots)
    assert sum(stays) / len(stays) < 1.5
