"""The rate and the backlog limit of a job are shared by its tasks and kept to by each."""

from functools import partial

import pytest

from lanes.errors import ConfigurationError
from lanes.testing.clock import FakeClock
from spark_jobs.pace import (
    READ_SECONDS,
    LaneBacklog,
    SendPace,
    Shared,
    SharedFile,
    tasks_at_once,
    tasks_of_executor,
)


@pytest.fixture(params=["own", "shared"])
def schedule(request, tmp_path):
    """Give a new schedule of each kind."""
    return Shared() if request.param == "own" else SharedFile(tmp_path / "pace")


def test_every_message_is_paid_for(schedule):
    """Sending takes as long as the rate says, from the first to the last message."""
    clock = FakeClock(100.0)
    pace = SendPace(rate=10, schedule=schedule, clock=clock)

    for messages in (5, 5, 1):
        pace.keep("MAIN", messages, clock.advance)
    pace.settle(clock.advance)

    assert clock.now == pytest.approx(101.1)


def test_time_that_has_passed_is_not_waited_for_again(schedule):
    """A slow queue uses up the time that the rate would have asked for."""
    clock = FakeClock(100.0)
    pace = SendPace(rate=10, schedule=schedule, clock=clock)
    pace.keep("MAIN", 50, clock.advance)
    clock.now = 107.0

    pace.keep("MAIN", 1, clock.advance)
    pace.settle(clock.advance)

    assert clock.now == 107.0


def test_without_a_rate_nothing_waits():
    """No limit means no pause and full chunks."""
    clock = FakeClock(100.0)
    pace = SendPace(rate=None, clock=clock)

    pace.keep("MAIN", 10**9, clock.advance)
    pace.settle(clock.advance)

    assert (clock.now, pace.chunk(200)) == (100.0, 200)


def test_time_that_a_task_leaves_goes_to_the_others(tmp_path):
    """Of two tasks one sends nothing: the other has the whole rate, also from task to task."""
    clock = FakeClock(100.0)
    paths = [tmp_path / "pace"] * 4

    for path in paths:
        pace = SendPace(rate=10, schedule=SharedFile(path), clock=clock)
        for _ in range(5):
            pace.keep("MAIN", 10, clock.advance)
        pace.settle(clock.advance)
        # The next task starts a moment later, and catches up on it.
        clock.now += 0.5

    assert clock.now == pytest.approx(100.0 + 20.0 + 0.5)


@pytest.mark.parametrize(("rate", "chunk"), [(0.1, 1), (10, 5), (10_000, 200)])
def test_chunks_hold_about_half_a_second(rate, chunk):
    """A low rate is kept by small steps, not by one burst and a long pause."""
    assert SendPace(rate=rate).chunk(200) == chunk


@pytest.mark.parametrize(
    ("settings", "tasks"),
    [
        ({"spark.master": "local"}, 1),
        ({"spark.master": "local[3]"}, 3),
        ({"spark.master": "local[4, 2]"}, 4),
        ({"spark.master": "local-cluster[2,3,1024]"}, 6),
        ({"spark.master": "local[4,2]", "spark.task.cpus": "2"}, 2),
        ({"spark.master": "yarn", "spark.executor.instances": "3", "spark.executor.cores": "4"}, 12),
        (
            {
                "spark.master": "yarn",
                "spark.dynamicAllocation.enabled": "true",
                "spark.dynamicAllocation.maxExecutors": "5",
                "spark.executor.instances": "3",
                "spark.executor.cores": "2",
            },
            10,
        ),
    ],
)
def test_spark_says_how_many_tasks_run_at_once(settings, tasks):
    """The share follows from the settings of Spark, on one machine and on a cluster."""
    assert tasks_at_once(settings.get) == tasks


@pytest.mark.parametrize("step", ["write", "truncate"])
def test_a_task_that_is_killed_while_it_writes_stops_no_other(step, tmp_path):
    """The others of its executor read what it leaves."""

    class Fragile:
        def touch(self):
            (tmp_path / "state").touch()

        def open(self, mode):
            file = (tmp_path / "state").open(mode)
            setattr(file, step, {}.__getitem__ if step == "write" else [].pop)
            return file

    with SharedFile(tmp_path / "state").change() as state:
        state["free_at"] = 123_456.789
    with pytest.raises(LookupError), SharedFile(Fragile()).change() as state:
        state["free_at"] = 1.0

    with SharedFile(tmp_path / "state").change() as state:
        assert state in ({}, {"free_at": 123_456.789})


def test_settings_that_leave_it_open_are_refused():
    """Without a limit of tasks there is no share of the rate, and the error names the settings."""
    settings = {
        "spark.master": "yarn",
        "spark.dynamicAllocation.enabled": "true",
        "spark.executor.cores": "4",
    }

    with pytest.raises(ConfigurationError, match=r"spark\.dynamicAllocation\.maxExecutors"):
        tasks_at_once(settings.get)


