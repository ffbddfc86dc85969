"""The runs of one slot, with lanes in memory and with a consumer that the test plays."""

from collections import Counter

import pytest

from lanes.errors import ConfigurationError
from lanes.testing.clock import FakeClock
from lanes.testing.function import InvocationContext
from lanes.work.slot import Run, Stop, serve
from lanes.work.supervisor import BEGAN, ENDED
from tests.support.memory import World, aws_error

PULL = {"engine": "pull"}
LANES = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN"}]


@pytest.fixture
def world():
    """Lanes of the pull engine, and the order in which their messages were handled."""
    made = World({"consumer": PULL, "lanes": LANES})
    made.handled = []
    made.consumer.handler("work")(lambda message: made.handled.append(message.data))
    return made


def run(world, *, seconds=30.0, slot=0):
    """Make one run."""
    return world.consumer.work(InvocationContext(world.clock, seconds=seconds, request="run-1"), slot=slot)


def test_a_run_serves_the_lanes_without_an_event(world):
    """The highest first, and the next run may follow at once."""
    for lane, name in (("MAIN", "m1"), ("MAIN", "m2"), ("HIGH", "h1")):
        world.send(lane, data=name)

    assert run(world) == 0.0

    assert world.handled == ["h1", "m1", "m2"]
    assert [world.queues.live[lane.name].counts().visible for lane in world.config.lanes] == [0, 0]
    assert run(world) == 0.0


def test_a_run_without_time_receives_nothing(world):
    """So it is a way to make all clients before the first message."""
    world.send("MAIN", data="m1")

    run(world, seconds=0.0)

    assert world.handled == []
    assert world.queues.live["MAIN"].counts().visible == 1


def test_the_next_run_waits_if_the_time_is_too_short_for_a_poll(world):
    """Otherwise it would ask the empty lanes without a pause."""
    assert 0.0 < run(world, seconds=1.5) < 1.0


def test_the_next_run_waits_for_longer_if_a_lane_could_not_be_asked(world, monkeypatch):
    """An outage must not be a storm of calls and of log lines."""
    calls = Counter()

    def receive(lane, **_asked):
        calls[lane] += 1
        raise aws_error("ReceiveMessage")

    monkeypatch.setattr(world.queues, "receive", receive)

    assert run(world) == 5
    assert max(calls.values()) < 10


def test_the_next_run_follows_at_once_if_one_lane_can_not_be_asked(world, monkeypatch):
    """The others keep their pace, and the log has a line a minute."""
    receive, lines = world.queues.receive, []

    def refuse(lane, **asked):
        world.clock.advance(asked["wait"])
        if lane == "HIGH":
            raise aws_error("ReceiveMessage")
        return receive(lane, **asked)

    monkeypatch.setattr(world.queues, "receive", refuse)
    until = world.clock() + 600
    while world.clock() < until:
        world.send("MAIN", data="m")
        assert run(world) == 0.0
        lines += world.recorder.problems
        world.recorder.problems.clear()

    assert world.queues.live["MAIN"].counts().visible == 0
    assert 9 <= len(lines) <= 11
    assert {name for name, _ in lines} == {"lane_not_received"}


def test_mappings_have_no_slots_of_their_own():
    """The command says so before it starts any."""
    world = World({"lanes": LANES})

    with pytest.raises(ConfigurationError, match='a process needs engine = "pull"'):
        run(world)


def test_a_run_has_no_time_left_after_a_stop():
    """So no record starts, and a handler at a checkpoint leaves."""
    clock, stop = FakeClock(), Stop()
    one = Run(ends_at=clock() + 30, stop=stop, clock=clock)

    assert one.get_remaining_time_in_millis() == 30_000
    clock.advance(10)
    assert one.get_remaining_time_in_millis() == 20_000
    stop.ask()
    assert one.get_remaining_time_in_millis() == 0


class StoppedContext(InvocationContext):
    """The context of a run that is stopped at a time."""

    def __init__(self, clock, *, stopped_at):
        super().__init__(clock, seconds=30.0, request="stopped")
        self.stopped_at = stopped_at

    def is_stopped(self):
        return self.clock() >= self.stopped_at

    def get_remaining_time_in_millis(self):
        return 0 if self.is_stopped() else super().get_remaining_time_in_millis()


@pytest.mark.parametrize("phase", range(0, 20, 3))
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"idempotency": True},
        {"max_rate": 4},
        {"max_rates": {"work": 4}, "idempotency": True},
        {"reserved_concurrency": 3},
    ],
    ids=str,
)
def test_no_record_starts_after_a_stop(settings, phase):
    """Wherever it comes: in a poll, in a pause for a rate, in a call before the handler; and no attempt is counted."""
    world = World({"consumer": PULL | settings, "lanes": LANES})
    clock = world.clock
    world.calls.takes = lambda _operation: clock.advance(0.05)
    starts = []
    world.consumer.handler("work")(lambda _message: (starts.append(clock()), clock.advance(0.1)))
    for number in range(6):
        world.send(("HIGH", "MAIN")[number % 2], data=number, group=f"g{number}")
    stopped_at = clock() + 0.13 * phase

    world.consumer.work(StoppedContext(clock, stopped_at=stopped_at), slot=0)

    assert all(start < stopped_at for start in starts)
    assert all(
        entry.attempts == 0 for entry in world.ledger.entries.values() if entry.returns or entry.yields
    )
    assert all(queue.counts().not_visible == 0 for queue in world.queues.live.values())


@pytest.mark.parametrize("idempotency", [False, True])
def test_a_failure_after_a_stop_is_no_attempt(idempotency):
    """A supervisor may signal every process of a service, so the handler's own children end too."""
    world = World({"consumer": PULL | {"idempotency": idempotency, "max_attempts": 1}, "lanes": LANES})
    context, attempts = StoppedContext(world.clock, stopped_at=world.clock() + 5), []

    def fail_at_first(_message, context):
        attempts.append(context.attempt)
        if len(attempts) == 1:
            world.clock.advance(10)
            raise RuntimeError("a child of the handler was ended by a signal")

    world.consumer.handler("work")(fail_at_first)
    world.send("MAIN", data="m")

    world.consumer.work(context, slot=0)
    run(world)

    assert attempts == [1, 1]
    assert world.recorder.named("message_dead_lettered") == []
    assert world.recorder.counts["FailedAttempts"] == 0


class PlayedConsumer:
    """A consumer that ends its runs as the test says, and is stopped in the last one."""

    def __init__(self, stop, pauses):
        self.stop, self.pauses, self.runs = stop, pauses, []

    def work(self, context, *, slot):
        self.runs.append((slot, context.aws_request_id))
        pause = self.pauses.pop(0)
        if not self.pauses:
            self.stop.ask()
        return pause


def test_runs_follow_each_other_until_a_stop():
    """Each is reported with its beginning and its end, and has a name of its own in the log."""
    stop, reports = Stop(), []
    consumer = PlayedConsumer(stop, [0.0, 0.0, 600.0])

    serve(consumer, 2, timeout=30.0, stop=stop, report=reports.append)

    assert reports == [BEGAN, ENDED] * 3
    assert {slot for slot, _ in consumer.runs} == {2}
    assert len({request for _, request in consumer.runs}) == 3


def test_a_stop_ends_a_pause():
    """Nothing is left to do in it."""
    stop = Stop()
    stop.ask()

    stop.wait(600.0)

    assert stop.is_asked
