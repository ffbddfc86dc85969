"""How much of a lane waits, from its queue's counts: what runs, is parked or was just done counts as not waiting."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

from lanes.consumer.yielding import LaneDepth, LaneLoad, VisibleBaseline, held_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.config import Lane
    from lanes.consumer.others import Others
    from lanes.consumer.parks import ParkedRecords, ParkKnowledge


class DepthReader(Protocol):
    """Reads the counts of a lane's queue; raises `AwsError` when it can't."""

    def depth(self, lane: str) -> LaneDepth:
        """Return the counts now."""


class QueueLoads:
    """
    The loads of lanes as this environment reads them from their queues; raises `AwsError` where it can't.

    With one slot no other environment is busy, and what this one parked is all there is. With several, the register of
    slots tells what runs elsewhere, and parked records of others are read from the ledger.
    """

    def __init__(
        self,
        *,
        depths: DepthReader,
        others: Others,
        parks: ParkKnowledge,
        parked: ParkedRecords,
        clock: Callable[[], float],
    ) -> None:
        self._depths = depths
        self._others = others
        self._parks = parks
        self._parked = parked
        self._clock = clock
        self._baselines: dict[str, VisibleBaseline] = defaultdict(VisibleBaseline)

    def has_visible(self, lane: Lane) -> bool:
        """Whether anything of a lane is visible, deliverable or not."""
        return self._depths.depth(lane.name).backlog > 0

    def observe_anew(self, lane: Lane) -> None:
        """Take what stays visible of a lane for blocked only if it does so from now on."""
        self._baselines[lane.name].observe_anew(self._clock())

    def load(self, lane: Lane) -> LaneLoad:
        """Read one lane."""
        depth = self._depths.depth(lane.name)
        if depth.is_empty:
            self._baselines[lane.name].fresh(0, held=0, now=self._clock())
            return LaneLoad(lane=lane, waiting=0)
        elsewhere = self._in_flight_elsewhere(lane)
        held, parked = held_records(depth, parked=0, elsewhere=elsewhere), 0
        if held:
            if self._others.seen.kept_some(lane.name, self._clock()):
                # What they wait for was noted after the ledger was last read.
                self._parks.distrust(lane.name)
            parked = self._parked.count(lane)
            held = held_records(depth, parked=parked, elsewhere=elsewhere)
        now = self._clock()
        just_done = self._was_just_done(lane, now)
        if just_done and not parked:
            # What stood behind them is deliverable in a moment, also where it proved not to be before.
            self._baselines[lane.name] = VisibleBaseline()
        fresh = self._baselines[lane.name].fresh(
            depth.backlog, held=held, now=now, blockable=parked > 0 and not just_done
        )
        return LaneLoad(
            lane=lane, waiting=held + fresh, running=self._others.seen.busy(self._clock(), lane.name)
        )

    def _was_just_done(self, lane: Lane, now: float) -> bool:
        """Whether records behind others of their group may become deliverable at this moment."""
        lines = (*self._others.seen.others, *([self._others.undeleted] if self._others.undeleted else ()))
        return any(
            line.lane == lane.name and line.records and not line.busy and line.until > now for line in lines
        )

    def _in_flight_elsewhere(self, lane: Lane) -> int:
        """Return how many in-flight records are known not to wait: they run elsewhere, or are done and not deleted."""
        now = self._clock()
        line = self._others.undeleted
        done = line.records if line and line.lane == lane.name and line.until > now else 0
        if self._others.alone:
            return done
        # The register holds the lines of the others; this environment's own may tell of its next lane by now.
        self._others.look()
        return done + self._others.seen.records_of(lane.name, now)
