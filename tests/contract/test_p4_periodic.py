"""Occurrences of a schedule: a second firing is the same message, two never run at once, one too many is dropped."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes import Consumer
from lanes.config import LanesConfig, Schedule
from lanes.errors import AwsError
from lanes.message_filter import MessageFilter
from lanes.overrides import KNOWN_AFTER, OVERRIDES_AGE, Action, Override
from lanes.schedules import SCHEDULED_TIME, occurrence
from lanes.testing import InMemoryLanes, ProcessKilled
from lanes.testing.function import ByScheduler
from tests.support.memory import World, consumer_of

MINUTE = 60.0


def lambda_attributes(call):
    """Return the message attributes of a call in the form of Lambda's event."""
    return {
        name: {"stringValue": value["StringValue"], "dataType": "String"}
        for name, value in call.get("MessageAttributes", {}).items()
    }


class Firing:
    """A schedule that fires each minute, and a handler that takes a given time."""

    def __init__(self, *, overlap="queue", engine="mappings", idempotency=False, slots=2, group=None):
        self.schedule = Schedule(name="tick", kind="tick", cron="* * * * *", overlap=overlap, group=group)
        consumer, self.started, self.ended, self.fails = Consumer(), [], [], set()

        @consumer.handler("tick")
        def tick(message):
            self.started.append(message.id)
            self.lanes.clock.advance(self.takes.get(len(self.started), 1.0))
            self.ended.append(self.lanes.clock())
            if len(self.started) in self.fails:
                raise RuntimeError("it failed")

        settings = {
            **consumer_of(engine),
            "reserved_concurrency": slots,
            "idempotency": idempotency,
            "function_timeout": 900,
            "max_attempts": 2,
        }
        self.takes = {}
        self.lanes = InMemoryLanes(
            consumer,
            config=LanesConfig.from_dict({"consumer": settings}),
            handler_time=timedelta(milliseconds=1),
        )
        self.call = occurrence(self.schedule, "https://sqs/lane")
        self.begun = self.lanes.clock.now

    def fire(self, minute, *, redrive=False):
        """Send the occurrence of a minute, as Scheduler does."""
        at = datetime.fromtimestamp(self.begun + minute * MINUTE, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

        def filled(text):
            return text.replace(SCHEDULED_TIME, at)

        deduplication_id = filled(self.call["MessageDeduplicationId"])
        self.lanes._sender._queues["MEDIUM"].send(
            filled(self.call["MessageBody"]),
            group=self.call["MessageGroupId"],
            deduplication_id=f"redrive-{minute}" if redrive else deduplication_id,
            attributes=(dict if redrive else ByScheduler)(lambda_attributes(self.call)),
        )
        return f"tick@{at}"


@pytest.mark.parametrize("idempotency", [False, True])
def test_an_occurrence_that_was_due_during_another_is_dropped(engine, idempotency):
    """And the next one, which was not, runs."""
    firing = Firing(overlap="skip", engine=engine, idempotency=idempotency)
    firing.takes[1] = 150.0
    ids = []
    for minute in range(1, 6):
        firing.lanes.clock.advance_to(firing.begun + minute * MINUTE)
        ids.append(firing.fire(minute))
        firing.lanes.run_for(1)

    # The first one runs from minute 1 to 3.5: those of minutes 2 and 3 were due in the meantime.
    firing.lanes.run_until_idle()
    assert firing.started == [ids[0], ids[3], ids[4]]


def test_without_skip_each_waits_for_its_turn():
    """None is dropped, and they run in order."""
    firing = Firing()
    firing.takes[1] = 150.0
    ids = [firing.fire(minute) for minute in range(1, 5)]
    firing.lanes.run_until_idle()

    assert firing.started == ids


@pytest.mark.parametrize("idempotency", [False, True])
def test_a_second_firing_is_the_same_message(idempotency):
    """Within five minutes for SQS, and later with idempotency."""
    firing = Firing(idempotency=idempotency)
    firing.fire(1)
    firing.lanes.run_until_idle()
    firing.fire(1)
    firing.lanes.run_until_idle()
    firing.lanes.clock.advance(timedelta(minutes=6))
    firing.fire(1)
    firing.lanes.run_until_idle()

    assert len(firing.started) == (1 if idempotency else 2)


def test_one_that_failed_is_tried_again_and_not_dropped():
    """Its attempts are its own, whatever ended before."""
    firing = Firing(overlap="skip")
    firing.fails = {2}
    first, second = firing.fire(1), None
    firing.lanes.clock.advance_to(firing.begun + 2 * MINUTE)
    firing.lanes.run_until_idle()
    firing.lanes.clock.advance_to(firing.begun + 3 * MINUTE)
    second = firing.fire(3)
    firing.lanes.run_until_idle()

    assert firing.started == [first, second, second]


@pytest.mark.parametrize("calls", [1, 3])
def test_one_that_ran_since_the_table_was_away_is_not_dropped_after_its_failure(calls, monkeypatch):
    """Its reading failed, so it ran; the next reading would drop a message whose attempt has failed."""
    firing = Firing(overlap="skip")
    firing.takes, firing.fails = {1: 150.0}, {2}
    ledger, asked = firing.lanes._stack.ledger, []
    read = ledger.effect_done_at

    def away(effect_id):
        asked.append(effect_id)
        if 1 < len(asked) <= 1 + calls:
            raise AwsError(operation="GetItem", code="InternalServerError", retryable=True)
        return read(effect_id)

    monkeypatch.setattr(ledger, "effect_done_at", away)
    first, second = firing.fire(1), firing.fire(2)
    firing.lanes.run_until_idle()

    assert firing.started == [first, second, second]


def test_a_failure_does_not_count_as_an_end():
    """After a dead letter the next one runs, although it was due meanwhile."""
    firing = Firing(overlap="skip")
    firing.fails = {1, 2}
    firing.takes = {1: 100.0}
    first = firing.fire(1)
    second = firing.fire(2)
    firing.lanes.run_until_idle()

    assert firing.started == [first, first, second]
    assert len(firing.lanes.journal.dead_lettered) == 1


def test_a_redriven_one_runs():
    """An operator asked for it; later ones have ended meanwhile."""
    firing = Firing(overlap="skip")
    firing.lanes.clock.advance_to(firing.begun + 5 * MINUTE)
    firing.fire(5)
    firing.lanes.run_until_idle()
    redriven = firing.fire(1, redrive=True)
    firing.lanes.run_until_idle()

    assert firing.started[-1] == redriven


@given(
    takes=st.lists(st.sampled_from([1.5, 30.5, 58.5, 61.5, 200.5]), min_size=8, max_size=8),
    late=st.lists(st.integers(0, 59), min_size=8, max_size=8),
)
def test_what_runs_is_what_no_earlier_one_was_in_the_way_of(takes, late):
    """By the rule itself: an occurrence is dropped if the last one that ran ended after its time."""
    firing = Firing(overlap="skip")
    firing.takes = {number + 1: seconds for number, seconds in enumerate(takes)}
    expected = []
    for minute in range(1, 9):
        firing.lanes.clock.advance_to(firing.begun + minute * MINUTE + late[minute - 1])
        fired = firing.fire(minute)
        if not firing.ended or firing.ended[-1] <= firing.begun + minute * MINUTE:
            expected.append(fired)
        firing.lanes.run_until_idle()

    assert firing.started == expected


def fire(world, lane, second, *, overlap="queue", by=ByScheduler):
    """Send the occurrence of a second to a lane, and return its id."""
    schedule = Schedule(name="tick", kind="tick", cron="* * * * *", overlap=overlap)
    call, text = occurrence(schedule, "https://sqs/lane"), f"2026-11-28T03:00:0{second}Z"
    world.queues.live[lane].send(
        call["MessageBody"].replace(SCHEDULED_TIME, text),
        group=call["MessageGroupId"],
        deduplication_id=text,
        attributes=by(lambda_attributes(call)),
    )
    return f"tick@{text}"


MOVES = [("HIGH", 10), ("MEDIUM", -100)]
"""Overrides of two lanes, in order, and their priorities: the first one moves to MEDIUM, the second one to MAIN."""


def moved(engine, *, overlap="queue", first_by=ByScheduler, moves=0):
    """Run an occurrence below HIGH, during which Scheduler sends one to HIGH; return how many ran at once, and all."""
    raw = {"lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MEDIUM", "threshold": 0}, {"name": "MAIN"}]}
    world = World({**raw, "consumer": {"reserved_concurrency": 6, "function_timeout": 900}}, engine=engine)
    running, most, handled = [], [], []

    def tick(message):
        running.append(message.id)
        most.append(len(running))
        if len(handled) + len(running) == 1:
            # Later ones of its group would follow it as long as an override stands.
            world.overrides.standing.clear()
            world.overrides.following.clear()
            world.clock.advance(OVERRIDES_AGE + 1)
            fire(world, "HIGH", 2, overlap=overlap)
            world.step("HIGH", consumer=other)
        running.remove(message.id)
        handled.append(message.id)

    world.consumer.handler("tick")(tick)
    other = world.environment()
    other.handler("tick")(tick)
    first = fire(world, "HIGH" if moves else "MAIN", 1, overlap=overlap, by=first_by)
    for lane, priority in MOVES[:moves]:
        override = Override(
            id=lane,
            action=Action.PRIORITIZE,
            wanted=MessageFilter(ids=(first,)),
            created_at=world.clock.now,
            expires_at=world.clock.now + 60,
            who="ops",
            priority=priority,
        )
        world.overrides.add(override)
        world.clock.advance(KNOWN_AFTER + OVERRIDES_AGE)
        world.step(lane)
    world.step("MEDIUM" if moves == 1 else "MAIN")
    for _ in range(4):
        world.clock.advance(5)
        world.step("HIGH", consumer=other)
    return max(most), len(handled)


