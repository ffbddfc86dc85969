"""Looks at the lanes: the receives of a slot, its records in hand, and its deletions."""

from __future__ import annotations

import dataclasses
import itertools
from functools import partial

import pytest

from lanes.config import LanesConfig
from lanes.consumer.engines.looks import Looking, Looks, Paused
from lanes.consumer.engines.pace import TRIES, Pace
from lanes.testing.calls import Calls
from lanes.testing.clock import FakeClock
from lanes.testing.table import MemoryPauses
from tests.support.memory import Late, Recorder, aws_error, record_with


class Queues:
    """Lanes as lists of records, and a list of the calls for them; a lane or a deletion may fail."""

    def __init__(self):
        self.waiting = {}
        self.calls = []
        self.broken = set()
        self.undeletable = []
        self.done = []

    def receive(self, lane, *, maximum, visibility, wait):
        self.calls.append((lane, maximum, visibility, wait))
        if lane in self.broken:
            raise aws_error("ReceiveMessage")
        found = self.waiting.get(lane, [])
        self.waiting[lane] = found[maximum:]
        return found[:maximum]

    def delete(self, lane, records):
        ids = [record.message_id for record in records]
        self.calls.append((lane, *ids))
        if self.undeletable:
            answer = self.undeletable.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        return []


@dataclasses.dataclass
class Bench:
    """Looks over three lanes with one slot, all calls beside the handler made late."""

    looks: Looks
    queues: Queues
    clock: FakeClock
    recorder: Recorder
    lanes: tuple

    def asked(self):
        """Return the lanes that were asked, and forget them."""
        calls, self.queues.calls = self.queues.calls, []
        return [call[0] for call in calls]


@pytest.fixture
def bench():
    """Give an empty bench."""
    config = LanesConfig.from_dict({"consumer": {"engine": "pull"}})
    clock, queues, recorder = FakeClock(), Queues(), Recorder()
    looking = Looking(
        queues=queues, beside=Late(), pace=Pace(config.consumer), telemetry=recorder, clock=clock
    )
    return Bench(
        Looks(looking, seconds_left=lambda: 20.5, keep_done=lambda *kept: queues.done.append(kept)),
        queues,
        clock,
        recorder,
        config.lanes,
    )


def records(*names, group="g"):
    """Return records of one group."""
    return [record_with(name, group=group) for name in names]


def outage(bench, *, seconds, lanes):
    """Look at lanes often, HIGH failing; return the times at which HIGH was asked, from the start."""
    began, asked = bench.clock(), []
    bench.queues.broken.add("HIGH")
    while bench.clock() - began < seconds:
        bench.looks.look(lanes, expected=10.0)
        asked += [bench.clock() - began] * bench.asked().count("HIGH")
        bench.clock.advance(0.06)
    return asked


def test_the_pauses_of_a_lane_that_fails_grow_to_a_bound(bench):
    """The others keep their pace, and the first failure may be a single one: it has no pause."""
    asked = outage(bench, seconds=60, lanes=bench.lanes[:1])

    gaps = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert gaps[0] < 0.1
    assert sorted(gaps) == pytest.approx(gaps, abs=0.1)
    assert 4.9 < gaps[-1] < 5.1
    bench.looks.look(bench.lanes, expected=10.0)
    assert bench.asked()[-2:] == ["MEDIUM", "MAIN"]
    # The first answer ends it: the next failure has no pause again.
    bench.queues.broken.clear()
    bench.clock.advance(5.1)
    bench.looks.look(bench.lanes[:1], expected=10.0)
    assert (bench.asked(), bench.looks.failed) == (["HIGH"], set())
    bench.clock.advance(1)
    assert outage(bench, seconds=0.2, lanes=bench.lanes[:1])[:2] == pytest.approx([0.0, 0.06])


def test_a_lane_that_fails_is_asked_although_the_clock_was_set_back(bench):
    """Its next try would be ten minutes away."""
    outage(bench, seconds=60, lanes=bench.lanes[:1])
    bench.clock.now -= 600

    bench.looks.look(bench.lanes[:1], expected=10.0)

    assert bench.asked() == ["HIGH"]


def test_the_tail_of_a_group_waits_for_the_deletion_before_it(bench):
    """A look that began before the deletion landed could not see the records behind it."""
    bench.queues.waiting["HIGH"] = records("m1", "m2")
    bench.looks.look(bench.lanes[:1], expected=0.0)
    bench.asked()
    bench.looks.delete(bench.lanes[0], bench.looks.hands.pop("HIGH"))
    assert bench.queues.calls == []

    bench.queues.waiting["HIGH"] = records("m3")
    bench.looks.look(bench.lanes[:1], expected=0.0)

    assert bench.queues.calls[0] == ("HIGH", "m1", "m2")
    assert [record.message_id for record in bench.looks.hands["HIGH"]] == ["m3"]


