"""Looks at the lanes: receives, the records in hand, deletions, paused lanes, and which lane is next."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Protocol

from lanes.bell import is_ring
from lanes.config.settings import LARGEST_BATCH
from lanes.consumer import telemetry as report
from lanes.consumer.records import RawRecord, oldest_first
from lanes.consumer.settlement import visibility_in_hand
from lanes.consumer.values import value
from lanes.errors import AwsError
from lanes.events import Event
from lanes.overrides import OVERRIDES_AGE
from lanes.retries import LanePauses, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from lanes.config import Lane
    from lanes.consumer.engines import Beside, Pending
    from lanes.consumer.engines.order import Reserve, Strict, Weighted
    from lanes.consumer.engines.pace import Pace, SlotTime
    from lanes.consumer.telemetry import Telemetry
    from lanes.depth import LaneDepth
    from lanes.overrides import Pauses

POLL = 1
"""
Seconds of a long poll while there is nothing to do.

AWS: a long poll asks all servers of a queue, a short one only some (SQS developer guide, "Short and long polling"), so
a slot leaves only after a long poll of every lane found nothing.
"""


PAUSES = RetryPolicy(backoff_base=timedelta(milliseconds=100), backoff_max=timedelta(seconds=5))
"""The bound is the longest time for which a lane is not asked after its outage: urgent messages may wait in it."""


class ReceivingQueues(Protocol):
    """The calls of looks; each raises `AwsError`."""

    def receive(self, lane: str, *, maximum: int, visibility: int, wait: int) -> Sequence[RawRecord]:
        """Receive up to `maximum` records, invisible for `visibility` seconds; wait up to `wait` seconds for one."""

    def delete(self, lane: str, records: Sequence[RawRecord]) -> Sequence[str]:
        """Delete received records; return the message ids that were refused."""

    def depth(self, lane: str) -> LaneDepth:
        """Return the approximate counts of a lane's queue."""


@value(frozen=True, slots=True, kw_only=True)
class Look:
    """The answer of one lane to `calls` receives for `asked` records, of so many seconds each, or their error."""

    lane: Lane
    asked: int
    began_at: float
    took: float = 0.0
    calls: int = 0
    records: Sequence[RawRecord] = ()
    error: AwsError | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Looking:
    """
    How one environment looks at its lanes.

    Attributes:
        failures: the lanes at which the last look failed, and their pauses from the second failure in a row on.

    """

    queues: ReceivingQueues
    beside: Beside
    pace: Pace
    telemetry: Telemetry
    clock: Callable[[], float]
    failures: LanePauses = dataclasses.field(default_factory=lambda: LanePauses(lambda: 1.0, PAUSES, free=1))


