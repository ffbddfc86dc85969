"""Read the state of the lanes; slow and costly parts less often than the counts of the queues."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from lanes.operate.cached import Cached
from lanes.operate.lanes.figures import DepthTrend
from lanes.operate.lanes.status import StatusReader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.operate.lanes.figures import LaneFigures
    from lanes.operate.lanes.mappings import LaneMapping
    from lanes.operate.lanes.status import Status
    from lanes.ui.session import Session

FIGURES_LAST = timedelta(seconds=30)
"""CloudWatch has new figures once a minute, and charges for each one that is read."""
# AWS: Lambda takes 15 calls a second of all that read or change its configuration (Lambda quotas).
MAPPINGS_LAST = timedelta(seconds=6)


class CachedFigures(Cached["Mapping[str, LaneFigures]"]):
    """Figures for `StatusReader`."""

    def read(self) -> Mapping[str, LaneFigures]:
        """Return the figures by lane."""
        return self.get()


class CachedMappings:
    """States of mappings for `StatusReader`."""

    def __init__(
        self, read: Callable[[str], Sequence[LaneMapping]], read_bell: Callable[[], Sequence[LaneMapping]]
    ) -> None:
        self._read = read
        self._bell = Cached(read_bell, lasts=MAPPINGS_LAST)
        self._lanes: dict[str, Cached[Sequence[LaneMapping]]] = {}

    def of_lane(self, lane: str) -> Sequence[LaneMapping]:
        """Return the mappings that serve a lane."""
        cached = self._lanes.setdefault(lane, Cached(lambda: self._read(lane), lasts=MAPPINGS_LAST))
        return cached.get()

    def of_bell(self) -> Sequence[LaneMapping]:
        """Return the mappings on the bell."""
        return self._bell.get()

    def forget(self) -> None:
        """Read the mappings again next time."""
        self._bell.forget()
        # A copy, since another thread may add a lane meanwhile.
        for cached in list(self._lanes.values()):
            cached.forget()


class LaneReadings:
    """
    Reads the state of all lanes.

    Args:
        session: the connection to the lanes.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._figures = CachedFigures(self._read_figures, lasts=FIGURES_LAST)
        self._mappings = CachedMappings(self._read_mappings, self._read_bell)
        self._trend = DepthTrend()

    def read(self) -> Status:
        """
        Read all lanes once.

        Raises:
            AwsError: a queue can't be counted.
        """
        operations = self._session.operations
        reader = StatusReader(
            config=operations.deployment.config,
            depths=operations.depths,
            mappings=self._mappings,
            figures=self._figures,
            trend=self._trend,
        )
        return reader.read()

    def forget(self) -> None:
        """Read everything again next time, after a change."""
        self._figures.forget()
        self._mappings.forget()

    def _read_figures(self) -> Mapping[str, LaneFigures]:
        return self._session.operations.figures.read()

    def _read_mappings(self, lane: str) -> Sequence[LaneMapping]:
        return self._session.operations.mappings.of_lane(lane)

    def _read_bell(self) -> Sequence[LaneMapping]:
        return self._session.operations.mappings.of_bell()
