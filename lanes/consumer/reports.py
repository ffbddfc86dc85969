"""What an invocation reports of each record: one event and its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
        **identity(outcome.work),
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
        **identity(outcome.work),
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
        **(identity(work) if work is not None else {}),
        reason=note.reason,
        error=note.error,
        attempts=note.attempts,
        yields=note.yields,
        receive_count=note.receives,
    )


def identity(work: Work) -> dict[str, Any]:
    """Return what tells a message from others: its own id, kind and priority; a raw body has only its SQS ids."""
    return {"id": getattr(work.argument, "id", ""), "kind": work.kind, "priority": work.priority}
