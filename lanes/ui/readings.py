"""Readings of the lanes' state in which slow or costly parts are asked for less often than the queues' counts."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, TypeVar

from lanes.errors import AwsError
from lanes.operate.status import StatusReader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.operate.figures import LaneFigures
    from lanes.operate.mappings import LaneMapping
    from lanes.operate.status import Status
    from lanes.ui.desk import Desk

T = TypeVar("T")

FIGURES_LAST = timedelta(seconds=30)
"""CloudWatch has a new figure once a minute, and takes money for each that is read."""
# AWS: Lambda takes 15 calls a second of all that read or change its configuration (Lambda quotas).
MAPPINGS_LAST = timedelta(seconds=6)


class Kept(Generic[T]):
    """
    What was read last, or the error that came instead, until it is too old.

    Args:
        read: reads it, may raise `AwsError`.
        lasts: how long it is good.
        clock: monotonic seconds.
    """

    def __init__(
        self, read: Callable[[], T], *, lasts: timedelta, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._lasts = lasts.total_seconds()
        self._clock = clock
        self._until = float("-inf")
        self._value: T
        self._error: AwsError | None = None

    def get(self) -> T:
        """
        Return it.

        Raises:
            AwsError: it could not be read, now or a moment ago.
        """
        if self._clock() >= self._until:
            self._until = self._clock() + self._lasts
            try:
                self._value, self._error = self._read(), None
            except AwsError as error:
                self._error = error
        if self._error is not None:
            raise self._error
        return self._value

    def forget(self) -> None:
        """Read it anew next time."""
        self._until = float("-inf")


class KeptFigures(Kept["Mapping[str, LaneFigures]"]):
    """Figures, as `StatusReader` takes them."""

    def read(self) -> Mapping[str, LaneFigures]:
        """Return what is known, by lane."""
        return self.get()


class KeptMappings:
    """States of mappings, as `StatusReader` takes them."""

    def __init__(self, read: Callable[[str], Sequence[LaneMapping]]) -> None:
        self._read = read
        self._lanes: dict[str, Kept[Sequence[LaneMapping]]] = {}

    def of_lane(self, lane: str) -> Sequence[LaneMapping]:
        """Return the mappings on a lane's queue."""
        kept = self._lanes.setdefault(lane, Kept(lambda: self._read(lane), lasts=MAPPINGS_LAST))
        return kept.get()

    def forget(self) -> None:
        """Read them anew next time."""
        for kept in list(self._lanes.values()):
            kept.forget()


class LaneReadings:
    """
    Reads the state of all lanes.

    Args:
        desk: where they are.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._figures = KeptFigures(self._read_figures, lasts=FIGURES_LAST)
        self._mappings = KeptMappings(self._read_mappings)

    def read(self) -> Status:
        """
        Read all lanes once.

        Raises:
            AwsError: a queue can't be counted.
        """
        operations = self._desk.operations
        reader = StatusReader(
            config=operations.deployment.config,
            depths=operations.depths,
            mappings=self._mappings,
            figures=self._figures,
        )
        return reader.read()

    def forget(self) -> None:
        """Read everything anew next time: something was changed."""
        self._figures.forget()
        self._mappings.forget()

    def _read_figures(self) -> Mapping[str, LaneFigures]:
        return self._desk.operations.figures.read()

    def _read_mappings(self, lane: str) -> Sequence[LaneMapping]:
        return self._desk.operations.mappings.of_lane(lane)
