"""The status of all lanes and of the bell: counts of the queues, figures from CloudWatch, states of the mappings."""

from __future__ import annotations

import dataclasses
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from lanes.config import EngineName
from lanes.consumer.attempts import last_error
from lanes.depth import LaneDepth
from lanes.errors import AwsError, LanesError
from lanes.fault_codes import Cause, cause_of
from lanes.operate.descriptions import counted, error_code, format_seconds
from lanes.operate.figures import (
    UNKNOWN,
    DepthTrend,
    Drain,
    Growth,
    LaneFigures,
    drain_of,
    without_late_zeros,
)
from lanes.operate.pause import DISABLED
from lanes.operate.symptoms import Symptom

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lanes.config import LanesConfig
    from lanes.consumer.ledger import Entry
    from lanes.operate.pause import LaneMapping
    from lanes.operate.recent import RecentWork
    from lanes.outbox.store import OutboxStatus

OUTBOX_LASTS = timedelta(seconds=10)
"""How long its status holds: it takes forty small queries."""
NO_MAPPING = "none"
OUTBOX_WAIT = 60.0
"""Seconds after which an entry of the outbox waits for something: a relay sends within seconds."""


class Depths(Protocol):
    """Counts of queues, without receiving anything; every method raises `AwsError`."""

    def depth(self, lane: str) -> LaneDepth:
        """Return the counts of a lane's queue."""

    def dead_letters(self, lane: str) -> LaneDepth:
        """Return the counts of a lane's dead-letter queue."""

    def parked(self, lane: str) -> int:
        """Return the number of parked messages of a lane, after a yield or in a backoff."""

    def blocking(self, lane: str) -> Sequence[Entry]:
        """Return the entries of a lane's messages that block their groups, but for those that are tried now."""

    def bell(self) -> LaneDepth:
        """Return the counts of the bell's queue; the pull engine has one."""


