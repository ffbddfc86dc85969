"""An endless flood of the top lane, more than the slots can bear, over trickles or backlogs below it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from benchmarks.report import NotSaturatedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.config import Lane
    from simulator.simulated_lanes import SimulatedLanes

RATE = 1.15
"""Arrivals over the capacity of the slots; independent of the consumer."""

FIRST_BATCHES = 6
"""Batches for each slot that are there from the start."""

EVERY = 1.0
"""Seconds between two portions."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Flood:
    """
    Sends to the top lane as long as it runs, so much that it never falls empty.

    Attributes:
        lanes: where it is sent.
        work: seconds that a handler takes.
        groups: over so many groups, in turn.
        send: sends one message to a lane and a group; without it one that does not fail.

    """

    lanes: SimulatedLanes
    work: float
    groups: int
    send: Callable[[str, str], None] | None = None
    _sent: int = 0
    _due: float = 0.0
    _gaps: int = 0
    _open: bool = True

    def begin(self) -> None:
        """Send the first messages and see to the others."""
        self._send(self._slots * self._lane.batch_size * FIRST_BATCHES)
        self.lanes.scheduler.after(EVERY, self._go_on)

    def end(self) -> None:
        """
        Send no more.

        Raises:
            NotSaturatedError: at some moment the slots could hold all of the flood.

        """
        self._open = False
        if self._gaps:
            raise NotSaturatedError(f"the flood had {self._gaps} gaps, in which all of it had a slot")

    def _go_on(self) -> None:
        if not self._open:
            return
        counts = self.lanes.queues.live[self._lane.name].counts()
        self._gaps += counts.visible + counts.not_visible <= self._slots * self._lane.batch_size
        self._due += EVERY * RATE * self._slots / self.work
        whole = int(self._due)
        self._due -= whole
        self._send(whole)
        self.lanes.scheduler.after(EVERY, self._go_on)

    def _send(self, count: int) -> None:
        for _ in range(count):
            group = f"h{self._sent % self.groups}"
            if self.send is None:
                self.lanes.send(self._lane.name, group=group, seconds=self.work)
            else:
                self.send(self._lane.name, group)
            self._sent += 1

    @property
    def _slots(self) -> int:
        return self.lanes.config.consumer.reserved_concurrency

    @property
    def _lane(self) -> Lane:
        return self.lanes.config.lanes[0]
