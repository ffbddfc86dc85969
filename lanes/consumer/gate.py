"""The gate before each record: reads the lanes above, no oftener than needed, and asks the yield policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.consumer.yielding import LaneLoad, lane_to_yield_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lanes.config import Lane, LanesConfig
    from lanes.consumer.loads import QueueLoads
    from lanes.consumer.others import Others

FRESH_BEFORE_LONG_RECORD = 0.05
"""Seconds that a reading may be old before a record that takes longer than the recheck interval."""

LOWER_AT_WORK = 60.0
"""Seconds since a lower lane's last invocation within which the next one may come right behind a higher lane's."""

STILL_WAITING = 1.0
"""Seconds for which one slot may trust its own reading that a higher lane waits, while it serves none of it."""


class Gate:
    """
    One environment's judgement whether anything waits above, kept over its invocations.

    Attributes:
        knew: whether the last answer was known without a reading, from one made a moment ago.

    """

    def __init__(
        self,
        *,
        config: LanesConfig,
        others: Others,
        loads: QueueLoads,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._others = others
        self._loads = loads
        self._clock = clock
        self._recheck = config.consumer.recheck_interval.total_seconds()
        self._clear_at = float("-inf")
        self._clear_for: Lane | None = None
        self._waiting: tuple[Lane, float] | None = None
        self._foreseen: tuple[Lane | None, float] = None, float("-inf")
        self._entered_at: dict[str, float] = {}
        self.knew = False

    def is_highest(self, lane: Lane) -> bool:
        """Whether a lane makes way for no other."""
        return not self._config.lanes_above(lane)

    def entered(self, lane: Lane) -> None:
        """Take in that an invocation of a lane begins: what it would make way for may be what it serves."""
        if self._waiting and not self._waiting[0].outranks(lane):
            self._waiting = None
        if self._foreseen[0] and not self._foreseen[0].outranks(lane):
            self._foreseen = None, self._clock()
        self._entered_at[lane.name] = self._clock()

    def seated(self, lane: Lane, *, serves_overdue: bool) -> None:
        """Take in that it was a lane's turn in the waiting room: at this moment nothing waited above without a slot."""
        self._clear_at = self._clock()
        self._waiting, self._clear_for = None, None if serves_overdue else lane
        self._foreseen = None, self._clear_at

    def lane_above(self, lane: Lane, *, expected: float) -> Lane | None:
        """
        Return the lane that the next record of `lane` has to make way for, or None.

        Args:
            lane: the lane that asks.
            expected: seconds that the next record is likely to take.

        Raises:
            AwsError: the state of a higher lane can't be known.

        """
        asked_at = self._clock()
        if not self.needs_reading(lane, at=asked_at, expected=expected):
            return None
        known = self._still_waiting(lane, asked_at)
        self.knew = known is not None
        if known is not None:
            return known
        foreseen, read_at = self._foreseen
        if (
            foreseen is not None
            and foreseen.outranks(lane)
            and 0 <= asked_at - read_at <= FRESH_BEFORE_LONG_RECORD
        ):
            return foreseen
        return self._read(lane, asked_at)

    def needs_reading(self, lane: Lane, *, at: float, expected: float) -> bool:
        """Whether what is known now is too old at a moment for a record that is likely to take so many seconds."""
        return bool(self._config.lanes_above(lane)) and not self._is_clear(
            lane, at, age=self._age_allowed(expected)
        )

    def look_ahead(self, lane: Lane) -> None:
        """
        Read for the next record of `lane` what is found out for it else.

        Raises:
            AwsError: the state of a higher lane can't be known.

        """
        asked_at = self._clock()
        self._foreseen = self._read(lane, asked_at), asked_at

    def _read(self, lane: Lane, asked_at: float) -> Lane | None:
        higher = self._config.lanes_above(lane)
        found = lane_to_yield_to(self._loads_of(higher), free_slots=lambda: self._others.free_slots)
        if found is None:
            self._clear_at, self._clear_for, self._waiting = self._serves_from(asked_at, higher), lane, None
        else:
            self._note_waiting(found, asked_at)
        return found

    def _note_waiting(self, lane: Lane, seen_at: float) -> None:
        """Remember that a lane waits, and trust no older reading that knows nothing of it."""
        self._clear_for, self._waiting = None, (lane, seen_at)

    def _serves_from(self, asked_at: float, higher: tuple[Lane, ...]) -> float:
        """
        Return the moment from which a clear reading is counted.

        One that left out records done but not yet deleted may have left out others in their place: it serves no
        longer than those may stand.
        """
        line = self._others.undeleted
        if line is None or line.until <= asked_at or all(lane.name != line.lane for lane in higher):
            return asked_at
        return min(asked_at, line.until - self._recheck)

    def look_back(self, lane: Lane) -> None:
        """
        Read the lane that was just left, while it is known which of its records in flight are done.

        With one slot only: soon after, a reading can't tell them from others that waited all the time. Where no
        lower lane was at work of late, nobody is about to ask.

        Raises:
            AwsError: it can't be read.

        """
        if not self._others.alone or self._others.undeleted is None:
            return
        asked_at = self._clock()
        below = self._config.lanes_below(lane)
        if all(asked_at - self._entered_at.get(other.name, float("-inf")) > LOWER_AT_WORK for other in below):
            return
        if self._loads.load(lane).slots_needed:
            self._note_waiting(lane, asked_at)
        elif not self._config.lanes_above(lane):
            self._clear_at, self._clear_for = asked_at, below[0]

    def _is_clear(self, lane: Lane, now: float, *, age: float) -> bool:
        """
        Whether a reading not older than `age` found nothing waiting in any lane above this one.

        Nobody knows how old one is that was made at a moment to come: the clock was set back since.
        """
        covered = self._clear_for is not None and not self._clear_for.outranks(lane)
        return covered and 0 <= now - self._clear_at <= age

    def _still_waiting(self, lane: Lane, now: float) -> Lane | None:
        """
        Return the lane that waited a moment ago, if it can only wait still.

        With one slot, what waited is served by no other environment; and this one would know.
        """
        if not self._others.alone or self._waiting is None:
            return None
        waiting, seen_at = self._waiting
        return waiting if waiting.outranks(lane) and 0 <= now - seen_at <= STILL_WAITING else None

    @property
    def clear_at(self) -> float:
        """When nothing was last seen to wait above, in epoch seconds."""
        return self._clear_at

    def waits_above(self, lane: Lane) -> bool:
        """Whether anything waits above `lane`; a reading made before serves again while it is fresh."""
        if self._is_clear(lane, self._clock(), age=self._recheck):
            return False
        asked_at = self._clock()
        for load in self._loads_of(self._config.lanes_above(lane)):
            if load.slots_needed:
                # A later reading, after the deletions, might take these for the records that were just done.
                self._note_waiting(load.lane, asked_at)
                return True
        return False

    def _age_allowed(self, expected: float) -> float:
        return self._recheck if expected <= self._recheck else min(self._recheck, FRESH_BEFORE_LONG_RECORD)

    def _loads_of(self, higher: tuple[Lane, ...]) -> Iterator[LaneLoad]:
        if self._config.has_waiting_room:
            self._others.look()
        for lane in higher:
            yield self._load_in_room(lane) if self._config.has_waiting_room else self._loads.load(lane)

    def _load_in_room(self, lane: Lane) -> LaneLoad:
        """Lambda throttles nothing, so whoever waits for a slot stands in line and says so; no count is needed."""
        now = self._clock()
        return LaneLoad(
            lane=lane,
            waiting=self._others.seen.waiting(now, lane.name) * lane.batch_size,
            running=self._others.seen.busy(now, lane.name),
        )
