"""
Settlement: what goes back to the queue, when it returns, and what the ledger must know of it.

AWS: a record reported in the partial batch response stays invisible until its visibility timeout ends; Lambda
doesn't reset it (Lambda developer guide, "Handling errors for an SQS event source"). So every returned record gets
its own visibility, the same one for all records of a group: a group with one invisible record delivers nothing.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Protocol

from lanes.consumer.ledger import Ending, Entry, Park
from lanes.consumer.reports import report_returned
from lanes.consumer.telemetry import Metric
from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from lanes.config import Lane
    from lanes.consumer.ledger import Ledger
    from lanes.consumer.records import RawRecord
    from lanes.consumer.telemetry import Telemetry


NOTED_FIRST = 5.0
"""
Seconds before which a record may be back while its note is still on its way: a call takes two tries of 2 s at most.

A note that comes late would replace what the next invocation has noted meanwhile, and an attempt with it.
"""


class Why(enum.Enum):
    """Why a record goes back."""

    YIELDED = Ending.YIELDED  # it makes way
    FAILED = Ending.FAILED  # its handler failed
    BEHIND = Ending.RETURNED  # an earlier record of its group goes back, or the invocation's time is over


class Reason(enum.StrEnum):
    """Why a record goes back that nobody began to handle, and that does not make way."""

    BEHIND = "behind"  # an earlier record of its group goes back
    TIME = "time"  # the invocation's time was too short for it
    UNPREPARED = "unprepared"  # the ledger could not be read, or the batch not be held
    NOT_BEGUN = "not_begun"  # its attempt could not be announced, or its effect not be claimed
    ELSEWHERE = "elsewhere"  # its id is being handled by another delivery
    DIVERTED = "diverted"  # an override or a hold could not be applied yet


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """
    A record that goes back, for `delay` seconds; `wakeable` says that it may return earlier.

    Without an entry nothing is noted: the ledger could not be read, and must not be overwritten blindly.
    """

    record: RawRecord
    entry: Entry | None
    why: Why
    delay: int
    wakeable: bool = False
    reason: Reason | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VisibilityChange:
    """A new visibility timeout in seconds, counted from the call, for one receipt handle."""

    message_id: str
    receipt_handle: str
    seconds: int


class Visibility(Protocol):
    """Changes when records of a lane return."""

    def change_visibility(self, lane: str, changes: Sequence[VisibilityChange]) -> Sequence[str]:
        """Apply the changes, in order; return the message ids that were refused. Raises `AwsError`."""


class Settlement:
    """Settles what one invocation returns."""

    def __init__(
        self, *, visibility: Visibility, ledger: Ledger, telemetry: Telemetry, clock: Callable[[], float]
    ) -> None:
        self._visibility = visibility
        self._ledger = ledger
        self._telemetry = telemetry
        self._clock = clock

    def settle(self, lane: Lane, returned: Sequence[Returned], *, batch: str, note: bool) -> Sequence[Entry]:
        """
        Set the visibilities and, if asked to, note the returns in the ledger; return the entries.

        Nothing here may lose a record: whatever fails, the records are already counted as kept, and come back by
        themselves when their visibility ends.
        """
        together = same_delay_in_group(returned)
        report_returned(self._telemetry, lane, together)
        noted_first = note and any(item.delay < NOTED_FIRST for item in together)
        if noted_first:
            self._note(lane, self._noted(lane, together, batch=batch))
        refused = self._change(lane, together)
        entries = self._noted(lane, together, batch=batch, refused=refused)
        if note and (refused or not noted_first):
            self._note(lane, entries)
        return entries

    def _noted(
        self, lane: Lane, items: Sequence[Returned], *, batch: str, refused: Collection[str] = ()
    ) -> list[Entry]:
        now = self._clock()
        return [
            _noted(item, item.entry, lane, now=now, refused=refused, batch=batch)
            for item in items
            if item.entry
        ]

    def _note(self, lane: Lane, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        for _ in range(2):
            try:
                self._ledger.note(entries)
            except AwsError:
                self._telemetry.problem("return_not_noted", lane=lane.name, records=len(entries))
                self._telemetry.count(Metric.AWS_ERRORS)
            else:
                return

    def _change(self, lane: Lane, items: Sequence[Returned]) -> set[str]:
        changes = {
            item.record.message_id: VisibilityChange(
                message_id=item.record.message_id,
                receipt_handle=item.record.receipt_handle,
                seconds=item.delay,
            )
            for item in items
        }
        refused = set(changes)
        for _ in range(2):
            try:
                refused = set(
                    self._visibility.change_visibility(
                        lane.name, [change for key, change in changes.items() if key in refused]
                    )
                )
            except AwsError:
                self._telemetry.problem("visibility_not_changed", lane=lane.name, records=len(refused))
                self._telemetry.count(Metric.AWS_ERRORS)
            if not refused:
                break
        return refused


def same_delay_in_group(returned: Sequence[Returned]) -> list[Returned]:
    """Give all records of a group the longest delay among them; one that can't be woken holds all of them."""
    delays: dict[str, int] = {}
    wakeable: dict[str, bool] = {}
    for item in returned:
        group = item.record.group
        delays[group] = max(delays.get(group, 0), item.delay)
        wakeable[group] = wakeable.get(group, True) and item.wakeable
    return [
        dataclasses.replace(item, delay=delays[item.record.group], wakeable=wakeable[item.record.group])
        for item in returned
    ]


def _noted(
    item: Returned, entry: Entry, lane: Lane, *, now: float, refused: Collection[str], batch: str
) -> Entry:
    record = item.record
    lost = record.message_id in refused
    # A refused change leaves the record invisible until its timeout ends, at the latest a whole one from now.
    delay = lane.visibility_timeout.total_seconds() if lost else item.delay
    park = None if delay == 0 else Park.YIELD if item.wakeable and not lost else Park.REST
    return dataclasses.replace(
        entry,
        yields=entry.yields + (item.why is Why.YIELDED),
        returns=entry.returns + (item.why is Why.BEHIND),
        ending=item.why.value,
        noted_receive=record.receive_count,
        noted_at=now,
        park=park,
        parked_until=now + delay if park else 0.0,
        batch=batch if park else "",
        receipt_handle=record.receipt_handle if park is Park.YIELD else "",
    )
