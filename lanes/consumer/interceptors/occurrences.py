"""
Occurrences of a schedule: two never run at once, and one with `overlap = "skip"` that was due meanwhile is dropped.

In one lane their group lets one of them run at a time; each claims its schedule too, since a deploy may move the
schedule to another lane while some are waiting or running in the old one.

Only a message of Scheduler's role is an occurrence, and its copy that an override moves: every sender chooses the
rest of its messages, and must not hold up or drop those of another lane. SQS itself writes the sender of a message, and
the ledger lists the copies that the consumer sent on.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING

from lanes.consumer import telemetry as report
from lanes.consumer.interceptors import Interception
from lanes.consumer.outcome import DONE, SENT_ON, Outcome, Reason
from lanes.errors import AwsError
from lanes.events import Event
from lanes.message import Message
from lanes.overrides import MOVED_ID
from lanes.schedules import SOURCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.config import Lane
    from lanes.consumer.handlers import Work
    from lanes.consumer.interceptors.idempotency import Claims
    from lanes.consumer.ledger import Entry
    from lanes.consumer.records import Batch, RawRecord

KEPT = 400 * 86_400.0
"""Seconds for which a schedule's last end is known: longer than the longest pause of a cron expression."""

MOVED_KEPT = 15 * 86_400.0
"""Seconds for which a moved occurrence is known as one. AWS: a queue keeps it for at most 14 days."""


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
        """Take part in a batch with messages of Scheduler, or such that may have been moved."""
        may_be = any(
            self._is_sent(record) or MOVED_ID.fullmatch(record.deduplication_id) for record in batch.records
        )
        return [_Occurrences(self, batch)] if may_be else ()

    def is_one(self, record: RawRecord, message: Message) -> bool:
        """Whether a record is an occurrence; raises `AwsError` if it may be a moved one, and that can't be read."""
        # Messages for later, which Scheduler sends as well, have their sender's source.
        if message.source != SOURCE:
            return False
        return self._is_sent(record) or bool(
            MOVED_ID.fullmatch(record.deduplication_id)
            and self.claims.ledger.effect_done_at(_moved(record.deduplication_id))
        )

    def moving(self, record: RawRecord, message: Message, lane: Lane, deduplication_id: str) -> None:
        """Write down that an occurrence is sent on under another id; call it before. Raises `AwsError`."""
        if self.is_one(record, message):
            # An id with the message id of a copy in another lane, which no sender of this one can know.
            now, ledger = self.claims.settlement.clock(), self.claims.ledger
            owner, name = record.message_id, lane.name
            ledger.finish_effect(
                _moved(deduplication_id), owner=owner, lane=name, now=now, keep_until=now + MOVED_KEPT
            )

    def _is_sent(self, record: RawRecord) -> bool:
        return record.sender_role_id == self.role_id


def _moved(deduplication_id: str) -> str:
    """Return the effect of a move. No message has such a one: in an identity, % is written as %25."""
    return f"%moved#{deduplication_id}"


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
        claims, name = self._feature.claims, message.id.rpartition("@")[0]
        try:
            if not self._feature.is_one(record, message):
                return None
        except AwsError:
            return claims.settlement.deferred(self._batch.lane, record, entry, Reason.NOT_BEGUN)
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
