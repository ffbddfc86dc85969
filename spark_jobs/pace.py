"""The rate limit of a job, shared by its tasks."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

T = TypeVar("T")

# What may be made up for after a pause.
BURST_SECONDS = 1.0
LOCAL_MASTER = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")
UNKNOWN_TASKS = (
    "maxSendRate can't be shared out, since Spark's settings leave open how many tasks run at once: set "
    "spark.executor.cores and spark.executor.instances (with dynamic allocation "
    "spark.dynamicAllocation.maxExecutors), or give the number with the option maxTasks"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPace:
    """
    Keeps one task at its share of the rate.

    What was sent is paid for afterwards by waiting, the last messages of a task too, so that a job of many
    small partitions keeps to its rate as well.

    Attributes:
        rate: messages a second of this task; None sends as fast as it goes.
        clock: seconds that only go forward.
        wait: waits for so many seconds.
    """

    rate: float | None
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep

    def chunk(self, most: int) -> int:
        """How many messages to send in one go: about half a second's, at least one."""
        return most if self.rate is None else max(1, min(most, int(self.rate / 2)))

    def keep(self, *, started: float, sent: int) -> float:
        """
        Wait until so many messages since then are within the rate.

        Returns:
            From when on to count next time: later than before after a pause that was not this one's, so that
            what was not sent meanwhile is not made up for in a burst.
        """
        if self.rate is None:
            return started
        ahead = started + sent / self.rate - self.clock()
        if ahead > 0:
            self.wait(ahead)
        return started + max(0.0, -ahead - BURST_SECONDS)


def with_tasks(options: Mapping[str, T], spark: SparkSession) -> dict[str, T | str]:
    """
    Add the number of tasks to options that divide something among them, on the driver.

    Raises:
        ConfigurationError: the settings of the session leave it open.
    """
    names = {name.lower() for name in options}
    if "maxtasks" in names or not names & {"maxsendrate", "maxbacklog"}:
        return dict(options)
    settings = spark.sparkContext.getConf()
    return {**options, "maxTasks": str(tasks_at_once(settings.get))}


def tasks_at_once(setting: Callable[[str], str | None]) -> int:
    """
    Give the largest number of tasks that Spark runs at the same time under its settings.

    Args:
        setting: gives a setting of Spark by its name, None where it is not set.

    Raises:
        ConfigurationError: the settings leave it open.
    """
    cpus = int(setting("spark.task.cpus") or 1)
    local = LOCAL_MASTER.fullmatch(setting("spark.master") or "")
    if local:
        cores = os.cpu_count() or 1 if local[1] == "*" else int(local[1] or 1)
        return max(1, cores // cpus)
    dynamic = setting("spark.dynamicAllocation.enabled") == "true"
    executors = setting("spark.dynamicAllocation.maxExecutors" if dynamic else "spark.executor.instances")
    executor_cores = setting("spark.executor.cores")
    if executors is None or executor_cores is None:
        raise ConfigurationError([UNKNOWN_TASKS], source='options of format("lanes")')
    return max(1, int(executors) * (int(executor_cores) // cpus))
