"""
Interceptors: optional features around the handling of a record, one file each.

A feature that is off is not in the consumer's list, and a feature that does not concern a batch takes no part in it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

from lanes.consumer.outcome import Outcome, Reason
from lanes.errors import MessageDecodeError
from lanes.events import Event
from lanes.message import Message
from lanes.metrics import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.consumer.delays import Delays
    from lanes.consumer.handlers import Work
    from lanes.consumer.ledger import Entry
    from lanes.consumer.records import Batch, RawRecord
    from lanes.consumer.telemetry import Telemetry


class Interception:
    """
    One feature's part in one batch. The defaults leave every record alone.

    An interception handles its own errors: a record that it can't judge is returned.
    """

    def admit(self, record: RawRecord, entry: Entry) -> Outcome | None:
        """Return the outcome of a record that is not to be handled. Asked before it needs a slot, perhaps twice."""
        return None

    def before(self, record: RawRecord, entry: Entry, work: Work) -> Outcome | None:
        """Return the outcome of a record that is not to be attempted. Asked right before its attempt."""
        return None

    def after(self, record: RawRecord, outcome: Outcome) -> Outcome:
        """Return the outcome, or another in its place. Asked for each record that is admitted or attempted."""
        return outcome


class Interceptor(Protocol):
    """An optional feature."""

    def begin(self, batch: Batch) -> Sequence[Interception]:
        """Return this feature's parts in a batch; none if it does not concern it; raises `AwsError`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Interceptions:
    """The interceptions of one batch, asked in order; the first outcome counts."""

    parts: Sequence[Interception]

    def admit(self, record: RawRecord, entry: Entry) -> Outcome | None:
        """Return the outcome of a record that is not to be handled."""
        return next((found for one in self.parts if (found := one.admit(record, entry))), None)

    def before(self, record: RawRecord, entry: Entry, work: Work) -> Outcome | None:
        """Return the outcome of a record that is not to be attempted."""
        return next((found for one in self.parts if (found := one.before(record, entry, work))), None)

    def after(self, record: RawRecord, outcome: Outcome) -> Outcome:
        """Return the outcome in the end; the last to judge the record before is the first after it."""
        for one in reversed(self.parts):
            outcome = one.after(record, outcome)
        return outcome


class Forwarding(Protocol):
    """Sends records on."""

    def forward(self, lane: str, record: RawRecord, *, body: str, deduplication_id: str) -> None:
        """Send `body` with a record's group and attributes to a lane; raises `AwsError`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How an interceptor reaches queues, log and clock."""

    queues: Forwarding
    delays: Delays
    telemetry: Telemetry
    clock: Callable[[], float]

    def deferred(
        self,
        batch: Batch,
        record: RawRecord,
        entry: Entry,
        problem: Event = Event.MESSAGE_NOT_DIVERTED,
        reason: Reason = Reason.DIVERTED,
    ) -> Outcome:
        """Report a failed call, in an `except` block; return the outcome of its record, which is judged again later."""
        self.telemetry.problem(problem, lane=batch.lane.name, message_id=record.message_id)
        self.telemetry.count(Metric.AWS_ERRORS)
        return Outcome(entry=entry, delay=self.delays.after_error(batch.lane, record), reason=reason)


def decoded(record: RawRecord) -> Message | None:
    """Return a record's message; None if its body is no event."""
    try:
        return Message.from_body(record.body, group=record.group)
    except MessageDecodeError:
        return None
