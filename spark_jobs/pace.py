"""
The pace of a task: the rate and the backlog limit of its job.

The tasks that Spark runs at once share both, those of one executor in files.
"""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lanes.aws.errors import aws_errors
from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from mypy_boto3_sqs import SQSClient

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


# After a pause the senders of a rate may catch up on this much.
BURST_SECONDS = 1.0
# Each reading of a backlog costs a call. The tasks of an executor read this often together.
READ_SECONDS = 2.0
HELD_SECONDS = 30.0
VISIBLE: Literal["ApproximateNumberOfMessages"] = "ApproximateNumberOfMessages"


class Shared:
    """What the senders of one rate or backlog know together: here a single one, which knows it alone."""

    is_shared = False

    def __init__(self) -> None:
        self._state: dict[str, Any] = {}

    @contextmanager
    def change(self) -> Iterator[dict[str, Any]]:
        """Give the state, to read and to change it; no other sender does meanwhile."""
        yield self._state


class SharedFile(Shared):
    """
    The state of all tasks of an executor, in a file. One that sends nothing leaves its share to the others.

    All processes of a machine have one monotonic clock.

    Args:
        path: The file; the first sender creates it.
    """

    is_shared = True

    def __init__(self, path: Path) -> None:
        super().__init__()
        # Not on Windows, where each task keeps to its own share.
        import fcntl

        self._lock = fcntl.flock
        self._exclusive = fcntl.LOCK_EX
        self._path = path
        path.touch()

    @contextmanager
    def change(self) -> Iterator[dict[str, Any]]:
        """Give the state under a lock, which closing the file releases."""
        with self._path.open("r+") as file:
            self._lock(file, self._exclusive)
            state = json.loads(file.read() or "{}")
            yield state
            # In this order a task that is killed here leaves an empty file, and never the end of another state.
            file.seek(0)
            file.truncate()
            file.write(json.dumps(state))


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneBacklog:
    """
    Keeps the backlog of each lane below a limit, together with the other tasks.

    AWS: the count is approximate (API_GetQueueAttributes), so the limit is as well.

    Attributes:
        sqs: Client that reads the counts.
        queue_urls: Queue URLs by lane name.
        max_messages: Maximum backlog of a lane.
        share: Part of the free room that the senders of `shared` may use.
        shared: Their readings.
        clock: Monotonic seconds.
        held: Receives lane and backlog when a pause begins, and each `HELD_SECONDS` of it.
    """

    sqs: SQSClient
    queue_urls: Mapping[str, str]
    max_messages: int
    share: float = 1.0
    shared: Shared = field(default_factory=Shared)
    clock: Callable[[], float] = time.monotonic
    held: Callable[[str, int], object] = lambda _lane, _messages: None

    def wait(self, lane: str, messages: int, pause: Callable[[float], object]) -> None:
        """Return when you may send this many more messages to a lane; `pause` lets seconds pass."""
        said_at: float | None = None
        while not self._take(lane, messages):
            if said_at is None or self.clock() - said_at >= HELD_SECONDS:
                said_at = self.clock()
                with self.shared.change() as state:
                    waiting = state[lane]["waiting"]
                self.held(lane, waiting)
            pause(READ_SECONDS)

    def _take(self, lane: str, messages: int) -> bool:
        """Take room for messages, if the last reading has some left; `waiting` includes what was sent since."""
        with self.shared.change() as state:
            reading = state.get(lane)
            if reading is None or self.clock() - reading["at"] >= READ_SECONDS:
                waiting = visible(self.sqs, self.queue_urls[lane])
                room = (self.max_messages - waiting) * self.share
                reading = state[lane] = {"at": self.clock(), "room": room, "waiting": waiting}
            if reading["room"] <= 0:
                return False
            reading["room"] -= messages
            reading["waiting"] += messages
            return True


def visible(sqs: SQSClient, queue_url: str) -> int:
    """
    Read the approximate number of messages that wait in a queue.

    Raises:
        AwsError: The call failed.
    """
    with aws_errors("GetQueueAttributes"):
        answer = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=[VISIBLE])
    return int(answer["Attributes"][VISIBLE])


@dataclass(slots=True, kw_only=True)
class SendPace:
    """
    Keeps the senders of a schedule at their rate.

    A task also waits after its last messages, so that a job of many small partitions keeps to its rate as well.

    Attributes:
        rate: Messages a second of all senders of the schedule; None for no limit.
        schedule: The time that they have taken, until `free_at`.
        backlog: Holds the task back; None never does.
        clock: Monotonic seconds.
        wait: Lets seconds pass.
    """

    rate: float | None = None
    schedule: Shared = field(default_factory=Shared)
    backlog: LaneBacklog | None = None
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep
    _paid_at: float | None = None

    def chunk(self, max_messages: int) -> int:
        """Give the number of messages to send at once: about half a second's worth, at least one."""
        return max_messages if self.rate is None else max(1, min(max_messages, int(self.rate / 2)))

    def keep(self, lane: str, messages: int, pause: Callable[[float], object]) -> None:
        """Wait until this many messages may be sent to a lane; `pause` lets seconds pass."""
        if self.backlog is not None:
            self.backlog.wait(lane, messages, pause)
        if self.rate is None:
            return
        seconds, now = messages / self.rate, self.clock()
        with self.schedule.change() as state:
            start = max(state.get("free_at", now), now - BURST_SECONDS)
            state["free_at"] = start + seconds
        self._paid_at = start + seconds
        self._wait_until(start, pause)

    def settle(self, pause: Callable[[float], object]) -> None:
        """Wait until the messages of this task are within the rate."""
        if self._paid_at is not None:
            self._wait_until(self._paid_at, pause)

    def _wait_until(self, moment: float, pause: Callable[[float], object]) -> None:
        ahead = moment - self.clock()
        if ahead > 0:
            pause(ahead)