def test_what_a_pause_has_cost_is_not_made_up_for_in_a_burst(schedule):
    """After a hold-back or a slow source the rate holds again, but for a second's worth."""
    clock = FakeClock(100.0)
    pace = SendPace(rate=10, schedule=schedule, clock=clock)
    pace.keep("MAIN", 10, clock.advance)
    clock.now = 200.0

    for _ in range(4):
        pace.keep("MAIN", 10, clock.advance)

    assert clock.now == pytest.approx(202.0)


@pytest.mark.parametrize(
    ("settings", "tasks"),
    [
        ({"spark.master": "local[3]"}, 3),
        ({"spark.master": "yarn", "spark.executor.cores": "4", "spark.task.cpus": "2"}, 2),
        ({"spark.master": "yarn"}, None),
    ],
)
def test_tasks_of_one_executor_share_a_schedule(settings, tasks):
    """They are on one machine; without a setting it is unknown how many they are."""
    assert tasks_of_executor(settings.get) == tasks


class Counts:
    """Gives the number of waiting messages, one reading after the other."""

    def __init__(self, *waiting):
        self.left = list(waiting)
        self.readings = 0

    def get_queue_attributes(self, **_):
        """Give the next reading; the last stays."""
        self.readings += 1
        waiting = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        return {"Attributes": {"ApproximateNumberOfMessages": str(waiting)}}


def backlog(counts, *, limit, share=1.0):
    """Make it with a clock that pauses move."""
    now, pauses = [0.0], []

    def pause(seconds):
        pauses.append(seconds)
        now[0] += seconds

    made = LaneBacklog(
        sqs=counts,
        queue_urls={"MAIN": "url"},
        max_messages=limit,
        share=share,
        clock=lambda: now[0],
    )
    return partial(made.wait, pause=pause), pauses, now


def test_while_there_is_room_nothing_waits_and_readings_are_few():
    """One reading serves many calls."""
    counts = Counts(100)
    wait, pauses, now = backlog(counts, limit=1_000)
    for _ in range(50):
        wait("MAIN", 10)
    now[0] += READ_SECONDS
    wait("MAIN", 10)

    assert (counts.readings, pauses) == (2, [])


def test_it_waits_until_the_lane_has_emptied():
    """Readings are repeated, not too often."""
    counts = Counts(500, 400, 300, 80)
    wait, pauses, _ = backlog(counts, limit=100)

    wait("MAIN", 10)

    assert pauses == [READ_SECONDS] * 3


def test_a_lane_at_its_limit_has_no_room():
    """Nothing is sent until a message has left."""
    wait, pauses, _ = backlog(Counts(100, 99), limit=100)

    wait("MAIN", 1)

    assert pauses == [READ_SECONDS]


def test_the_room_of_a_reading_is_used_once_and_shared_by_executors():
    """So the bound holds however fast the tasks are."""
    counts = Counts(0)
    wait, pauses, _ = backlog(counts, limit=100, share=0.2)
    for _ in range(4):
        wait("MAIN", 10)

    assert (counts.readings, len(pauses)) == (2, 1)


def test_a_pause_says_what_holds_it():
    """At its start, and again every half a minute."""
    clock, said = FakeClock(0.0), []
    made = LaneBacklog(
        sqs=Counts(*[200] * 20, 0),
        queue_urls={"MAIN": "url"},
        max_messages=100,
        clock=clock,
        held=lambda lane, messages: said.append((clock.now, lane, messages)),
    )

    made.wait("MAIN", 1, clock.advance)

    assert said == [(0.0, "MAIN", 200), (30.0, "MAIN", 200)]


def test_a_lone_straggler_has_the_whole_room_of_its_executor(tmp_path):
    """The tasks that have ended leave their room to it: an empty lane is filled, and nothing is held."""
    counts, said, pauses = Counts(0), [], []
    tasks = [
        LaneBacklog(
            sqs=counts,
            queue_urls={"MAIN": "url"},
            max_messages=1_000,
            shared=SharedFile(tmp_path / "backlog"),
            clock=lambda: 0.0,
            held=lambda lane, messages: said.append((lane, messages)),
        )
        for _ in range(4)
    ]
    for task in tasks:
        task.wait("MAIN", 10, pauses.append)
    for _ in range(96):
        tasks[-1].wait("MAIN", 10, pauses.append)

    assert (counts.readings, said, pauses) == (1, [], [])


def test_a_pause_counts_what_was_sent_since_the_reading():
    """A log of "held, backlog 0" helps nobody."""
    counts, said = Counts(0, 0), []
    clock = FakeClock(0.0)
    made = LaneBacklog(
        sqs=counts,
        queue_urls={"MAIN": "url"},
        max_messages=10,
        clock=clock,
        held=lambda *found: said.append(found),
    )
    made.wait("MAIN", 10, clock.advance)
    made.wait("MAIN", 10, clock.advance)

    assert said == [("MAIN", 10)]
