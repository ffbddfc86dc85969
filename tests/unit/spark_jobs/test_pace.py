"""The rate of a job is shared by its tasks and kept to by each."""

import pytest

from lanes.errors import ConfigurationError
from spark_jobs.parallelism import tasks_at_once, with_tasks
from spark_jobs.sending.pace import SendPace


class Clock:
    """Time that passes by waiting only."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        """Give the seconds."""
        return self.now

    def wait(self, seconds):
        """Let time pass."""
        self.now += seconds


def test_every_message_is_paid_for():
    """Sending takes as long as the rate says, from the first to the last message."""
    clock = Clock()
    pace = SendPace(rate=10, clock=clock, wait=clock.wait)

    for sent in (5, 10, 11):
        pace.keep(started=100.0, sent=sent)

    assert clock.now == pytest.approx(101.1)


def test_time_that_has_passed_is_not_waited_for_again():
    """A slow queue uses up the time that the rate would have asked for."""
    clock = Clock()
    clock.now = 107.0

    SendPace(rate=10, clock=clock, wait=clock.wait).keep(started=100.0, sent=50)

    assert clock.now == 107.0


def test_without_a_rate_nothing_waits():
    """No limit means no pause and full chunks."""
    clock = Clock()
    pace = SendPace(rate=None, clock=clock, wait=clock.wait)

    pace.keep(started=100.0, sent=10**9)

    assert (clock.now, pace.chunk(200)) == (100.0, 200)


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

    with pytest.raises(ConfigurationError, match="maxTasks"):
        tasks_at_once(settings.get)


def test_what_a_pause_has_cost_is_not_made_up_for_in_a_burst():
    """After a hold-back or a slow source the rate holds again, but for a second's worth."""
    now, waits = [0.0], []
    pace = SendPace(rate=10, clock=lambda: now[0], wait=waits.append)

    started = pace.keep(started=0.0, sent=10)
    now[0] = 100.0
    started = pace.keep(started=started, sent=10)

    assert waits == [1.0]
    assert started == 98.0
    pace.keep(started=started, sent=30)
    assert waits == [1.0, 1.0]


def test_jobs_are_told_on_the_driver_how_many_tasks_share():
    """Unless that is given, or nothing is shared."""

    class Session:
        class sparkContext:  # noqa: N801 - Spark's own name
            @staticmethod
            def getConf():  # noqa: N802 - Spark's own name
                return {"spark.master": "local[3]"}

    assert with_tasks({"maxSendRate": "9"}, Session) == {"maxSendRate": "9", "maxTasks": "3"}
    assert with_tasks({"maxSendRate": "9", "maxTasks": "1"}, Session)["maxTasks"] == "1"
    assert with_tasks({"kind": "a.kind"}, Session) == {"kind": "a.kind"}