@dataclasses.dataclass(slots=True, eq=False)
class Looks:
    """
    The looks of one invocation, and the records in hand that no batch has yet.

    Attributes:
        seconds_left: returns the seconds until Lambda ends the function.
        keep_done: takes finished records that could not be deleted.
        hands: received records by lane.
        full: names of the lanes that had as many records as were asked for, so that more may wait.
        most: records to ask for at once, at most.

    """

    looking: Looking
    seconds_left: Callable[[], float]
    keep_done: Callable[[Lane, Sequence[RawRecord]], None]
    hands: dict[str, list[RawRecord]] = dataclasses.field(default_factory=dict)
    full: set[str] = dataclasses.field(default_factory=set)
    most: int = LARGEST_BATCH
    _looked_at: dict[str, float] = dataclasses.field(default_factory=dict)
    _timed: Pending[Sequence[Look]] | None = None
    _polls: dict[str, Pending[Look]] = dataclasses.field(default_factory=dict)
    _deletions: dict[str, list[Pending[Sequence[RawRecord]]]] = dataclasses.field(default_factory=dict)

    @property
    def failed(self) -> Collection[str]:
        """Names of the lanes at which the last look failed."""
        return self.looking.failures.waits.keys()

    def before_hands(self, order: Sequence[Lane]) -> Sequence[Lane]:
        """Return the lanes before the first one with records in hand, all of them if none has any."""
        return list(takewhile(lambda lane: lane.name not in self.hands, order))

    def look(self, lanes: Sequence[Lane], *, expected: float) -> None:
        """Ask the lanes that were last asked too long ago, in order, until one has records."""
        stale = [lane for lane in self._asked(lanes) if self._is_stale(lane, expected)]
        for lane in stale:
            self.land(lane)
        for lane in stale:
            look = self._ask(lane)
            self._add(look)
            if lane.name in self.hands:
                break

    def look_soon(self, lanes: Sequence[Lane], *, during: Lane, expected: float) -> None:
        """Look at the lanes beside a record, just before its end, if a look will be due then."""
        pace, record = self.looking.pace, self.looking.pace.typical(during)
        if self._timed is not None or not record or not (pace.is_short(during) and pace.is_even(during)):
            return
        free = [lane for lane in self._asked(lanes) if lane.name not in self.hands]
        if due := [lane for lane in free if self._is_stale(lane, expected, later=record)]:
            # The highest last: its answer is the newest when the record ends.
            self._timed = self.looking.beside.start(
                lambda: [self._ask(lane) for lane in reversed(due)], after=pace.look_in(during, lanes=due)
            )

    def poll(self, lanes: Sequence[Lane]) -> bool:
        """Wait for records in any of the lanes for one long poll; return whether one has some."""
        for lane in self._asked(lanes):
            if lane.name not in self._polls:
                self._polls[lane.name] = self.looking.beside.start(partial(self._ask, lane, wait=POLL))
        while self._polls and not self.hands:
            self.looking.beside.wait(list(self._polls.values()))
            self.collect()
        return bool(self.hands)

    def collect(self, *, wait: bool = False) -> None:
        """End the look that was meant for this moment, and take in the polls that have ended, or `wait` for them."""
        timed, self._timed = self._timed, None
        for look in timed.result() if timed is not None else ():
            self._add(look)
        for name, poll in list(self._polls.items()):
            if wait or poll.done():
                self._add(self._polls.pop(name).result())

    def delete(self, lane: Lane, records: Sequence[RawRecord]) -> None:
        """Delete finished records beside the work; the records behind them in their groups can be received then."""
        call = self.looking.beside.start(lambda: self._delete(lane, records))
        self._deletions.setdefault(lane.name, []).append(call)

    def land(self, lane: Lane) -> None:
        """Wait for the lane's deletions, and repeat those that were refused; keep what is refused again as done."""
        for call in self._deletions.pop(lane.name, ()):
            left = call.result()
            if refused := self._delete(lane, left) if left else ():
                text = f"{len(refused)} records"
                error = AwsError(
                    operation="DeleteMessageBatch", code="Refused", message=text, retryable=False
                )
                problem, count = Event.RECORDS_NOT_DELETED, len(refused)
                report.failed_beside(self.looking.telemetry, problem, error, lane=lane.name, calls=count)
                self.keep_done(lane, refused)

    @property
    def is_filling(self) -> bool:
        """Whether records may still come in hand from calls beside the handler."""
        return self._timed is not None or bool(self._polls)

    def _is_stale(self, lane: Lane, expected: float, *, later: float = 0.0) -> bool:
        """Whether a lane has to be asked again, some seconds from now, before a record starts."""
        at = self._looked_at.get(lane.name)
        # Before a deletion lands no look can see the next record of its group.
        if at is None or lane.name in self._deletions:
            return True
        return self.looking.pace.is_stale(lane, self.looking.clock() + later - at, expected=expected)

    def _ask(self, lane: Lane, *, wait: int = 0) -> Look:
        """Ask a lane. Runs beside the handler, so it changes nothing here."""
        looking, left = self.looking, self.seconds_left()
        asked, began_at = min(self.most, looking.pace.most(lane, seconds_left=left)), looking.clock()
        answered = partial(Look, lane=lane, asked=asked, began_at=began_at)
        visibility, receive = visibility_in_hand(left), looking.queues.receive
        records: list[RawRecord] = []
        calls, tries = 0, 1 if wait else looking.pace.tries(lane)
        try:
            while calls < tries and all(is_ring(one.group, one.body) for one in records):
                calls += 1
                found = receive(lane.name, maximum=asked, visibility=visibility, wait=wait)
                # A ring takes the place of a message that waits behind it.
                tries += bool(found)
                records += found
        except AwsError as error:
            if not records:
                return answered(error=error)
        took = 0.0 if wait else (looking.clock() - began_at) / calls
        return answered(records=records, took=took, calls=calls)

    def take(self, lane: Lane, records: Sequence[RawRecord]) -> None:
        """Take records in hand, in their order."""
        if records:
            self.hands[lane.name] = oldest_first([*self.hands.get(lane.name, ()), *records])

    def _add(self, look: Look) -> None:
        looking, pace, name = self.looking, self.looking.pace, look.lane.name
        if look.error is not None:
            looking.failures.failed(name, looking.clock())
            report.failed_beside(looking.telemetry, Event.LANE_NOT_RECEIVED, look.error, lane=name)
            return
        looking.failures.accepted(name)
        if look.took:
            pace.looked(look.took)
        if look.calls > 1:
            pace.asked_again(look.lane, found=any(one.sent_at < look.began_at for one in look.records))
        records = [one for one in look.records if not is_ring(one.group, one.body)]
        if len(records) < len(look.records):
            # Its lane has messages, or it has started this slot.
            self.delete(look.lane, [one for one in look.records if is_ring(one.group, one.body)])
        is_full = len(look.records) == look.asked
        # There may be more.
        self._looked_at[name] = float("-inf") if is_full else look.began_at
        pace.received(look.lane, records, is_full=is_full)
        self.take(look.lane, records)
        (self.full.add if is_full else self.full.discard)(name)

    def _delete(self, lane: Lane, records: Sequence[RawRecord]) -> Sequence[RawRecord]:
        """Return the records that were not deleted."""
        try:
            refused = self.looking.queues.delete(lane.name, records)
        except AwsError:
            return records
        return [record for record in records if record.message_id in refused]

    def _asked(self, lanes: Sequence[Lane]) -> list[Lane]:
        """Return the lanes that don't pause for their failures."""
        now, failures = self.looking.clock(), self.looking.failures
        if not failures.waits:
            return list(lanes)
        return [lane for lane in lanes if not failures.is_paused(lane.name, now)]


