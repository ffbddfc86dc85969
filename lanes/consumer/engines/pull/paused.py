"""Paused lanes, as the slots of one environment know them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.errors import AwsError
from lanes.events import Event

if TYPE_CHECKING:
    from collections.abc import Collection

    from lanes.consumer.engines.pull.beside import Pending
    from lanes.consumer.engines.pull.looks import Looking
    from lanes.pauses import Pauses

READ_EVERY = 5.0
"""Seconds after which a slot reads again which lanes are paused: as long as an operator waits for the effect."""


class Paused:
    """The paused lanes, read beside the handlers; those read last if they can't be read."""

    def __init__(self, pauses: Pauses | None, looking: Looking) -> None:
        self._pauses = pauses
        self._looking = looking
        self._known: Collection[str] = ()
        self._read_at = float("-inf")
        self._reading: Pending[Collection[str]] | None = None

    def lanes(self) -> Collection[str]:
        """Return the names of the paused lanes, and read them again if that is due."""
        if self._reading is not None and self._reading.done():
            self.land()
        now = self._looking.clock()
        if self._pauses is not None and self._reading is None and now - self._read_at >= READ_EVERY:
            self._read_at = now
            self._reading = self._looking.beside.start(self._pauses.paused)
        return self._known

    def land(self) -> None:
        """Wait for the reading in progress."""
        reading, self._reading = self._reading, None
        try:
            self._known = reading.result() if reading else self._known
        except AwsError:
            self._looking.telemetry.problem(Event.PAUSES_NOT_READ)
