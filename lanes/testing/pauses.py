"""Paused lanes in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lanes.testing.calls import Calls

PAUSES_READ = "GetItem pauses"
"""The call that a slot makes every few seconds, whatever it handles meanwhile."""


class MemoryPauses:
    """The paused lanes."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.lanes: set[str] = set()

    def paused(self) -> set[str]:
        """Return the names of the paused lanes."""
        with self.calls.make(PAUSES_READ):
            return set(self.lanes)

    def pause(self, lane: str) -> None:
        """Pause a lane."""
        with self.calls.make("UpdateItem"):
            self.lanes.add(lane)

    def resume(self, lane: str) -> None:
        """Resume a lane."""
        with self.calls.make("UpdateItem"):
            self.lanes.discard(lane)
