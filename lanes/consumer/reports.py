"""
What an invocation reports of its records: one event for each, or for all that go back together, and their figures.

Every receive that reaches the function ends in one of these events, so a receive count that none of them has was
never seen by it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lanes.consumer.telemetry import Metric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.config import Lane
    from lanes.consumer.dead_letters import DeadLetterNote
    from lanes.consumer.ledger import Entry
    from lanes.consumer.outcomes import Failed, Handled
    from lanes.consumer.records import RawRecord
    from lanes.consumer.settlement import Returned
    from lanes.consumer.telemetry import Telemetry
    from lanes.consumer.work import Work

READ_FOR_ID = 64 * 1024
"""Longest body in characters that is read for the id and kind of a record that goes back unopened."""


def report_handled(telemetry: Telemetry, lane: Lane, record: RawRecord, outcome: Handled) -> None:
    """Report a record that is done, with its times in epoch seconds."""
    if outcome.duplicate:
        telemetry.count(Metric.DUPLICATES)
        telemetry.event(
            "duplicate_skipped",
            lane=lane.name,
            message_id=record.message_id,
            group=record.group,
            id=outcome.work.id,
            kind=outcome.work.kind,
            trace_id=outcome.work.trace_id,
            receive_count=record.receive_count,
        )
        return
    telemetry.count(Metric.HANDLED)
    telemetry.milliseconds(Metric.WAIT, (outcome.started_at - record.sent_at) * 1000)
    telemetry.milliseconds(Metric.DURATION, (outcome.finished_at - outcome.started_at) * 1000)
    telemetry.event(
        "message_handled",
        lane=lane.name,
        message_id=record.message_id,
        group=record.group,
        id=outcome.work.id,
        kind=outcome.work.kind,
        priority=outcome.work.priority,
        trace_id=outcome.work.trace_id,
        attempt=outcome.attempt,
        receive_count=record.receive_count,
        sent_at=record.sent_at,
        started_at=outcome.started_at,
        finished_at=outcome.finished_at,
    )


def report_failed(telemetry: Telemetry, lane: Lane, record: RawRecord, outcome: Failed) -> None:
    """Report a failed attempt that another one follows."""
    telemetry.event(
        "message_failed",
        lane=lane.name,
        message_id=record.message_id,
        group=record.group,
        id=outcome.work.id,
        kind=outcome.work.kind,
        priority=outcome.work.priority,
        trace_id=outcome.work.trace_id,
        attempt=outcome.entry.attempts,
        receive_count=record.receive_count,
        sent_at=record.sent_at,
        error=outcome.error,
        delay=outcome.delay,
    )


def report_dead_lettered(
    telemetry: Telemetry, lane: Lane, record: RawRecord, note: DeadLetterNote, work: Work | None
) -> None:
    """Report a record that was given up; `work` is what its body asked for, if it was opened and that could be told."""
    told = unopened(record) if work is None else {"id": work.id, "kind": work.kind}
    telemetry.count(Metric.DEAD_LETTERED)
    telemetry.event(
        "message_dead_lettered",
        lane=lane.name,
        message_id=record.message_id,
        group=record.group,
        id=told["id"],
        kind=told["kind"],
        priority=work.priority if work else None,
        trace_id=work.trace_id if work else None,
        reason=note.reason,
        error=note.error,
        attempts=note.attempts,
        yields=note.yields,
        receive_count=note.receives,
        sent_at=record.sent_at,
    )


def report_yielded(
    telemetry: Telemetry, lane: Lane, records: Sequence[RawRecord], *, to: Lane | None, delay: int
) -> None:
    """Report records that make way together and are parked for `delay` seconds; `to` is None where it is unknown."""
    telemetry.event(
        "batch_yielded",
        lane=lane.name,
        to_lane=to.name if to else None,
        records=len(records),
        delay=delay,
        messages=[unopened(record) for record in records],
    )


def report_shared(
    telemetry: Telemetry, lane: Lane, records: Sequence[RawRecord], *, tenant: str, delay: int
) -> None:
    """Report records that make way for other tenants of their lane and are parked for `delay` seconds."""
    telemetry.event(
        "tenant_yielded",
        lane=lane.name,
        tenant=tenant,
        records=len(records),
        delay=delay,
        messages=[unopened(record) for record in records],
    )


def report_returned(telemetry: Telemetry, lane: Lane, returned: Sequence[Returned]) -> None:
    """Report records that go back untouched, together where they have the reason and the delay in common."""
    alike: dict[tuple[str, int], list[RawRecord]] = {}
    for item in returned:
        if item.reason is not None:
            alike.setdefault((item.reason, item.delay), []).append(item.record)
    for (reason, delay), records in alike.items():
        telemetry.event(
            "batch_returned",
            lane=lane.name,
            reason=reason,
            records=len(records),
            delay=delay,
            messages=[unopened(record) for record in records],
        )


def report_woken(telemetry: Telemetry, lane: Lane, entries: Sequence[Entry], *, by: Lane) -> None:
    """Report parked records that were made visible at the end of an invocation of another lane, or of their own."""
    telemetry.count(Metric.WOKEN, len(entries))
    telemetry.event(
        "batch_woken",
        lane=lane.name,
        by_lane=by.name,
        records=len(entries),
        message_ids=[entry.message_id for entry in entries],
    )


def unopened(record: RawRecord) -> dict[str, Any]:
    """
    Return what tells a record apart that goes back without having been decoded.

    Its id is that of the event in its body. Where that is none or long it is the deduplication id, which is made from
    the event's id unless the sender gave another.
    """
    event = _opened(record)
    return {
        "message_id": record.message_id,
        "id": str(event.get("id") or record.deduplication_id),
        "kind": str(event.get("type") or ""),
        "group": record.group,
        "receive_count": record.receive_count,
    }


def _opened(record: RawRecord) -> dict[str, Any]:
    if len(record.body) > READ_FOR_ID:
        return {}
    try:
        event = json.loads(record.body)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}
