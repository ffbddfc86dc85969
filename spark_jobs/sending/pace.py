"""The pace of a task: the rate limit that it shares with others, and a pause while its lane has enough messages."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .backlog import LaneBacklog

# After a pause the senders of a schedule may catch up on this much.
BURST_SECONDS = 1.0
FREE_AT = struct.Struct("=d")


class Schedule:
    """The time that the senders of one rate have taken: here a single one, which knows it alone."""

    def __init__(self) -> None:
        self._free_at: float | None = None

    def take(self, seconds: float, now: float) -> float:
        """Take this time for messages and give its start, which may be in the past after a pause."""
        start = now if self._free_at is None else max(self._free_at, now - BURST_SECONDS)
        self._free_at = start + seconds
        return start


class SharedSchedule(Schedule):
    """
    The schedule of all tasks of an executor, in a file. One that sends nothing leaves its time to the others.

    All processes of a machine have one monotonic clock.

    Args:
        path: The file; the first sender creates it.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        # Not on Windows, where each task keeps to its own share.
        import fcntl

        self._lock = fcntl.flock
        self._exclusive = fcntl.LOCK_EX
        self._path = path
        path.touch()

    def take(self, seconds: float, now: float) -> float:
        """Take this time for messages and give its start."""
        with self._path.open("r+b") as file:
            # Closing the file unlocks it.
            self._lock(file, self._exclusive)
            content = file.read()
            start = max(FREE_AT.unpack(content)[0], now - BURST_SECONDS) if content else now
            file.seek(0)
            file.write(FREE_AT.pack(start + seconds))
        return start


@dataclass(slots=True, kw_only=True)
class SendPace:
    """
    Keeps the senders of a schedule at their rate.

    A task also waits after its last messages, so that a job of many small partitions keeps to its rate as well.

    Attributes:
        rate: Messages a second of all senders of the schedule; None for no limit.
        schedule: The time that they have taken.
        backlog: Holds the task back; None never does.
        clock: Monotonic seconds.
        wait: Waits for a number of seconds.
    """

    rate: float | None = None
    schedule: Schedule = field(default_factory=Schedule)
    backlog: LaneBacklog | None = None
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep
    _paid_at: float | None = None

    def chunk(self, max_messages: int) -> int:
        """Give the number of messages to send at once: about half a second's worth, at least one."""
        return max_messages if self.rate is None else max(1, min(max_messages, int(self.rate / 2)))

    def keep(self, messages: int) -> None:
        """Wait until this many messages may be sent."""
        if self.rate is None:
            return
        seconds = messages / self.rate
        start = self.schedule.take(seconds, self.clock())
        self._paid_at = start + seconds
        self._wait_until(start)

    def settle(self) -> None:
        """Wait until the messages of this task are within the rate."""
        if self._paid_at is not None:
            self._wait_until(self._paid_at)

    def _wait_until(self, moment: float) -> None:
        ahead = moment - self.clock()
        if ahead > 0:
            self.wait(ahead)
