"""For how long slots were held to no purpose, where invocations take them from a waiting room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.memory import Calls, MemoryRegister

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.consumer.slots import Occupation, SlotsSnapshot


class WatchedRegister(MemoryRegister):
    """
    A register that measures.

    Attributes:
        in_vain: seconds between taking a slot and leaving with no record done.

    """

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        super().__init__(calls)
        self._clock = clock
        self._since: dict[str, float] = {}
        self.in_vain = 0.0

    def take(
        self, line: Occupation, slot: int, *, now: float, parked_until: Mapping[str, float]
    ) -> SlotsSnapshot | None:
        """Note since when it is held."""
        taken = super().take(line, slot, now=now, parked_until=parked_until)
        if taken is not None:
            self._since[line.environment] = self._clock()
        return taken

    def write(
        self, line: Occupation, *, now: float, parked_until: Mapping[str, float], frees: int | None = None
    ) -> SlotsSnapshot:
        """Add up what was for nothing."""
        seen = super().write(line, now=now, parked_until=parked_until, frees=frees)
        if frees is not None:
            held = self._clock() - self._since.pop(line.environment, self._clock())
            self.in_vain += 0.0 if line.records else held
        return seen
