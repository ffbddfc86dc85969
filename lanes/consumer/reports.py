"""What an invocation reports of each record: one event and its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.consumer.telemetry import Metric

if TYPE_CHECKING:
    from lanes.config import Lane
    from lanes.consumer.attempts import Failed, Handled, Work
    from lanes.consumer.dead_letters import DeadLetterNote
    from lanes.consumer.records import RawRecord
    from lanes.consumer.telemetry import Telemetry


def report_handled(telemetry: Telemetry, lane: Lane, record: RawRecord, outcome: Handled) -> None:
    """Report a record that is done, with its times in epoch seconds."""
    if outcome.duplicate:
        telemetry.count(Metric.DUPLICATES)
        telemetry.event("duplicate_skipped", lane=lane.name, message_id=record.message_id)
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
        attempt=outcome.entry.attempts,
        receive_count=record.receive_count,
        error=outcome.error,
        delay=outcome.delay,
    )


def report_dead_lettered(
    telemetry: Telemetry, lane: Lane, record: RawRecord, note: DeadLetterNote, work: Work | None
) -> None:
    """Report a record that was given up; `work` is what its body asked for, if that could be told."""
    telemetry.count(Metric.DEAD_LETTERED)
    telemetry.event(
        "message_dead_lettered",
        lane=lane.name,
        message_id=record.message_id,
        group=record.group,
        id=work.id if work else "",
        kind=work.kind if work else "",
        priority=work.priority if work else None,
        reason=note.reason,
        error=note.error,
        attempts=note.attempts,
        yields=note.yields,
        receive_count=note.receives,
    )
