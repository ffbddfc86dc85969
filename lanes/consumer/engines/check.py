"""The backlog check: read the higher lanes' queues, no more often than needed, and judge their backlog."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

from lanes.consumer.engines.backlog import (
    UNDELETED,
    HeldBacklog,
    LaneBacklog,
    VisibleBacklog,
)
from lanes.consumer.ledger import TRUSTED, CachedLedger
from lanes.consumer.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lanes.config import Lane, LanesConfig
    from lanes.consumer.engines.presence import Peers
    from lanes.consumer.records import Batch
    from lanes.depth import LaneDepth


class DepthReader(Protocol):
    """Reads the counts of a lane's queue; raises `AwsError` if it can't."""

    def depth(self, lane: str) -> LaneDepth:
        """Return the counts now."""


@value(frozen=True, slots=True)
class LaneAbove:
    """A lane with priority over the asking one, and whether that was known without a reading."""

    lane: Lane
    is_cached: bool = False


class BacklogCheck:
    """
    One environment's judgement whether a higher lane has a backlog, kept over its invocations.

    Records that run, are parked or were just finished are in flight and do not wait. With several slots the peers
    publish theirs, and parked records of others are read from the ledger.

    "No backlog" serves for the recheck interval. A backlog is read again each time, as a cached one would prolong
    yields; but with one slot it can only shrink while this environment serves it.
    """

    def __init__(
        self,
        *,
        config: LanesConfig,
        depths: DepthReader,
        peers: Peers,
        ledger: CachedLedger,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._above = {lane.name: config.lanes_above(lane) for lane in config.lanes}
        self._below = {lane.name: config.lanes_below(lane) for lane in config.lanes}
        self._depths = depths
        self._peers = peers
        self._ledger = ledger
        self._clock = clock
        # 250 ms by default: HIGH's p99 is 1.1 to 1.3 times as long with 500 ms, and 100 ms cost 1.12 to 1.15 times the
        # calls for 0.90 to 1.09 of it (docs/decisions.md#defaults).
        self._recheck = config.consumer.recheck_interval.total_seconds()
        # A crash ended the environment before this one, so later all of its records have returned.
        self._monotonic = monotonic
        self._strands_until = monotonic() + config.consumer.function_timeout.total_seconds()
        self._visible: dict[str, VisibleBacklog] = defaultdict(VisibleBacklog)
        self._held: dict[str, HeldBacklog] = defaultdict(HeldBacklog)
        self._free, self._ended_at = 0.0, float("inf")
        self._clear_for: Lane | None = None
        self._clear_at = float("-inf")
        self._backlog_of: Lane | None = None
        self._backlog_at = float("-inf")
        self._served_at: dict[str, float] = {}
        self._finished = "", 0

    def lane_above(self, batch: Batch, *, expected: float) -> LaneAbove | None:
        """
        Return the lane that the next record of a batch yields to, or None; raises `AwsError` if that can't be known.

        `expected` are the seconds that the record is likely to take at most.
        """
        lane, now = batch.lane, self._clock()
        # A record that takes longer than the recheck interval is preceded by a reading of its own.
        if self._is_clear(lane, now, age=self._recheck if expected <= self._recheck else 0.0):
            return None
        # A batch that yields on its own reading writes nothing: 10 instead of 13 % of the slots' time went into
        # invocations that only yield (docs/decisions.md#one-corridor).
        known, trusted = self._backlog_of, 0 <= now - self._backlog_at <= TRUSTED
        if known is not None and trusted and known.outranks(lane) and self._peers.alone:
            return LaneAbove(known, is_cached=True)
        above = self._above[lane.name]
        # In place of finished records, a reading may leave out waiting ones: then it does not serve a later record.
        is_sure = not any(map(self._undeleted, above))
        found = self._read(above, free_slots=self._peers.free_slots, during=batch)
        if found is None:
            self._clear_for, self._clear_at, self._backlog_of = lane if is_sure else None, now, None
        return LaneAbove(found) if found else None

    def has_backlog_above(self, lane: Lane) -> bool:
        """Whether any lane above `lane` has a backlog, be there free slots for it or not; raises `AwsError`."""
        if self._is_clear(lane, self._clock(), age=self._recheck):
            return False
        return self._read(self._above[lane.name]) is not None

    def seconds_unchecked(self, *, since: float) -> float:
        """Return the seconds since the last check without a backlog, or since a later moment."""
        return self._clock() - max(self._clear_at, since)

    def finish(self, batch: Batch, finished: int) -> None:
        """Take in that an invocation ended with so many finished records, which are deleted soon."""
        now, lane = self._clock(), batch.lane
        self._served_at[lane.name], self._finished = now, (lane.name, finished)
        if self._peers.alone:
            # While it ran, visible records were behind its own groups, which proves nothing of them.
            self._visible[lane.name].risen_at = now
            if lane.name in self._held:
                self._held[lane.name].served(batch.records)
            self._free, self._ended_at = self._free_until(batch), now
        if self._backlog_of is not None and not self._backlog_of.outranks(lane):
            self._backlog_of = None  # it may be what was served

    def look_back(self, lane: Lane) -> None:
        """
        Read the lane that was just served, while it is known which of its records in flight are finished.

        With one slot only: soon after, a reading can't tell those from records that waited all the time. Without it,
        a lower lane started records while a higher one had waited longer than the recheck interval. It costs a call
        for each batch, so it is skipped if no lower lane has a batch that its mapping may hold: one that was invisible
        when the lane was last served, and still is. Raises `AwsError`.
        """
        if not self._peers.alone or not self._undeleted(lane):
            return
        now, below = self._clock(), self._below[lane.name]
        may_hold = any(
            now - self._served_at.get(one.name, 0.0) <= one.visibility_timeout.total_seconds()
            for one in below
        )
        if may_hold and self._read([lane]) is None and not lane.position:
            self._clear_at, self._clear_for = now, below[0]

    def _read(
        self,
        lanes: Sequence[Lane],
        *,
        free_slots: Callable[[], int] = lambda: 0,
        during: Batch | None = None,
    ) -> Lane | None:
        """Return the highest lane with a backlog beyond the free slots; if there is one, no older reading counts."""
        now = self._clock()
        found = lane_with_priority(self._backlogs(lanes, during), free_slots=free_slots)
        if found is not None:
            # A later reading, after the deletions, might take these for the records that were just finished.
            self._clear_for, self._backlog_of, self._backlog_at = None, found, now
        return found

    def _backlogs(self, lanes: Sequence[Lane], during: Batch | None) -> Iterator[LaneBacklog]:
        """Yield the backlogs of those lanes that have any record in their queue; each is read when it is asked for."""
        for lane in lanes:
            depth = self._depths.depth(lane.name)
            if depth.backlog or depth.in_flight:
                waiting = self._waiting(lane, depth, during)
                yield LaneBacklog(lane=lane, waiting=waiting, running=self._peers.busy(lane))
            else:
                self._visible.pop(lane.name, None)

    def _waiting(self, lane: Lane, depth: LaneDepth, during: Batch | None) -> int:
        # Not before: while the higher lanes are empty, the table is not read.
        self._peers.refresh()
        own, parked = self._undeleted(lane), 0
        waiting = max(0, depth.in_flight - own - self._peers.in_flight(lane))
        if waiting:
            self._ledger.read_parked(lane.name, alone=self._peers.alone)
            parked = len(self._ledger.parked(lane.name))
            waiting = max(0, waiting - parked)
        now = self._clock()
        if self._peers.alone and self._monotonic() < self._strands_until:
            free = self._free_until(during) if during else self._free
            waiting = self._held[lane.name].waiting(waiting, undeleted=own, now=now, free=free)
        if own and not parked:
            # Records behind them are deliverable in a moment, also those that seemed stuck before.
            self._visible[lane.name] = VisibleBacklog()
        blockable = parked > 0 and not own
        visible = self._visible[lane.name]
        return waiting + visible.deliverable(depth.backlog, undelivered=waiting, now=now, blockable=blockable)

    def _undeleted(self, lane: Lane) -> int:
        """Return how many finished records of a lane may still be in flight."""
        last, finished = self._finished
        return finished if last == lane.name and self._clock() - self._served_at[last] < UNDELETED else 0

    def _free_until(self, batch: Batch) -> float:
        """Return for how long this environment's slot was free before an invocation: between all those before it."""
        return self._free + max(0.0, batch.began_at - self._ended_at)

    def _is_clear(self, lane: Lane, now: float, *, age: float) -> bool:
        """
        Whether a reading not older than `age` found no backlog in any lane above this one.

        A reading with a time in the future has no known age: the clock was set back.
        """
        if not self._above[lane.name]:
            return True
        covered = self._clear_for is not None and self._clear_for.position >= lane.position
        return covered and 0 <= now - self._clear_at <= age


def lane_with_priority(backlogs: Iterable[LaneBacklog], *, free_slots: Callable[[], int]) -> Lane | None:
    """
    Return the highest lane that needs the asking record's slot; None if all waiting records find another.

    `backlogs` comes highest lane first and may be lazy: it is read no further than needed. `free_slots` leaves out the
    slot of the asking record, and is called once the first lane turns out to wait.
    """
    free: int | None = None
    for backlog in backlogs:
        if needed := backlog.slots_needed:
            free = (free_slots() if free is None else free) - needed
            if free < 0:
                return backlog.lane
    return None
