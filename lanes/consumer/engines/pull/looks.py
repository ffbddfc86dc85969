"""Looks at the lanes: receives, in the order of the policy, and the records that a slot has in hand."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import TYPE_CHECKING, Protocol

from lanes.errors import AwsError
from lanes.events import Event
from lanes.metrics import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.config import Lane
    from lanes.consumer.engines.pull.beside import Beside, Pending
    from lanes.consumer.engines.pull.pace import Pace
    from lanes.consumer.records import RawRecord
    from lanes.consumer.telemetry import Telemetry

BEYOND = 2
"""Seconds for which received records stay invisible after the invocation's end: Lambda may take a moment to end it."""

POLL = 1
"""
Seconds of a long poll while there is nothing to do.

AWS: a long poll asks all servers of a queue, a short one only some (SQS developer guide, "Short and long polling"), so
a slot leaves only after a long poll of every lane found nothing.
"""


class ReceivingQueues(Protocol):
    """The calls of looks; each raises `AwsError`."""

    def receive(self, lane: str, *, maximum: int, visibility: int, wait: int) -> Sequence[RawRecord]:
        """Receive up to `maximum` records, invisible for `visibility` seconds; wait up to `wait` seconds for one."""

    def delete(self, lane: str, records: Sequence[RawRecord]) -> Sequence[str]:
        """Delete received records; return the message ids that were refused."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """
    The result of asking one lane.

    Attributes:
        asked: the largest number of records that it could have found.
        began_at: epoch seconds.
        took: seconds.
        error: the error of the call, if it failed.

    """

    lane: Lane
    asked: int
    began_at: float
    took: float = 0.0
    records: Sequence[RawRecord] = ()
    error: AwsError | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Looking:
    """How one environment looks at its lanes."""

    queues: ReceivingQueues
    beside: Beside
    pace: Pace
    telemetry: Telemetry
    clock: Callable[[], float]


class Looks:
    """
    The looks of one invocation, and the records in hand that no batch has yet.

    Attributes:
        hands: received records by lane.
        has_more: whether a lane had as many records as were asked for, so that more may wait.
        failed: names of the lanes at which the last look failed.

    """

    def __init__(self, looking: Looking, *, seconds_left: Callable[[], float]) -> None:
        self._looking = looking
        self._seconds_left = seconds_left
        self._looked_at: dict[str, float] = {}
        self._timed: Pending[Sequence[Look]] | None = None
        self._polls: dict[str, Pending[Sequence[Look]]] = {}
        self._deletions: dict[str, list[Pending[Sequence[RawRecord]]]] = {}
        self.hands: dict[str, list[RawRecord]] = {}
        self.has_more = False
        self.failed: set[str] = set()

    def look(self, lanes: Sequence[Lane], *, expected: float, most: int | None = None) -> None:
        """Ask the lanes that were last asked too long ago, in order, until one has records; `most` bounds them."""
        stale = [lane for lane in lanes if self._is_stale(lane, expected)]
        for lane in stale:
            self.land(lane)
        if stale:
            self._add(self._ask(stale, most=most))

    def look_soon(self, lanes: Sequence[Lane], *, during: Lane) -> None:
        """Look at the lanes beside a record, just before its end, if a look will be due then."""
        looking, pace = self._looking, self._looking.pace
        if self._timed is not None or not pace.is_regular(during):
            return
        record = pace.typical(during)
        due = [lane for lane in lanes if self._is_stale(lane, record, later=record)]
        if due:
            # The highest last: its answer is the newest when the record ends.
            self._timed = looking.beside.start(
                lambda: [self._ask_one(lane) for lane in reversed(due)],
                after=pace.look_in(during, calls=len(due)),
            )

    def poll(self, lanes: Sequence[Lane]) -> bool:
        """Wait for records in any of the lanes for one long poll; return whether one has some."""
        for lane in lanes:
            if lane.name not in self._polls:
                self._polls[lane.name] = self._looking.beside.start(partial(self._ask, [lane], wait=POLL))
        while self._polls and not self.hands:
            self._looking.beside.wait(list(self._polls.values()))
            self.collect()
        return bool(self.hands)

    def collect(self, *, wait: bool = False) -> None:
        """End the look that was meant for this moment, and take in the polls that have ended, or `wait` for them."""
        if self._timed is not None:
            self._end_timed()
        for name, poll in list(self._polls.items()):
            if wait or poll.done():
                self._add(self._polls.pop(name).result())

    def delete(self, lane: Lane, records: Sequence[RawRecord]) -> None:
        """Delete finished records beside the work; the records behind them in their groups can be received then."""
        call = self._looking.beside.start(lambda: self._delete(lane, records))
        self._deletions.setdefault(lane.name, []).append(call)

    def land(self, lane: Lane) -> None:
        """Wait for the lane's deletions, and repeat those that were refused."""
        for call in self._deletions.pop(lane.name, ()):
            if left := call.result():
                self._repeat(lane, left)

    def _is_stale(self, lane: Lane, expected: float, *, later: float = 0.0) -> bool:
        """Whether a lane has to be asked again, some seconds from now, before a record starts."""
        if lane.name in self._deletions and self._looking.pace.is_chain(lane):
            # No look could see the next records of the group before its deletion lands.
            return True
        at = self._looked_at.get(lane.name)
        if at is None:
            return True
        return self._looking.pace.is_stale(lane, self._looking.clock() + later - at, expected=expected)

    def _end_timed(self) -> None:
        timed, self._timed = self._timed, None
        if timed is not None:
            self._add(timed.result())

    def _ask(self, lanes: Sequence[Lane], *, wait: int = 0, most: int | None = None) -> Sequence[Look]:
        """Ask lanes until one has records. Runs beside the handler, so it changes nothing here."""
        looks: list[Look] = []
        for lane in lanes:
            looks.append(self._ask_one(lane, wait=wait, most=most))
            if looks[-1].records:
                break
        return looks

    def _ask_one(self, lane: Lane, *, wait: int = 0, most: int | None = None) -> Look:
        looking, left = self._looking, self._seconds_left()
        look = Look(
            lane=lane, asked=most or looking.pace.most(lane, seconds_left=left), began_at=looking.clock()
        )
        visibility = max(0, math.ceil(left)) + BEYOND
        records: Sequence[RawRecord] = ()
        receive = partial(looking.queues.receive, lane.name, maximum=look.asked, visibility=visibility)
        try:
            for _ in range(1 if wait else looking.pace.tries(lane)):
                if records := receive(wait=wait):
                    break
        except AwsError as error:
            return dataclasses.replace(look, error=error)
        took = 0.0 if wait else looking.clock() - look.began_at
        return dataclasses.replace(look, records=records, took=took)

    def _add(self, looks: Sequence[Look]) -> None:
        pace = self._looking.pace
        for look in looks:
            name = look.lane.name
            if look.error is not None:
                self.failed.add(name)
                self._report(look.error, Event.LANE_NOT_RECEIVED, look.lane)
                continue
            self.failed.discard(name)
            if look.took:
                pace.looked(look.took)
            is_full = len(look.records) == look.asked
            # As many as were asked for: there may be more.
            self._looked_at[name] = look.began_at if not is_full else float("-inf")
            pace.received(look.lane, look.records, is_full=is_full)
            if look.records:
                self.hands.setdefault(name, []).extend(look.records)
                self.has_more = self.has_more or is_full

    def _delete(self, lane: Lane, records: Sequence[RawRecord]) -> Sequence[RawRecord]:
        """Return the records that were not deleted."""
        try:
            refused = self._looking.queues.delete(lane.name, records)
        except AwsError:
            return records
        return [record for record in records if record.message_id in refused]

    def _repeat(self, lane: Lane, records: Sequence[RawRecord]) -> None:
        if refused := self._delete(lane, records):
            code, text = "Refused", f"{len(refused)} records"
            error = AwsError(operation="DeleteMessageBatch", code=code, message=text, retryable=False)
            self._report(error, Event.RECORDS_NOT_DELETED, lane)

    def _report(self, error: AwsError, problem: Event, lane: Lane) -> None:
        """Report an error of a call that another thread may have made."""
        try:
            raise error
        except AwsError:
            self._looking.telemetry.problem(problem, lane=lane.name)
            self._looking.telemetry.count(Metric.AWS_ERRORS)
