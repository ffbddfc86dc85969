"""Reading ahead: what waits above the next record is found out while the handler of this one is at work."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.config import Lane
    from lanes.consumer.background import Background, Errand
    from lanes.consumer.gate import Gate

SHORTEST = 0.005
"""Seconds of a handler below which a reading, which takes as long, would gain nothing by beginning with it."""

LATEST_LEAD = 0.04
"""Most seconds before a handler's likely end at which a reading begins: older, it is not fresh enough to act on."""

SLACK = 1.5
"""A reading begins so many times its last duration before a handler's likely end: neither takes the same each time."""

DRIFT = 1 / 8
"""Share by which the likely time of a lane's records follows those that take longer; shorter ones at once."""


class ReadAhead:
    """
    Begins readings so that they end shortly before their handler does, where the next record would wait for one.

    The likely time is that of the shorter records: what is read too early still serves, what is read too late is
    waited for.
    """

    def __init__(self, *, gate: Gate, background: Background, clock: Callable[[], float]) -> None:
        self._gate = gate
        self._background = background
        self._clock = clock
        self._likely: dict[str, float] = {}
        self._reading_takes = LATEST_LEAD / SLACK
        self._errand: Errand | None = None

    def begin(self, lane: Lane, *, expected: float) -> None:
        """Read in time for the record after the one whose handler begins now; that is `expected` to take at most."""
        likely = self._likely[lane.name]
        if likely < SHORTEST:
            return
        if not self._gate.needs_reading(lane, at=self._clock() + likely, expected=expected):
            return
        lead = min(LATEST_LEAD, SLACK * self._reading_takes)
        self._errand = self._background.after(max(0.0, likely - lead), lambda: self._read(lane))

    def end(self) -> None:
        """Have the gate for the foreground again; threads of one handler may come here at the same time."""
        errand = self._errand
        if errand is not None:
            errand.end()
            self._errand = None

    def took(self, lane: Lane, seconds: float) -> None:
        """Learn how long a record took; by a clock that was set back meanwhile that is less than nothing."""
        seconds = max(0.0, seconds)
        likely = self._likely.get(lane.name, seconds)
        self._likely[lane.name] = min(seconds, likely + (seconds - likely) * DRIFT)

    def likely(self, lane: Lane) -> float:
        """Return the seconds that a record of a lane is likely to take; 0 where that is not known."""
        return self._likely.get(lane.name, 0.0)

    def _read(self, lane: Lane) -> None:
        began = self._clock()
        # Whatever goes wrong here is met again before the next record, and told then.
        with suppress(Exception):
            self._gate.look_ahead(lane)
        self._reading_takes = self._clock() - began