def test_a_deletion_that_failed_is_repeated_once(bench):
    """If it is refused again, each record is counted as a failed call, and kept as done."""
    bench.queues.undeletable = [aws_error(), [], ["m2"], ["m2"]]

    for name in ("m1", "m2"):
        bench.looks.delete(bench.lanes[0], records(name))
        bench.looks.land(bench.lanes[0])

    assert bench.queues.calls == [("HIGH", "m1"), ("HIGH", "m1"), ("HIGH", "m2"), ("HIGH", "m2")]
    assert [name for name, _ in bench.recorder.problems] == ["records_not_deleted"]
    bench.queues.undeletable = [["m3", "m4", "m5"]] * 2
    bench.looks.delete(bench.lanes[0], records("m3", "m4", "m5"))
    bench.looks.land(bench.lanes[0])
    assert bench.recorder.counts["ConsumerCallErrors"] == 4
    kept = [[record.message_id for record in kept] for _, kept in bench.queues.done]
    assert kept == [["m2"], ["m3", "m4", "m5"]]


def test_a_poll_that_is_still_waiting_is_not_made_twice(bench):
    """It ends with records in another lane; the next poll asks the others again."""
    bench.queues.waiting["HIGH"] = records("m1")

    assert bench.looks.poll(bench.lanes)
    assert bench.asked() == ["HIGH"]
    bench.looks.hands.clear()
    assert not bench.looks.poll(bench.lanes)
    assert bench.asked() == ["MEDIUM", "MAIN", "HIGH"]


def test_a_look_beside_a_record_asks_the_highest_lane_last(bench):
    """Its answer is the newest when the record ends."""
    pace = bench.looks.looking.pace
    pace.worked(bench.lanes[2], 0.5)

    bench.looks.look_soon(bench.lanes, during=bench.lanes[2], expected=0.5)
    assert bench.asked() == []
    bench.looks.collect()

    assert bench.asked() == ["MAIN", "MEDIUM", "HIGH"]


def test_paused_lanes_are_read_again_after_the_clock_was_set_back(bench):
    """A lane that is resumed does not wait until the clock has caught up."""
    pauses = MemoryPauses(Calls())
    paused = Paused(pauses, bench.looks.looking)
    pauses.pause("HIGH")
    paused.lanes()
    paused.land()
    pauses.resume("HIGH")
    bench.clock.now -= 3600

    before = paused.lanes()
    paused.land()

    assert (before, paused.lanes()) == ({"HIGH"}, set())


def test_no_look_adds_to_the_records_in_hand(bench):
    """Other slots could handle them, and records of lower lanes would find the lane empty."""
    bench.looks.looking.pace.worked(bench.lanes[2], 0.5)
    bench.queues.waiting["HIGH"] = records(*(f"m{number}" for number in range(20)))
    bench.looks.look(bench.lanes[:1], expected=0.0)
    bench.asked()

    bench.looks.look_soon(bench.lanes[:1], during=bench.lanes[2], expected=0.5)
    bench.looks.collect()

    assert bench.asked() == []
    assert len(bench.looks.hands["HIGH"]) == 10


def test_a_look_is_due_by_the_record_that_may_start_after_it(bench):
    """A short record that was served in between leaves the look before it fresh for others like it only."""
    short, high = bench.lanes[1], bench.lanes[:1]
    bench.looks.looking.pace.worked(short, 0.05)
    bench.looks.look(high, expected=0.05)
    bench.clock.advance(0.03)
    bench.asked()

    for expected, asked in ((0.05, []), (0.2, ["HIGH"])):
        bench.looks.look_soon(high, during=short, expected=expected)
        bench.looks.collect()
        assert bench.asked() == asked


def test_a_second_poll_counts_as_one_that_missed_records_only_if_they_were_there(bench):
    """Those that were sent meanwhile prove nothing."""
    high, pace = bench.lanes[0], bench.looks.looking.pace
    (old,) = records("old")
    pace.received(high, [record_with(name, group=name) for name in ("a", "b")], is_full=True)
    receive = bench.queues.receive

    def miss_first(late, lane, **options):
        if found := receive(lane, **options):
            return found
        bench.queues.waiting[lane] = [dataclasses.replace(old, sent_at=bench.clock() + late)]
        return []

    for late, tries in ((1.0, 2), (1.0, 2), (-1.0, 2), (-1.0, TRIES)):
        bench.queues.receive = partial(miss_first, late)
        bench.looks.look([high], expected=0.0)
        bench.looks.hands.clear()
        pace.received(high, [record_with(name, group=name) for name in ("a", "b")], is_full=True)
        bench.clock.advance(1.0)
        assert pace.tries(high) == tries


def test_a_slot_that_starts_for_a_resumed_lane_serves_it(bench):
    """Its environment may have read a moment ago that the lane is paused."""
    pauses = MemoryPauses(Calls())
    paused = Paused(pauses, bench.looks.looking)
    pauses.pause("HIGH")
    paused.begin()
    assert set(paused.lanes()) == {"HIGH"}

    pauses.resume("HIGH")
    paused.begin()

    assert set(paused.lanes()) == set()
