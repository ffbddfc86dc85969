"""The gate before each record: reads the lanes above, no oftener than needed, and asks the yield policy."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

from lanes.consumer.parks import ParkKnowledge
from lanes.consumer.room import OVER, WaitingRoom
from lanes.consumer.slots import Occupation, SlotsSnapshot
from lanes.consumer.yielding import LaneDepth, LaneLoad, VisibleBaseline, held_records, lane_to_yield_to
from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lanes.config import Lane, LanesConfig
    from lanes.consumer.ledger import Entry, Ledger
    from lanes.consumer.reserve import Reserve
    from lanes.consumer.slots import SlotRegister

UNDELETED = 0.25
"""Seconds for which a mapping may still hold the records that an invocation has done: it deletes them after it."""

FRESH_BEFORE_LONG_RECORD = 0.05
"""Seconds that a reading may be old before a record that takes longer than the recheck interval."""

FOLLOW_UP, WORTH_WAITING_FOR = 0.1, 1.0
"""
Seconds for which a lane's next batch is expected in the waiting room, and that the full batch before it has lasted.

Between two batches of one group lie a deletion, a receive and an invocation. A lower lane that takes the slot in
between makes way again after its next record. A tenth of the slot's time is the most that is spent in vain.
"""

LOWER_AT_WORK = 60.0
"""Seconds since a lower lane's last invocation within which the next one may come right behind a higher lane's."""

RESERVE = "reserve"
"""Where the register tells until when the reserve is spent; no lane has such a name."""

STILL_WAITING = 1.0
"""Seconds for which one slot may trust its own reading that a higher lane waits, while it serves none of it."""


class DepthReader(Protocol):
    """Reads the counts of a lane's queue; raises `AwsError` when it can't."""

    def depth(self, lane: str) -> LaneDepth:
        """Return the counts now."""


class Gate:
    """
    One environment's view of the lanes above, kept over its invocations.

    With one slot no other environment is busy, and what this one parked is all there is. With several, the
    register of slots tells what runs elsewhere, and parked records of others are read from the ledger.
    """

    def __init__(
        self,
        *,
        config: LanesConfig,
        depths: DepthReader,
        ledger: Ledger,
        register: SlotRegister,
        environment: str,
        clock: Callable[[], float],
        pause: Callable[[float], None],
        reserve: Reserve,
    ) -> None:
        self._config = config
        self._depths = depths
        self._ledger = ledger
        self._register = register
        self._environment = environment
        self._clock = clock
        self._reserve = reserve
        self._slots = config.consumer.reserved_concurrency
        self._recheck = config.consumer.recheck_interval.total_seconds()
        # Alone, the ledger can't tell more than was noted here, but for what an environment before this one left.
        self._parks_age = 15.0 if self.alone else 1.0
        room = WaitingRoom(register=register, slots=self._slots, clock=clock, pause=pause)
        self._room = room if config.has_waiting_room else None
        self._baselines: dict[str, VisibleBaseline] = defaultdict(VisibleBaseline)
        self._snapshot = SlotsSnapshot()
        self._undeleted: Occupation | None = None
        self._clear_at = self._seated_at = float("-inf")
        self._clear_for: Lane | None = None
        self._waiting: tuple[Lane, float] | None = None
        self._entered_at: dict[str, float] = {}
        self._serves_overdue = False
        self._tenant = ""
        self.knew = False
        self.parks = ParkKnowledge()

    @property
    def alone(self) -> bool:
        """Whether there is one slot: what happens, happens in this environment, and it need not ask others."""
        return self._slots == 1 and not self._config.has_waiting_room

    @property
    def has_room(self) -> bool:
        """Whether whoever has no slot waits for one in the function."""
        return self._room is not None

    def is_highest(self, lane: Lane) -> bool:
        """Whether a lane makes way for no other."""
        return not self._config.lanes_above(lane)

    def enter(
        self,
        lane: Lane,
        *,
        records: int,
        deadline: float,
        patience: float,
        overdue: Callable[[], bool],
        tenant: str = "",
    ) -> bool:
        """
        Tell the others that an invocation began, once it has a slot; return False where it waited for one in vain.

        Args:
            lane: whose records it has.
            records: how many.
            deadline: when it ends at the latest, in epoch seconds.
            patience: seconds for which it waits for a slot, where there is a waiting room.
            overdue: tells whether they may go before all others in the waiting room.
            tenant: whose they are, in a lane with a `tenant_share`.

        Raises:
            AwsError: the others can't be told. With a waiting room there is no slot then.

        """
        self._tenant = tenant
        if self._waiting and not self._waiting[0].outranks(lane):
            self._waiting = None
        self._entered_at[lane.name] = self._clock()
        if self._room is None:
            self._write(self._line(lane, records=records, busy=True, until=deadline))
            return True
        if overdue():
            # What others have spent of the reserve by now.
            self._look_into_register()
        line = self._line(lane, records=records, busy=True, until=deadline + OVER)
        return self._take_slot(lane, line, patience=patience, overdue=overdue)

    @property
    def serves_overdue(self) -> bool:
        """Whether this invocation may serve overdue records while a higher lane waits."""
        return self._room is None or self._serves_overdue

    def waits_in_place(
        self, lane: Lane, *, records: int, deadline: float, patience: float, overdue: Callable[[], bool]
    ) -> bool:
        """
        Make way with the records in hand: give the slot back and wait for one; return whether it came back.

        Without a waiting room it never does.

        Raises:
            AwsError: the others can't be told, and there may be no slot.

        """
        if self._room is None:
            return False
        line = self._line(lane, records=records, busy=True, until=deadline + OVER)
        line = dataclasses.replace(line, rank=lane.position)
        since = self._clock()
        self._snapshot = self._room.step_aside(line, since=since, parked_until=self._news())
        return self._take_slot(lane, line, patience=patience, overdue=overdue, since=since)

    def _take_slot(
        self,
        lane: Lane,
        line: Occupation,
        *,
        patience: float,
        overdue: Callable[[], bool],
        since: float | None = None,
    ) -> bool:
        assert self._room is not None  # noqa: S101 - asked for with one only
        taken = self._room.take(
            line,
            self._snapshot,
            patience=patience,
            parked_until=self._news(),
            rank=lambda seen: self._rank(lane, seen, overdue=overdue),
            since=since,
        )
        self._serves_overdue = taken is not None and taken[0].rank < 0
        if taken is None:
            return False
        self._snapshot = taken[1]
        self._reserve.learn(self._snapshot.parked_until.get(RESERVE, 0.0))
        # It was its turn: at this moment nothing waited above that had no slot.
        self._clear_at = self._seated_at = self._clock()
        self._waiting, self._clear_for = None, None if self._serves_overdue else lane
        return True

    def _rank(self, lane: Lane, seen: SlotsSnapshot, *, overdue: Callable[[], bool]) -> int:
        """Return the place in line: overdue records go before all, but one at a time, for there is one account."""
        self._reserve.learn(seen.parked_until.get(RESERVE, 0.0))
        now = self._clock()
        is_free = not any(line.rank < 0 and line.until > now for line in seen.others)
        return -1 if is_free and overdue() else lane.position

    def leave(self, lane: Lane, *, done: int, kept: int, more_behind: bool = False) -> None:
        """
        Tell the others that the slot is free as good as now: as soon as it is decided, not when all is settled.

        Args:
            lane: whose records it had.
            done: how many of them are done.
            kept: how many stay in the queue.
            more_behind: whether others of their groups may have waited behind them.

        """
        slot = self._room.give_back() if self._room else None
        line = self._line(lane, records=done, busy=False, until=self._clock() + UNDELETED, kept=kept)
        told = self._expecting(lane, line) if self._room and more_behind else line
        try:
            self._write(told, frees=slot)
        except AwsError:
            if slot is None:
                raise
            # Else nobody would have the slot until this invocation could run no more.
            self._write(told, frees=slot)
        self._undeleted = line if done else None
        if self.alone:
            # While it ran, what stayed visible was behind its own groups: that proves nothing.
            self._baselines[lane.name].observe_anew(self._clock())

    def _expecting(self, lane: Lane, line: Occupation) -> Occupation:
        """Keep a place in line for the next batch of the lane for a moment, where one is likely to follow at once."""
        now = self._clock()
        if line.kept or now - self._seated_at < WORTH_WAITING_FOR or lane == self._config.last_lane:
            return line
        return dataclasses.replace(
            line, waiting_since=now + FOLLOW_UP, until=now + FOLLOW_UP, rank=lane.position
        )

    def lane_above(self, lane: Lane, *, expected: float) -> Lane | None:
        """
        Return the lane that the next record of `lane` has to make way for, or None.

        Afterwards `knew` tells whether that was known without a reading, from one made a moment ago.

        Args:
            lane: the lane that asks.
            expected: seconds that the next record is likely to take.

        Raises:
            AwsError: the state of a higher lane can't be known.

        """
        higher = self._config.lanes_above(lane)
        asked_at = self._clock()
        if not higher or self._is_clear(lane, asked_at, age=self._age_allowed(expected)):
            return None
        known = self._still_waiting(lane, asked_at)
        self.knew = known is not None
        if known is not None:
            return known
        found = lane_to_yield_to(self._loads(higher), free_slots=lambda: self.free_slots)
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
        line = self._undeleted
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
        asked_at = self._clock()
        below = [other for other in self._config.lanes if lane in self._config.lanes_above(other)]
        at_work = any(
            asked_at - self._entered_at.get(other.name, float("-inf")) <= LOWER_AT_WORK for other in below
        )
        if not self.alone or self._undeleted is None or not at_work:
            return
        if self._load(lane).slots_needed:
            self._note_waiting(lane, asked_at)
        elif not self._config.lanes_above(lane):
            self._clear_at, self._clear_for = asked_at, below[0]

    def _is_clear(self, lane: Lane, now: float, *, age: float) -> bool:
        """Whether a reading not older than `age` found nothing waiting in any lane above this one."""
        covered = self._clear_for is not None and not self._clear_for.outranks(lane)
        return covered and now - self._clear_at <= age

    def _still_waiting(self, lane: Lane, now: float) -> Lane | None:
        """
        Return the lane that waited a moment ago, if it can only wait still.

        With one slot, what waited is served by no other environment; and this one would know.
        """
        if not self.alone or self._waiting is None:
            return None
        waiting, seen_at = self._waiting
        return waiting if waiting.outranks(lane) and now - seen_at <= STILL_WAITING else None

    @property
    def clear_at(self) -> float:
        """When nothing was last seen to wait above, in epoch seconds."""
        return self._clear_at

    def waits_above(self, lane: Lane) -> bool:
        """Whether anything waits above `lane`; a reading made before serves again while it is fresh."""
        if self._is_clear(lane, self._clock(), age=self._recheck):
            return False
        asked_at = self._clock()
        for load in self._loads(self._config.lanes_above(lane)):
            if load.slots_needed:
                # A later reading, after the deletions, might take these for the records that were just done.
                self._note_waiting(load.lane, asked_at)
                return True
        return False

    def busy_with(self, lane: Lane, tenant: str) -> int:
        """Return how many other slots worked on a tenant's records of a lane when the register was last read."""
        return self._snapshot.busy_with(lane.name, tenant, self._clock())

    def has_visible(self, lane: Lane) -> bool:
        """Whether anything of a lane is visible, deliverable or not; raises `AwsError`."""
        return self._depths.depth(lane.name).backlog > 0

    @property
    def free_slots(self) -> int:
        """How many slots nobody holds, the one of whoever asks left out."""
        return max(0, self._slots - 1 - self._snapshot.busy(self._clock()))

    def may_be_parked(self, lane: Lane) -> bool:
        """Whether records of the lane may be parked, as far as it can be told without a call."""
        now = self._clock()
        return (
            self.parks.count(lane.name, now=now) > 0 or self._snapshot.parked_until.get(lane.name, 0.0) > now
        )

    def parked(self, lane: Lane) -> int:
        """Return how many records of a lane are parked, reading the ledger where the knowledge is old."""
        now = self._clock()
        if not self.parks.is_fresh(lane.name, now=now, age=self._parks_age):
            self._read_parked(lane, now=now, limit=None)
        return self.parks.count(lane.name, now=now)

    def parked_entries(self, lane: Lane, *, batches: int) -> list[Entry]:
        """
        Return parked records of a lane, at least those of so many batches that return first.

        With one slot, what others parked before is not looked for: it returns by itself, and soon. Nobody yields to
        the last lane, so only the first of its records are read.
        """
        now = self._clock()
        if not self.alone and not self.parks.is_fresh(lane.name, now=now, age=self._parks_age):
            limit = lane.batch_size * (batches + 1) if lane == self._config.last_lane else None
            self._read_parked(lane, now=now, limit=limit)
        return self.parks.entries(lane.name, now=now)

    def _read_parked(self, lane: Lane, *, now: float, limit: int | None) -> None:
        entries = list(self._ledger.parked(lane.name, after=now, limit=limit))
        if limit is not None and len(entries) >= limit and entries[0].batch != entries[-1].batch:
            # The limit may have cut the last batch, and half a batch leaves its groups blocked.
            entries = [entry for entry in entries if entry.batch != entries[-1].batch]
        self.parks.replace(lane.name, entries, now=now)

    def _age_allowed(self, expected: float) -> float:
        return self._recheck if expected <= self._recheck else min(self._recheck, FRESH_BEFORE_LONG_RECORD)

    def _loads(self, higher: tuple[Lane, ...]) -> Iterator[LaneLoad]:
        if self._room is not None:
            self._look_into_register()
        for lane in higher:
            yield self._load(lane) if self._room is None else self._load_in_room(lane)

    def _look_into_register(self) -> None:
        self._snapshot = self._register.read(self._environment)
        self._reserve.learn(self._snapshot.parked_until.get(RESERVE, 0.0))

    def _load_in_room(self, lane: Lane) -> LaneLoad:
        """Lambda throttles nothing, so whoever waits for a slot stands in line and says so; no count is needed."""
        now = self._clock()
        return LaneLoad(
            lane=lane,
            waiting=self._snapshot.waiting(now, lane.name) * lane.batch_size,
            running=self._snapshot.busy(now, lane.name),
        )

    def _load(self, lane: Lane) -> LaneLoad:
        depth = self._depths.depth(lane.name)
        if depth.is_empty:
            self._baselines[lane.name].fresh(0, held=0, now=self._clock())
            return LaneLoad(lane=lane, waiting=0)
        elsewhere = self._in_flight_elsewhere(lane)
        held, parked = held_records(depth, parked=0, elsewhere=elsewhere), 0
        if held:
            if self._snapshot.kept_some(lane.name, self._clock()):
                # What they wait for was noted after the ledger was last read.
                self.parks.distrust(lane.name)
            parked = self.parked(lane)
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
            lane=lane, waiting=held + fresh, running=self._snapshot.busy(self._clock(), lane.name)
        )

    def _was_just_done(self, lane: Lane, now: float) -> bool:
        """Whether records behind others of their group may become deliverable at this moment."""
        lines = (*self._snapshot.others, *([self._undeleted] if self._undeleted else ()))
        return any(
            line.lane == lane.name and line.records and not line.busy and line.until > now for line in lines
        )

    def _in_flight_elsewhere(self, lane: Lane) -> int:
        """Return how many in-flight records are known not to wait: they run elsewhere, or are done and not deleted."""
        now = self._clock()
        line = self._undeleted
        done = line.records if line and line.lane == lane.name and line.until > now else 0
        if self.alone:
            return done
        # The register holds the lines of the others; this environment's own may tell of its next lane by now.
        self._snapshot = self._register.read(self._environment)
        return done + self._snapshot.records_of(lane.name, now)

    def _line(self, lane: Lane, *, records: int, busy: bool, until: float, kept: int = 0) -> Occupation:
        return Occupation(
            environment=self._environment,
            lane=lane.name,
            records=records,
            busy=busy,
            until=until,
            kept=kept,
            tenant=self._tenant,
        )

    def _write(self, line: Occupation, *, frees: int | None = None) -> None:
        self._snapshot = self._register.write(line, now=self._clock(), parked_until=self._news(), frees=frees)

    def _news(self) -> dict[str, float]:
        """Return until when lanes have parked records, where the others don't know yet."""
        now = self._clock()
        latest = {
            other.name: 0.0 if self.alone else self.parks.latest(other.name, now=now)
            for other in self._config.lanes
        }
        if self._room is not None:
            latest[RESERVE] = self._reserve.paid_until
        return {
            name: value
            for name, value in latest.items()
            if value > self._snapshot.parked_until.get(name, 0.0)
        }
