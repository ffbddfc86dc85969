"""An endless flood of the top lane, more than the slots can bear, over trickles or backlogs below it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.config import Lane
    from simulator.world import SimulatedLanes

BATCHES_WAITING = 3
"""Batches that wait in the top lane for each slot, at least: no slot ever finds it empty."""

TOP_UP = 1.0
"""Seconds between two looks at how much of the flood is left."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Flood:
    """
    Keeps the top lane full as long as it runs.

    Attributes:
        lanes: where it is sent.
        work: seconds that a handler takes.
        groups: over so many groups, in turn.
        fault: gives the fault of each message by its number.
        least: fewest visible messages found at a look; 0 says that the flood had a gap.

    """

    lanes: SimulatedLanes
    work: float
    groups: int
    fault: Callable[[int], str] = lambda _number: ""
    sent: int = 0
    least: int | None = None
    open: bool = True

    def begin(self) -> None:
        """Send the first messages and see to the others."""
        self._fill()
        self._again()

    def end(self) -> None:
        """Send no more."""
        self.open = False

    def _again(self) -> None:
        self.lanes.kernel.after(TOP_UP, self._top_up)

    def _top_up(self) -> None:
        if not self.open:
            return
        left = self._waiting()
        self.least = left if self.least is None else min(self.least, left)
        self._fill()
        self._again()

    def _waiting(self) -> int:
        return self.lanes.queues.live[self._lane.name].counts().visible

    def _fill(self) -> None:
        slots = self.lanes.config.consumer.reserved_concurrency
        a_second = slots * TOP_UP / self.work
        wanted = int(slots * self._lane.batch_size * BATCHES_WAITING + 2 * a_second)
        for _ in range(wanted - self._waiting()):
            fault = self.fault(self.sent)
            group = f"h{self.sent % self.groups}"
            self.lanes.send(self._lane.name, group=group, seconds=self.work, fault=fault)
            self.sent += 1

    @property
    def _lane(self) -> Lane:
        return self.lanes.config.lanes[0]