@pytest.mark.parametrize(("overlap", "handled"), [("queue", 2), ("skip", 1)])
def test_two_never_run_at_once_when_a_deploy_moves_the_schedule(engine, overlap, handled):
    """The occurrences of the old lane and those of the new one have one claim, and one last end."""
    assert moved(engine, overlap=overlap) == (1, handled)


@pytest.mark.parametrize(("sender", "at_once"), [(ByScheduler, 1), (dict, 2)])
@pytest.mark.parametrize("moves", [1, 2])
def test_two_never_run_at_once_when_an_override_moves_one(engine, moves, sender, at_once):
    """Its copy is one as well, and not that of what another sender calls an occurrence."""
    assert moved(engine, first_by=sender, moves=moves) == (at_once, 2)


def test_one_that_kills_its_process_holds_up_another_lane_for_the_time_of_its_function(engine):
    """And five seconds: the claim's end is known, however often the other one was received until then."""
    raw = {"lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN"}]}
    world = World({**raw, "consumer": {"reserved_concurrency": 4, "function_timeout": 900}}, engine=engine)
    started, begun = [], world.clock.now

    def tick(message):
        started.append(message.id)
        if len(started) == 1:
            world.calls.killed = True
            raise ProcessKilled

    world.consumer.handler("tick")(tick)
    fire(world, "MAIN", 1)
    with pytest.raises(ProcessKilled):
        world.step("MAIN")
    world.calls.killed = False
    other = world.environment()
    other.handler("tick")(tick)
    second = fire(world, "HIGH", 2)
    while second not in started and world.clock.now < begun + 905:
        world.clock.advance(1)
        world.step("HIGH", consumer=other)

    assert second in started


def test_a_repeated_delivery_of_one_that_was_done_drops_no_other():
    """Nothing ran when it came again, so what was due before then was not due during another."""
    world = World({"consumer": {"idempotency": True, "backoff_base": 1}})
    started = []

    def tick(message):
        started.append(message.id)
        if len(started) == 1:
            raise RuntimeError("it failed")

    world.consumer.handler("tick")(tick)
    world.clock.now = datetime(2026, 11, 28, 3, tzinfo=UTC).timestamp()
    first = fire(world, "MAIN", 1, overlap="skip")
    world.clock.advance(2)
    world.step("MAIN")
    world.clock.advance(5)
    # Lambda's deletion fails.
    world.invoke("MAIN", world.receive("MAIN"))
    second = fire(world, "MAIN", 9, overlap="skip")
    world.clock.advance(200)
    world.step("MAIN")

    assert started == [first, first, second]
