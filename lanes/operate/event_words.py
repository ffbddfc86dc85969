"""What an event says, for people: what happened, and why, in a few words each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LONGEST = 200
"""Characters of a foreign text, such as an error."""

RETURNED = {
    "behind": "an earlier message of its group went back, and the order is kept",
    "time": "the invocation had too little time left for it",
    "unprepared": "the ledger could not be read, or the batch not be held: an AWS call failed",
    "not_begun": "its attempt could not be written down before it began: an AWS call failed",
    "elsewhere": "its id is being handled by another delivery",
    "diverted": "an override or a hold concerns it and could not be carried out yet",
}
_SAID_ELSEWHERE = frozenset(
    {
        "level", "timestamp", "message", "service", "correlation_id", "event", "lane", "message_id", "message_ids",
        "messages", "id", "kind", "group", "receive_count", "location", "sampling_rate", "exception",
        "exception_name", "stack_trace", "trace_id", "xray_trace_id", "function_request_id",
    }
)  # fmt: skip


def words_of(event: str, fields: Mapping[str, Any]) -> tuple[str, str]:
    """Return what an event of this name says: what happened in one or two words, and why or how."""
    known = _WORDS.get(event)
    if known is not None:
        what, say = known
        return what, say(fields)
    what = event.removeprefix("message_").removeprefix("batch_").replace("_", " ")
    return what, _problem(fields)


def seconds(value: Any) -> str:
    """Write a number of seconds for people."""
    if not isinstance(value, int | float):
        return "an unknown time"
    if value < 1:
        return f"{max(0.0, value) * 1000:.0f} ms"
    if value < 100:  # noqa: PLR2004 - two digits of seconds read well
        return f"{value:.3g} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _handled(fields: Mapping[str, Any]) -> str:
    started, finished = fields.get("started_at"), fields.get("finished_at")
    took = finished - started if started is not None and finished is not None else None
    return f"attempt {fields.get('attempt')} succeeded in {seconds(took)}"


def _failed(fields: Mapping[str, Any]) -> str:
    error, delay = _short(fields.get("error")), seconds(fields.get("delay"))
    return f"attempt {fields.get('attempt')}: {error}; tried again in {delay} at the earliest"


def _dead_lettered(fields: Mapping[str, Any]) -> str:
    why = _short(fields.get("reason"))
    if fields.get("error"):
        why += f" ({_short(fields['error'])})"
    return (
        f"{why}; {fields.get('attempts')} failed attempts, {fields.get('yields')} yields, "
        f"{fields.get('receive_count')} receives"
    )


def _yielded(fields: Mapping[str, Any]) -> str:
    to = fields.get("to_lane")
    why = f"to {to}, which has work waiting" if to else "the state of the higher lanes could not be known"
    return f"{why}; parked for {seconds(fields.get('delay'))} unless woken"


def _returned(fields: Mapping[str, Any]) -> str:
    why = RETURNED.get(str(fields.get("reason")), str(fields.get("reason")))
    return f"{why}; back in {seconds(fields.get('delay'))}"


def _woken(fields: Mapping[str, Any]) -> str:
    by = fields.get("by_lane")
    return f"nothing waited above any more when {by or 'an invocation'} was done"


def _cancelled(fields: Mapping[str, Any]) -> str:
    return f"by override {fields.get('override')}"


def _moved(fields: Mapping[str, Any]) -> str:
    return f"to {fields.get('to_lane')} by override {fields.get('override')}"


_WORDS: dict[str, tuple[str, Callable[[Mapping[str, Any]], str]]] = {
    "message_handled": ("handled", _handled),
    "duplicate_skipped": ("skipped", lambda _: "its id was done before (idempotency)"),
    "message_failed": ("failed", _failed),
    "message_dead_lettered": ("dead-lettered", _dead_lettered),
    "batch_yielded": ("yielded", _yielded),
    "batch_returned": ("returned", _returned),
    "batch_woken": ("woken", _woken),
    "message_cancelled": ("cancelled", _cancelled),
    "message_moved": ("moved", _moved),
    "message_sent_behind": ("sent behind", lambda _: "its group was let go: it follows what was redriven"),
    "group_held": ("held", lambda _: "its group waits behind it in the dead-letter queue"),
}


def known_words() -> list[str]:
    """Return the words and names of the events that tell what becomes of messages."""
    return sorted({*_WORDS, *(what for what, _ in _WORDS.values())})


def _problem(fields: Mapping[str, Any]) -> str:
    """Return the last line of the traceback, the error itself, or what else there is."""
    lines = str(fields.get("exception") or "").strip().splitlines()
    return _short(lines[-1]) if lines else _rest(fields)


def _rest(fields: Mapping[str, Any]) -> str:
    return _short(", ".join(f"{key} {value}" for key, value in fields.items() if key not in _SAID_ELSEWHERE))


def _short(text: object) -> str:
    plain = " ".join(str(text or "").split())
    return plain if len(plain) <= LONGEST else f"{plain[:LONGEST]}..."
