"""
Occurrences of a schedule with `overlap = "skip"`: one that was due before the last one was done is dropped.

Their group lets one of them run at a time, so an occurrence that waited for another comes after the other's end. Of
each schedule the table has the time at which an occurrence was done last.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lanes.consumer import telemetry as report
from lanes.consumer.interceptors import Interception
from lanes.consumer.outcome import DONE, SENT_ON
from lanes.errors import AwsError
from lanes.events import Event
from lanes.message import MOVED, REDRIVEN, Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.consumer.handlers import Work
    from lanes.consumer.ledger import Entry, Ledger
    from lanes.consumer.outcome import Outcome
    from lanes.consumer.records import Batch, RawRecord
    from lanes.consumer.settlement import Settlement

KEPT = 400 * 86_400.0
"""Seconds for which a schedule's last end is known: longer than the longest pause of a cron expression."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Drops such occurrences, and writes down when one was done."""

    ledger: Ledger
    settlement: Settlement

    def begin(self, batch: Batch) -> Sequence[Interception]:
        """Take part in a batch with such occurrences."""
        return [_Occurrences(self, batch)] if any(record.skips_overlap for record in batch.records) else ()


@dataclasses.dataclass(frozen=True, slots=True)
class _Occurrences(Interception):
    _feature: Overlap
    _batch: Batch
    _keys: dict[str, str] = dataclasses.field(default_factory=dict)

    def before(self, record: RawRecord, entry: Entry, work: Work, *, joins: bool) -> Outcome | None:
        """Drop an occurrence that has waited for an earlier one; a failed or redriven one is never dropped."""
        del joins
        message = work.argument
        if not record.skips_overlap or not isinstance(message, Message) or work.handler is None:
            return None
        key = _key(message, self._batch.lane.name)
        self._keys[record.message_id] = key
        if entry.attempts or record.deduplication_id.startswith((MOVED, REDRIVEN)):
            return None
        try:
            done_at = self._feature.ledger.effect_done_at(key)
        except AwsError:
            # Too many runs are better than one too few.
            return None
        due_at = message.time.timestamp()
        if done_at <= due_at:
            return None
        fields = {"due_at": due_at, "done_at": done_at}
        telemetry, lane = self._feature.settlement.telemetry, self._batch.lane
        report.decoded(telemetry, Event.OCCURRENCE_SKIPPED, lane, record, work, **fields)
        return SENT_ON

    def after(self, record: RawRecord, outcome: Outcome) -> Outcome:
        """Write down when an occurrence was done; if that fails, the next one runs in any case."""
        key = self._keys.pop(record.message_id, None)
        if key is not None and outcome.end == DONE.end:
            feature, lane = self._feature, self._batch.lane.name
            now = feature.settlement.clock()

            def finish() -> None:
                feature.ledger.finish_effect(
                    key, owner=record.message_id, lane=lane, now=now, keep_until=now + KEPT
                )

            ids = {"lane": lane, "message_id": record.message_id}
            report.tried(feature.settlement.telemetry, Event.SUCCESS_NOT_NOTED, finish, **ids)
        return outcome


def _key(message: Message, lane: str) -> str:
    """
    Return the name of a schedule's effect, which no message has: in an identity, % is written as %25.

    Of one lane: a sender to another one must not have an occurrence dropped.
    """
    schedule = message.id.rpartition("@")[0]
    return f"%overlap#{lane}#{message.source}#{message.kind}#{schedule}"
