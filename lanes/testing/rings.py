"""The bell's mapping, one invocation after the other, under a test's clock."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING

from lanes.bell import BODY, HEARTBEAT, RETURN_EVERY
from lanes.testing.bell import BELL
from lanes.testing.fifo.errors import FifoQueueError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.testing.fifo.queue import FifoQueue
    from lanes.testing.invocations import Invocations


class Rings:
    """
    Invokes the consumer with the rings of the bell, while any message is in a lane.

    One slot runs after the other. The schedule that keeps a heartbeat in the bell's queue is part of it.

    Args:
        bell: the bell's queue.
        queues: those of the lanes, by name.
        invocations: run the consumer.

    """

    def __init__(self, *, bell: FifoQueue, queues: Mapping[str, FifoQueue], invocations: Invocations) -> None:
        self._bell = bell
        self._queues = queues
        self._invocations = invocations

    def step(self, *, until: Callable[[], bool]) -> bool:
        """Run one invocation if a ring waits, which returns its records when `until` holds; return whether one ran."""
        if not any(any(queue.counts()) for queue in self._queues.values()):
            return False
        # The queue drops it unless the last one is five minutes old, as it does with those of the schedule.
        self._bell.send(BODY, group=HEARTBEAT)
        if not (rings := self._bell.receive(1)):
            return False
        for ring in self._invocations.invoke(BELL, rings, until=until):
            # A ring that the consumer has returned for later, or that was received again, stays.
            with contextlib.suppress(FifoQueueError):
                self._bell.delete(ring.receipt_handle)
        return True

    def next_moment(self) -> float | None:
        """Return when the next ring is received that may find a message; None if no lane has any."""
        lanes = [queue for queue in self._queues.values() if any(queue.counts())]
        rung_at = self._bell.next_event_at()
        if not lanes or rung_at is None:
            return None
        if any(queue.is_receivable() for queue in lanes):
            return rung_at
        moments = [moment for queue in lanes if (moment := queue.next_event_at()) is not None]
        # Heartbeats that would find nothing are left out.
        idle = max(0.0, min(moments, default=rung_at) - rung_at)
        return rung_at + math.ceil(idle / RETURN_EVERY) * RETURN_EVERY