class MappingStates(Protocol):
    """The states of mappings."""

    def of_lane(self, lane: str) -> Sequence[LaneMapping]:
        """Return the mappings that serve a lane: one, unless something is wrong; raises `AwsError`."""

    def of_bell(self) -> Sequence[LaneMapping]:
        """Return the mappings on the bell: one, unless something is wrong; raises `AwsError`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BlockedGroup:
    """
    A group that waits behind a message without attempts left (`on_exhausted`); times are epoch seconds.

    Attributes:
        kind: the kind of the message; empty for a raw body.
        id: its id.
        attempts: its failed attempts.
        since: time of the last one that `max_attempts` allows.
        next_at: earliest time of its next try.
        code: name of the exception of the last attempt.
        error: that exception.

    """

    lane: str
    group: str
    kind: str
    id: str
    attempts: int
    since: float
    next_at: float
    code: str
    error: str


def blocked_groups(config: LanesConfig, depths: Depths, lane: str) -> list[BlockedGroup]:
    """Return the blocked groups of a lane, those blocked longest first; raises `AwsError`."""
    # Without the setting there are none, and no call is made.
    entries = depths.blocking(lane) if config.consumer.on_exhausted else ()
    found = [
        BlockedGroup(
            lane=lane,
            group=entry.blocking.group,
            kind=entry.blocking.kind,
            id=entry.blocking.id,
            attempts=entry.attempts,
            since=entry.blocking.since,
            next_at=entry.parked_until,
            code=error_code(last_error(entry)),
            error=last_error(entry),
        )
        for entry in entries
        if entry.blocking is not None
    ]
    return sorted(found, key=lambda one: one.since)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaneStatus:
    """
    The current status of a lane; None is unknown.

    Attributes:
        waiting: visible messages.
        in_flight: messages received and not deleted: being handled, waiting for a slot or in its hands, or parked.
        parked: messages in flight that are parked.
        blocked: groups that wait behind a message without attempts left.
        figures: figures of the last minutes.
        drain: the trend of the depth.
        growth: the change of the depth from which the trend follows; None if it is not known yet.
        time_to_drain: time to drain at that change, if the depth falls.
        mapping: state of the mapping, in AWS's words; in the pull engine that of the bell, disabled for a paused lane.
        dead_letters: messages in the dead-letter queue, visible or not.

    """

    lane: str
    waiting: int
    in_flight: int
    parked: int | None
    blocked: Sequence[BlockedGroup] | None
    figures: LaneFigures
    drain: Drain
    growth: Growth | None
    time_to_drain: timedelta | None
    mapping: str | None
    dead_letters: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BellStatus:
    """
    The current status of the bell; None is unknown.

    Attributes:
        waiting: rings that no invocation has taken.
        in_flight: rings that invocations answer, and the heartbeat, which returns every 20 seconds.
        mapping: state of its mapping, in AWS's words.

    """

    waiting: int | None
    in_flight: int | None
    mapping: str | None

    def __str__(self) -> str:
        if self.waiting is None or self.in_flight is None:
            counts = "rings unknown"
        elif self.waiting + self.in_flight == 0:
            # A heartbeat is always in the queue: it is replaced before it is released.
            counts = "empty, without a heartbeat"
        else:
            counts = f"{self.waiting} rings waiting, {self.in_flight} in flight"
        return f"bell {self.mapping or 'unknown'}, {counts}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """
    All lanes at one moment, epoch seconds, the highest first, with symptoms and notes on unknown values.

    The pull engine has a bell. `figures_read` is False if the figures could not be read; otherwise those that are None
    are not known yet.
    """

    at: float
    figures_read: bool
    engine: EngineName
    lanes: Sequence[LaneStatus]
    bell: BellStatus | None
    symptoms: Sequence[Symptom]
    notes: Sequence[str]

    @property
    def engine_line(self) -> str:
        """The engine and the bell in one line."""
        return f"engine {self.engine}" if self.bell is None else f"engine {self.engine}; {self.bell}"


class StatusReader:
    """
    Reads the status of all lanes.

    The counts of the lanes are required. Figures, parked messages, mappings and dead letters that can't be read are
    unknown, and a note gives the reason.

    Args:
        config: the lanes.
        depths: counts of the queues.
        mappings: states of the mappings.
        figures: reads the known ages, rates and yields by lane.
        trend: the readings before this one, for the time to drain.
        outbox: reads the status of the outbox; None without one.
    """

    def __init__(
        self,
        *,
        config: LanesConfig,
        depths: Depths,
        mappings: MappingStates,
        figures: Callable[[], Mapping[str, LaneFigures]],
        trend: DepthTrend,
        outbox: Callable[[], OutboxStatus | None] = lambda: None,
    ) -> None:
        self._read_outbox = outbox
        self._trend = trend
        self._config = config
        self._depths = depths
        self._mappings = mappings
        self._figures = figures

    def read(self, work: RecentWork | None = None) -> Status:
        """
        Read all lanes once.

        Args:
            work: recent work from the log, which knows of the minutes that CloudWatch does not show yet.

        Raises:
            AwsError: a lane's queue could not be counted.
        """
        notes: list[str] = []
        gone: list[str] = []
        read = _or_unknown(self._figures, notes, "age, rate and yields")
        known = read or {}
        lanes = [
            self._lane(lane.name, known.get(lane.name, UNKNOWN), work, notes, gone)
            for lane in self._config.lanes
        ]
        engine = self._config.consumer.engine
        bell = self._bell(notes) if engine is EngineName.PULL else None
        return Status(
            at=self._trend.clock(),
            figures_read=read is not None,
            engine=engine,
            lanes=lanes,
            bell=bell,
            symptoms=[*_gone(gone), *_stopped(lanes, bell), *self._outbox(notes), *_stuck(lanes)],
            notes=list(dict.fromkeys(notes)),
        )

    def _outbox(self, notes: list[str]) -> Iterator[Symptom]:
        found = _or_unknown(self._read_outbox, notes, "outbox")
        if found is None or found.oldest_at is None:
            return
        waited = self._trend.clock() - found.oldest_at
        if waited > OUTBOX_WAIT:
            lanes = ", ".join(f"{count} of {lane}" for lane, count in sorted(found.lanes.items()))
            more = "" if found.is_complete else "at least "
            text = f"the oldest entry of the outbox has waited {format_seconds(round(waited))}; {more}{lanes} wait"
            yield Symptom(page="outbox-oldest-age", text=text)

    def _bell(self, notes: list[str]) -> BellStatus:
        depth = _or_unknown(self._depths.bell, notes, "rings of the bell")
        return BellStatus(
            waiting=None if depth is None else depth.backlog,
            in_flight=None if depth is None else depth.in_flight,
            mapping=_state_of(_or_unknown(self._mappings.of_bell, notes, "states of mappings")),
        )

    def _depth(self, lane: str, gone: list[str]) -> LaneDepth:
        try:
            return self._depths.depth(lane)
        except AwsError as error:
            if cause_of(error.code) is not Cause.MISSING:
                raise
            # Other lanes are shown all the same.
            gone.append(lane)
            return LaneDepth(backlog=0, in_flight=0)

    def _lane(
        self,
        lane: str,
        figures: LaneFigures,
        work: RecentWork | None,
        notes: list[str],
        gone: list[str],
    ) -> LaneStatus:
        depth = self._depth(lane, gone)
        dead = _or_unknown(lambda: self._depths.dead_letters(lane), notes, f"dead letters of {lane}")
        mapping = _state_of(_or_unknown(lambda: self._mappings.of_lane(lane), notes, "states of mappings"))
        growth = self._trend.growth(lane, depth.messages, figures.depths)
        figures = without_late_zeros(lane, figures, growth=growth, work=work)
        drain, time_to_drain = drain_of(depth.messages, growth, is_paused=mapping == DISABLED)
        return LaneStatus(
            lane=lane,
            waiting=depth.backlog,
            in_flight=depth.in_flight,
            # An operator with fewer rights sees the counts all the same.
            parked=_or_unknown(lambda: self._depths.parked(lane), notes, "parked messages"),
            blocked=_or_unknown(
                lambda: blocked_groups(self._config, self._depths, lane), notes, "blocked groups"
            ),
            # CloudWatch is a minute late: an empty queue would still have an oldest message.
            figures=dataclasses.replace(figures, oldest_age=None) if depth.is_empty else figures,
            drain=drain,
            growth=growth,
            time_to_drain=time_to_drain,
            mapping=mapping,
            dead_letters=None if dead is None else dead.messages,
        )


def _stopped(lanes: Sequence[LaneStatus], bell: BellStatus | None) -> Iterator[Symptom]:
    """Yield what receives nothing: its mapping is disabled or missing."""
    if bell is not None and bell.mapping in (DISABLED, NO_MAPPING):
        text = f"no invocation starts: the bell's mapping is {bell.mapping}"
        yield Symptom(page="heartbeat", text=text)
        return
    for lane in lanes:
        if lane.mapping in (DISABLED, NO_MAPPING):
            waiting = counted(lane.waiting + lane.in_flight, "message")
            text = f"{lane.lane} is not received: its mapping is {lane.mapping}; {waiting} in it"
            yield Symptom(page="oldest-age", lane=lane.lane, text=text)


def _stuck(lanes: Sequence[LaneStatus]) -> Iterator[Symptom]:
    """Yield what waits for an operator: blocked groups, and dead letters."""
    for lane in lanes:
        if lane.blocked:
            first = lane.blocked[0]
            text = (
                f"{counted(len(lane.blocked), 'group')} of {lane.lane} blocked: {first.group} waits behind "
                f"{first.kind} {first.id}, which fails again and again ({first.error})"
            )
            yield Symptom(page="blocked", lane=lane.lane, text=text)
    for lane in lanes:
        if lane.dead_letters:
            text = f"{lane.lane} has {counted(lane.dead_letters, 'dead letter')}"
            yield Symptom(page="dead-letters", lane=lane.lane, text=text)


def _gone(lanes: Sequence[str]) -> Iterator[Symptom]:
    for lane in lanes:
        yield Symptom(page="call-errors", lane=lane, text=f"{lane} is away: its queue does not exist")


def _state_of(mappings: Sequence[LaneMapping] | None) -> str | None:
    return None if mappings is None else ", ".join(one.state for one in mappings) or NO_MAPPING


def _or_unknown(read: Callable[[], T], notes: list[str], what: str) -> T | None:
    try:
        return read()
    except AwsError as error:
        notes.append(f"{what} unknown: {error}")
        return None


T = TypeVar("T")


class Cached(Generic[T]):
    """
    The last value, or the error of its reading, until it is too old.

    Args:
        read: reads the value, may raise `LanesError`.
        lasts: lifetime of the value.
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
        self._error: LanesError | None = None

    def get(self) -> T:
        """
        Return the value.

        Raises:
            LanesError: the last reading failed.
        """
        if self._clock() >= self._until:
            # Before the call: an error lasts as long as a value, so an outage is not asked at every poll.
            self._until = self._clock() + self._lasts
            try:
                self._value, self._error = self._read(), None
            except LanesError as error:
                self._error = error
        if self._error is not None:
            raise self._error
        return self._value

    def forget(self) -> None:
        """Read the value again next time."""
        self._until = float("-inf")
