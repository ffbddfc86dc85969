"""The number of tasks that Spark runs at once, which share the rate limit and the backlog limit of a job."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]")
LOCAL_MASTER = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")
UNKNOWN_TASKS = (
    "maxSendRate and maxBacklog cannot be divided, since Spark's settings do not limit the number of tasks at once: "
    "set spark.executor.cores and spark.executor.instances (with dynamic allocation "
    "spark.dynamicAllocation.maxExecutors)"
)


def tasks_at_once(setting: Callable[[str], str | None]) -> int:
    """
    Give the maximum number of tasks that Spark runs at once.

    Args:
        setting: Gives a setting of Spark by name, or None.

    Raises:
        ConfigurationError: The settings do not limit it.
    """
    cpus = int(setting("spark.task.cpus") or 1)
    local = LOCAL_MASTER.fullmatch(setting("spark.master") or "")
    if local:
        cores = os.cpu_count() or 1 if local[1] == "*" else int(local[1] or 1)
        return max(1, cores // cpus)
    cluster = LOCAL_CLUSTER.fullmatch(setting("spark.master") or "")
    if cluster:
        return max(1, int(cluster[1]) * (int(cluster[2]) // cpus))
    dynamic = setting("spark.dynamicAllocation.enabled") == "true"
    executors = setting("spark.dynamicAllocation.maxExecutors" if dynamic else "spark.executor.instances")
    executor_cores = setting("spark.executor.cores")
    if executors is None or executor_cores is None:
        raise ConfigurationError([UNKNOWN_TASKS], source='options of format("lanes")')
    return max(1, int(executors) * (int(executor_cores) // cpus))


def tasks_of_executor(setting: Callable[[str], str | None]) -> int | None:
    """Give the maximum number of tasks that an executor runs at once; None if the settings do not say it."""
    cores = setting("spark.executor.cores")
    if LOCAL_MASTER.fullmatch(setting("spark.master") or ""):
        return tasks_at_once(setting)
    return None if cores is None else max(1, int(cores) // int(setting("spark.task.cpus") or 1))
