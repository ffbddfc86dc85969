"""
Occurrences of a schedule: two never run at once, and one with `overlap = "skip"` that was due meanwhile is dropped.

In one lane their group lets one of them run at a time; each claims its schedule too, since a deploy may move the
schedule to another lane while some are waiting or running in the old one.

Only what Scheduler's role has sent is an occurrence: every sender chooses the rest of its messages, and must not hold
up or drop those of another lane. SQS itself writes who sent a message.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING

from lanes.consumer import telemetry as report
from lanes.consumer.interceptors import Interception
from lanes.consumer.outcome import DONE, SENT_ON, Outcome
from lanes.errors import AwsError
from lanes.events import Event
from lanes.message import Message
from lanes.schedules import SOURCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.consumer.handlers import Work
    from lanes.consumer.interceptors.idempotency import Claims
    from lanes.consumer.ledger import Entry
    from lanes.consumer.records import Batch, RawRecord

KEPT = 400 * 86_400.0
"""Seconds for which a schedule's last end is known: longer than the longest pause of a cron expression."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Occurrences:
    """
    Claims the schedules of occurrences, and drops those that overlap.

    Attributes:
        claims: makes the claims.
        role_id: id of Scheduler's role.
    """

    claims: Claims
    role_id: str

    def begin(self, batch: Batch) -> Sequence[Interception]:
        """Take part in a batch with messages of Scheduler."""
        return [_Occurrences(self, batch)] if any(map(self.sent, batch.records)) else ()

    def sent(self, record: RawRecord) -> bool:
        """Whether Scheduler sent a record."""
        return record.sender_role_id == self.role_id


@dataclasses.dataclass(frozen=True, slots=True)
class _Occurrences(Interception):
    _feature: Occurrences
    _batch: Batch
    _claimed: dict[str, str] = dataclasses.field(default_factory=dict)

    def before(self, record: RawRecord, entry: Entry, work: Work, *, joins: bool) -> Outcome | None:
        """Claim the schedule; drop an occurrence that has waited for an earlier one, unless it has failed."""
        del joins
        message = work.argument
        if entry.given_up or work.handler is None or not isinstance(message, Message):
            return None
        # Messages for later, which Scheduler sends as well, have their sender's source.
        if message.source != SOURCE or not self._feature.sent(record):
            return None
        claims, name = self._feature.claims, message.id.rpartition("@")[0]
        # No message has such an effect: in an identity, % is written as %25.
        claim = claims.begin(self._batch, record, entry, f"%runs#{name}")
        if isinstance(claim, Outcome):
            return claim
        self._claimed[record.message_id] = name
        is_late = record.skips_overlap and not entry.attempts and self._is_late(record, work, message, name)
        return SENT_ON if is_late else None

    def _is_late(self, record: RawRecord, work: Work, message: Message, name: str) -> bool:
        """Report an occurrence that was due before the last one was done, and return True."""
        claims, due_at = self._feature.claims, message.time.timestamp()
        try:
            done_at = claims.ledger.effect_done_at(f"%overlap#{name}")
        except AwsError:
            # Too many runs are better than one too few.
            return False
        if done_at <= due_at:
            return False
        fields = {"due_at": due_at, "done_at": done_at}
        telemetry = claims.settlement.telemetry
        report.decoded(telemetry, Event.OCCURRENCE_SKIPPED, self._batch.lane, record, work, **fields)
        return True

    def after(self, record: RawRecord, outcome: Outcome) -> Outcome:
        """Write down when an occurrence was done just now; if that fails, the next one runs in any case."""
        name = self._claimed.pop(record.message_id, None)
        if name is None:
            return outcome
        claims, batch = self._feature.claims, self._batch
        if record.skips_overlap and outcome == DONE:
            now = claims.settlement.clock()
            owner, lane = claims.owner(batch, record), batch.lane.name
            finish = partial(claims.ledger.finish_effect, f"%overlap#{name}", owner=owner, lane=lane)
            claims.tried(
                batch, record, Event.SUCCESS_NOT_NOTED, lambda: finish(now=now, keep_until=now + KEPT)
            )
        claims.release(batch, record, f"%runs#{name}")
        return outcome