@dataclasses.dataclass(slots=True, eq=False)
class Paused:
    """The lanes that an operator paused, read beside the handlers; those read last if they can't be read."""

    pauses: Pauses | None
    looking: Looking
    _known: Collection[str] = ()
    _read_at: float = float("-inf")
    _reading: Pending[Collection[str]] | None = None

    def begin(self) -> None:
        """Wait for a reading if one is due or a lane is paused: the ring may be for its resumption."""
        if self._known:
            self._read_at = float("-inf")
        self.lanes()
        self.land()

    def is_paused(self, lane: Lane) -> bool:
        """Whether a lane is paused, by a reading of this moment if it was: its messages may come after a resumption."""
        if lane.name in self.lanes():
            self.begin()
        return lane.name in self._known

    def lanes(self) -> Collection[str]:
        """Return the names of the paused lanes, and read them again if that is due."""
        if self._reading is not None and self._reading.done():
            self.land()
        now = self.looking.clock()
        # A reading with a time in the future has no known age: the clock was set back.
        is_due = not 0 <= now - self._read_at < OVERRIDES_AGE
        if self.pauses is not None and self._reading is None and is_due:
            self._read_at = now
            self._reading = self.looking.beside.start(self.pauses.paused)
        return self._known

    def land(self) -> None:
        """Wait for the reading in progress."""
        reading, self._reading = self._reading, None
        if reading is None:
            return
        try:
            self._known = reading.result()
        except AwsError:
            report.failed_call(self.looking.telemetry, Event.PAUSES_NOT_READ)


class Choice:
    """
    The lanes of a slot, and which of them is next.

    Args:
        lanes: those that it serves, highest first.
        paused: tells those that an operator paused.
        policy: their order.
        reserve: the account for overdue records.
        looks: the looks of its invocation.
        time: the time of its invocation.
        clock: returns epoch seconds.

    Attributes:
        lanes: as given, with paused ones.
        from_reserve: the lane that was chosen last, if that was for an overdue record.

    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        *,
        paused: Paused,
        policy: Strict | Weighted,
        reserve: Reserve,
        looks: Looks,
        time: SlotTime,
        clock: Callable[[], float],
    ) -> None:
        self.lanes = lanes
        self.from_reserve: Lane | None = None
        self._names = frozenset(lane.name for lane in lanes)
        self._limited = [lane for lane in lanes if lane.max_wait is not None]
        self._paused = paused
        self._policy = policy
        self._reserve = reserve
        self._looks = looks
        self._time = time
        self._clock = clock
        self._overdue_at: dict[str, float] = {}

    def served(self) -> list[Lane]:
        """Return the lanes but for paused ones."""
        return self._served(self.lanes)

    def order(self) -> list[Lane]:
        """Return the same lanes in the order of the policy."""
        return self._served(self._policy.order(self.lanes))

    def above(self, lane: Lane) -> list[Lane]:
        """Return those with priority over a lane."""
        return self._served(self._policy.above(lane))

    def overdue_below(self, lane: Lane) -> Lane | None:
        """Return the first lane with less priority than a lane with a record that is due from the reserve."""
        return self.overdue(self._served([one for one in self._limited if lane.outranks(one)]))

    def first(self, order: Sequence[Lane], *, expected: float) -> Lane | None:
        """Return the first lane with records in hand, after a look at those before it if one is due."""
        looks = self._looks
        looks.collect()
        before = looks.before_hands(order)
        if self._time.has_time_for(*before):
            looks.look(before, expected=expected)
        place = len(looks.before_hands(order))
        return self.overdue(order[place + 1 :]) or next(iter(order[place:]), None)

    def overdue(self, lanes: Sequence[Lane]) -> Lane | None:
        """Return the first lane with a record in hand that is due from the reserve, after the looks that are due."""
        self.from_reserve = next((lane for lane in lanes if self._is_overdue(lane)), None)
        return self.from_reserve

    def _is_overdue(self, lane: Lane) -> bool:
        now = self._clock()
        if lane.max_wait is None or not self._reserve.has_time:
            return False
        if not self._is_due(lane) and now >= self._overdue_at.get(lane.name, 0.0):
            self._looks.look([lane], expected=0.0)
            if not self._is_due(lane):
                # Half as often as an idle slot polls: with 2.5 s one started 5.7 s late in simulation.
                self._overdue_at[lane.name] = now + 2 * POLL
        return self._is_due(lane)

    def _is_due(self, lane: Lane) -> bool:
        records = self._looks.hands.get(lane.name)
        return records is not None and self._reserve.admits(lane, records[0])

    def _served(self, lanes: Sequence[Lane]) -> list[Lane]:
        paused = self._paused.lanes() if lanes else ()
        return [lane for lane in lanes if lane.name in self._names and lane.name not in paused]
