"""The pace of a task: its share of the job's rate limit, and a pause while its lane has enough messages."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

# After a pause a task may catch up on this much.
BURST_SECONDS = 1.0


class Backlog(Protocol):
    """Holds a task back while its lane has enough waiting messages."""

    def wait(self, lane: str, messages: int) -> None:
        """Return when you may send this many more messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPace:
    """
    Keeps one task at its share of the rate.

    A task waits after it has sent, also after its last messages, so that a job of many small partitions keeps to its
    rate as well.

    Attributes:
        rate: Messages a second of this task; None for no limit.
        backlog: Holds the task back; None never does.
        clock: Monotonic seconds.
        wait: Waits for a number of seconds.
    """

    rate: float | None = None
    backlog: Backlog | None = None
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep

    def chunk(self, max_messages: int) -> int:
        """Give the number of messages to send at once: about half a second's worth, at least one."""
        return max_messages if self.rate is None else max(1, min(max_messages, int(self.rate / 2)))

    def keep(self, *, started: float, sent: int) -> float:
        """
        Wait until this many messages since `started` are within the rate.

        Returns:
            The start for your next call. It is later than `started` after a pause for another reason, so that the
            task does not send a burst to catch up.
        """
        if self.rate is None:
            return started
        ahead = started + sent / self.rate - self.clock()
        if ahead > 0:
            self.wait(ahead)
        return started + max(0.0, -ahead - BURST_SECONDS)
