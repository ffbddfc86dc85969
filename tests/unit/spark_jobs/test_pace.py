"""The rate of a job is shared by its tasks and kept to by each."""

import pytest

from lanes.errors import ConfigurationError
from spark_jobs.pace import SendPace, tasks_at_once


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
    """Without a bound on the tasks no share keeps the rate, and the error says what to set."""
    settings = {
        "spark.master": "yarn",
        "spark.dynamicAllocation.enabled": "true",
        "spark.executor.cores": "4",
    }

    with pytest.raises(ConfigurationError, match="maxTasks"):
        tasks_at_once(settings.get)
