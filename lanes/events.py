"""
The log's events: names, meanings, fields and counts, for the code that writes them and for every reader.

An event reports a result at level INFO. A problem is an event too: it reports an error that the consumer or the relay
handles by itself, at level WARNING or above.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class Count(enum.StrEnum):
    """The total of a message or a lane that an event adds to."""

    HANDLED = "handled"
    FAILED = "failed"
    YIELDED = "yielded"
    RETURNED = "returned"
    DEAD_LETTERED = "dead-lettered"


_MESSAGE = ("lane", "message_id", "id", "kind", "group")
_TRACED = (*_MESSAGE, "priority", "trace_id")
_RECORD = ("lane", "message_id")
_RECORDS = ("records", "delay", "messages")
_OUTAGE = ("cause", "reason", "since", "failures")
_ENTRY = ("id", "kind", "group", "priority", "attempts", "next_attempt_at", "reason")


class Event(enum.StrEnum):
    """
    One event of the log.

    Attributes:
        label: one or two words, for a column of a table.
        description: one line for people.
        fields: names of the fields that it carries.
        counts: the total that it adds to; None if it adds to none.
        is_problem: whether it reports an error.
    """

    label: str
    description: str
    fields: tuple[str, ...]
    counts: Count | None
    is_problem: bool

    def __new__(
        cls,
        value: str,
        label: str = "",
        description: str = "",
        fields: tuple[str, ...] = (),
        counts: Count | None = None,
    ) -> Self:
        """Make a member; without a label it is a problem, which its name describes."""
        event = str.__new__(cls, value)
        event._value_ = value
        event.label = label or value.removeprefix("message_").replace("_", " ")
        event.description = description
        event.fields = fields
        event.counts = counts
        event.is_problem = not label
        return event

    MESSAGE_HANDLED = (
        "message_handled",
        "handled",
        "a handler succeeded",
        (*_TRACED, "attempt", "receive_count", "sent_at", "started_at", "finished_at"),
        Count.HANDLED,
    )
    DUPLICATE_SKIPPED = (
        "duplicate_skipped",
        "skipped",
        "the message was handled before (idempotency, or its deletion was refused)",
        (*_MESSAGE, "trace_id", "receive_count"),
    )
    MESSAGE_FAILED = (
        "message_failed",
        "failed",
        "an attempt failed; the next one follows after `delay` seconds at the earliest",
        (*_TRACED, "attempt", "receive_count", "sent_at", "error", "delay"),
        Count.FAILED,
    )
    GROUP_BLOCKED = (
        "group_blocked",
        "group blocked",
        "an attempt beyond the last failed (`on_exhausted`): the group waits, and the next follows in `delay` seconds",
        (*_TRACED, "attempt", "receive_count", "sent_at", "error", "delay"),
        Count.FAILED,
    )
    MESSAGE_DEAD_LETTERED = (
        "message_dead_lettered",
        "dead-lettered",
        "the message went to the dead-letter queue of its lane",
        (*_TRACED, "reason", "error", "attempts", "yields", "receive_count", "sent_at"),
        Count.DEAD_LETTERED,
    )
    BATCH_YIELDED = (
        "batch_yielded",
        "yielded",
        "the rest of a batch yielded to `to_lane`; null if the backlog of higher lanes was unknown",
        ("lane", "to_lane", *_RECORDS),
        Count.YIELDED,
    )
    TENANT_YIELDED = (
        "tenant_yielded",
        "yielded",
        "records of a tenant beyond its share of the slots yielded to other tenants of their lane",
        ("lane", "tenant", *_RECORDS),
        Count.YIELDED,
    )
    BATCH_RETURNED = (
        "batch_returned",
        "returned",
        "records returned to their queue without an attempt, for the `reason` below",
        ("lane", "reason", *_RECORDS),
        Count.RETURNED,
    )
    RESOURCE_BACK = (
        "resource_back",
        "resource back",
        "a slot found a resource again, `seconds` after it had found it away first",
        ("lane", "resource", "seconds"),
    )
    BATCH_WOKEN = (
        "batch_woken",
        "woken",
        "parked records became visible early, at the end of an invocation of `by_lane`",
        ("lane", "by_lane", "records", "message_ids"),
    )
    MESSAGE_CANCELLED = (
        "message_cancelled",
        "cancelled",
        "an override cancelled the message",
        (*_MESSAGE, "receive_count", "sent_at", "override"),
    )
    MESSAGE_EXPIRED = (
        "message_expired",
        "expired",
        "the message was past its time (`expires`) and was deleted; no handler got it",
        (*_MESSAGE, "trace_id", "receive_count", "sent_at", "expires_at"),
    )
    OCCURRENCE_SKIPPED = (
        "occurrence_skipped",
        "skipped",
        "a schedule's message was due at `due_at`, before the last one was done, and was dropped",
        (*_MESSAGE, "trace_id", "receive_count", "due_at", "done_at"),
    )
    MESSAGE_MOVED = (
        "message_moved",
        "moved",
        "an override sent the message to another lane, where it has another `message_id`",
        (*_MESSAGE, "to_lane", "priority", "receive_count", "sent_at", "override"),
    )
    MESSAGE_NOT_MOVED = (
        "message_not_moved",
        "not moved",
        "an override does not apply: with its new priority the message would have `size_bytes`, and SQS takes 1 MiB",
        (*_MESSAGE, "to_lane", "size_bytes", "receive_count", "sent_at", "override"),
    )
    PRIORITY_LOWERED = (
        "priority_lowered",
        "priority lowered",
        "the message's priority is above its lane: messages that its handler sends get the highest of the lane, `to`",
        (*_TRACED, "to", "receive_count"),
    )
    OVERRIDE_UNREADABLE = (
        "override_unreadable",
        "override unreadable",
        "an override was ignored, because a later release wrote it",
        ("override",),
    )
    SLOT_STARTED = (
        "slot_started",
        "slot started",
        "`lanes work` started the process of a slot",
        ("slot", "pid"),
    )
    SLOT_STOPPED = (
        "slot_stopped",
        "slot stopped",
        "the process of a slot ended; `error` is there if it could not start",
        ("slot", "pid", "exit_code", "error"),
    )
    SLOT_KILLED = (
        "slot_killed",
        "slot killed",
        "`lanes work` killed the process of a slot: it ran over the function timeout, or was to stop for too long",
        ("slot", "pid", "reason"),
    )

    HANDLER_FAILED = (
        "handler_failed",
        "",
        "counts the attempt; `message_failed` or `message_dead_lettered` follows",
        (*_RECORD, "trace_id"),
    )
    RESOURCE_AWAY = (
        "resource_away",
        "",
        "tries one record at `next_at`, after `tries` calls since `since`; again if it fails, else `resource_back`",
        ("lane", "resource", "reason", "since", "tries", "next_at"),
    )
    BATCH_INTERRUPTED = (
        "batch_interrupted",
        "",
        "returns every unfinished record",
        ("lane", "messages"),
    )
    IMPORT_FAILED = (
        "import_failed",
        "",
        "returns the batch within a minute, without an attempt: the function's own module can't be imported",
        ("queue", "records", "messages"),
    )
    LANE_UNKNOWN = (
        "lane_unknown",
        "",
        "fails, so that the batch returns: no lane of the running version has its `queue`",
        ("queue", "records", "messages"),
    )
    BATCH_NOT_CLOSED = (
        "batch_not_closed",
        "",
        "continues: finished records stay finished; the others return when their visibility timeout ends",
        ("lane",),
    )
    LEDGER_NOT_READ = (
        "ledger_not_read",
        "",
        "returns the batch for a yield delay: without the ledger, attempts are unknown",
        ("lane",),
    )
    RECORDS_NOT_HELD = (
        "records_not_held",
        "",
        "returns the batch if little of its visibility is left; else continues: after a crash it returns later",
        ("lane",),
    )
    OVERRIDES_NOT_READ = (
        "overrides_not_read",
        "",
        "returns the batch: one of its messages may be cancelled",
        ("lane",),
    )
    MESSAGE_NOT_DIVERTED = (
        "message_not_diverted",
        "",
        "returns the message for a backoff, then cancels or moves it again",
        _RECORD,
    )
    LANE_NOT_RECEIVED = (
        "lane_not_received",
        "",
        "continues with other lanes; the lane is asked again before the next record, then after pauses of 0.1 to 5 s",
        ("lane",),
    )
    RECORDS_NOT_DELETED = (
        "records_not_deleted",
        "",
        "continues: the finished records come again after a growing pause, and are deleted without being handled",
        ("lane",),
    )
    PAUSES_NOT_READ = (
        "pauses_not_read",
        "",
        "continues with the paused lanes that were read last",
    )
    BELL_NOT_RUNG = (
        "bell_not_rung",
        "",
        "continues: the heartbeat starts other slots",
    )
    BELL_NOT_RETURNED = (
        "bell_not_returned",
        "",
        "continues: the ring comes again when its visibility timeout ends",
    )
    SLOT_NOT_ENTERED = (
        "slot_not_entered",
        "",
        "continues: other slots may yield once too often",
        ("lane",),
    )
    SLOT_NOT_LEFT = (
        "slot_not_left",
        "",
        "continues: the presence record expires",
        ("lane",),
    )
    HIGHER_LANES_UNKNOWN = (
        "higher_lanes_unknown",
        "",
        "yields; in a checkpoint, continues",
        ("lane",),
    )
    ATTEMPT_NOT_BEGUN = (
        "attempt_not_begun",
        "",
        "postpones the record: no attempt runs uncounted",
        _RECORD,
    )
    ATTEMPT_NOT_COUNTED = (
        "attempt_not_counted",
        "",
        "writes the attempt again together with the record's return",
        _RECORD,
    )
    SUCCESS_NOT_NOTED = (
        "success_not_noted",
        "",
        "continues: the handler has finished, and a later delivery may run it again",
        _RECORD,
    )
    DUPLICATE_OF_OTHER_LANE = (
        "duplicate_of_other_lane",
        "",
        "skips the message, which was done in the lane `done_in`: its priority has changed, or two senders share an id",
        ("lane", "message_id", "id", "kind", "done_in"),
    )
    RATE_NOT_TAKEN = (
        "rate_not_taken",
        "",
        "returns the record: without the table nothing says whether its kind may start",
        ("lane",),
    )
    END_NOT_RECORDED = (
        "end_not_recorded",
        "",
        "tries once more, then returns the message for its end alone: its handler does not run again",
        _RECORD,
    )
    EFFECT_NOT_RELEASED = (
        "effect_not_released",
        "",
        "continues: the claim expires with the function's timeout",
        _RECORD,
    )
    GIVEN_UP_NOT_NOTED = (
        "given_up_not_noted",
        "",
        "continues to the dead-letter queue; if that fails too, the handler may run once more",
        _RECORD,
    )
    DEAD_LETTER_NOT_SENT = (
        "dead_letter_not_sent",
        "",
        "keeps the message, and dead-letters it again after a backoff",
        (*_RECORD, "receive_count"),
    )
    VISIBILITY_NOT_CHANGED = (
        "visibility_not_changed",
        "",
        "tries once more; then the records return when their visibility timeout ends",
        ("lane", "records"),
    )
    RETURN_NOT_NOTED = (
        "return_not_noted",
        "",
        "tries once more; then the next receive has no known cause",
        ("lane", "records"),
    )
    WAKE_FAILED = (
        "wake_failed",
        "",
        "continues: parked records return by themselves",
        ("lane",),
    )

    ENTRY_NOT_SENT = (
        "entry_not_sent",
        "",
        "tries the outbox entry that SQS refused again at `next_attempt_at`",
        _ENTRY,
    )
    ENTRY_ABANDONED = (
        "entry_abandoned",
        "",
        "keeps the outbox entry as `abandoned` until you retry or discard it",
        _ENTRY,
    )
    OUTBOX_OUT_OF_REACH = (
        "outbox_out_of_reach",
        "",
        "tries again: the table of the outbox did not answer",
        _OUTAGE,
    )
    OUTBOX_LANE_WAITS = (
        "outbox_lane_waits",
        "",
        "tries the lane again after a pause of up to 30 s: it can't be reached, throttles or refuses everybody",
        ("lane", *_OUTAGE),
    )
    OUTBOX_ROUND_SLOW = (
        "outbox_round_slow",
        "",
        "goes on: a round of the relay took `seconds`, more than half of its lock",
        ("seconds",),
    )
    OUTBOX_OUTAGE_ENDED = (
        "outbox_outage_ended",
        "",
        "continues with the table of the outbox, or with the lane",
        ("lane", "cause", "since", "failures"),
    )
