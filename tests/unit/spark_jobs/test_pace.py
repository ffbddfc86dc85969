"""The rate of a job is shared by its tasks and kept to by each."""

import pytest

from lanes.errors import ConfigurationError
from lanes.testing.clock import FakeClock
from spark_jobs.parallelism import tasks_at_once, tasks_of_executor
from spark_jobs.sending.pace import SendPace, Shared, SharedFile


@pytest.fixture(params=["own", "shared"])
def schedule(request, tmp_path):
    """Give a new schedule of each kind."""
    return Shared() if request.param == "own" else SharedFile(tmp_path / "pace")


def test_every_message_is_paid_for(schedule):
    """Sending takes as long as the rate says, from the first to the last message."""
    clock = FakeClock(100.0)
    pace = SendPace(rate=10, schedule=schedule, clock=clock, wait=clock.advance)

    for messages in (5, 5, 1):
        pace.keep("MAIN", messages)
    pace.settle()

    assert clock.now == pytest.approx(101.1)


def test_time_that_has_passed_is_not_waited_for_again(schedule):
    """A slow queue uses up the time that the rate would have asked for."""
    clock = FakeClock(100.0)
    pace = SendPace(rate=10, schedule=schedule, clock=clock, wait=clock.advance)
    pace.keep("MAIN", 50)
    clock.now = 107.0

    pace.keep("MAIN", 1)
    pace.settle()

    assert clock.now == 107.0


def test_without_a_rate_nothing_waits():
    """No limit means no pause and full chunks."""
    clock = FakeClock(100.0)
    pace = SendPace(rate=None, clock=clock, wait=clock.advance)

    pace.keep("MAIN", 10**9)
    pace.settle()

    assert (clock.now, pace.chunk(200)) == (100.0, 200)


def test_time_that_a_task_leaves_goes_to_the_others(tmp_path):
    """Of two tasks one sends nothing: the other has the whole rate, also from task to task."""
    clock = FakeClock(100.0)
    paths = [tmp_path / "pace"] * 4

    for path in paths:
        pace = SendPace(rate=10, schedule=SharedFile(path), clock=clock, wait=clock.advance)
        for _ in range(5):
            pace.keep("MAIN", 10)
        pace.settle()
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
    pace = SendPace(rate=10, schedule=schedule, clock=clock, wait=clock.advance)
    pace.keep("MAIN", 10)
    clock.now = 200.0

    for _ in range(4):
        pace.keep("MAIN", 10)

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
