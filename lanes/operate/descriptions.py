"""Descriptions of log events for people: a label, and a reason."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lanes.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_LENGTH = 200
"""Characters of text from elsewhere, such as an error."""

RETURN_REASONS = {
    "behind": "an earlier message of its group returned, and the group keeps its order",
    "time": "the invocation had too little time left for it",
    "unprepared": "the ledger could not be read, or the visibility not be extended: an AWS call failed",
    "rate": "its kind has a max_rate, and came too often",
    "crashed": "its last attempt killed its process: it pauses before the next one",
    "aside": "it would have waited long in its slot, behind higher lanes or a long record; another slot may take it",
    "not_begun": "the attempt could not be written to the ledger before it began: an AWS call failed",
    "elsewhere": "another delivery is handling the same id",
    "expired": "its visibility timeout had ended before the function could hold it; another receive may have it",
    "away": "its handler found its resource away; no attempt counts",
    "alone": "its handler finds its resource away while others find it; no attempt counts (unavailable_for)",
    "early": "its handler wants it later, without an attempt",
    "unknown_kind": "no handler is registered for its kind; it waits for code that has one (unknown_kind_for)",
    "unrecorded": "it has ended, and its end could not be written to its run: an AWS call failed",
    "diverted": "an override applies to it and could not be carried out yet",
}
# These have columns of their own, or are for programs.
_NOT_SHOWN = frozenset(
    {
        "level", "timestamp", "message", "service", "correlation_id", "event", "lane", "message_id", "message_ids",
        "messages", "id", "kind", "group", "receive_count", "location", "sampling_rate", "exception",
        "exception_name", "trace_id", "xray_trace_id", "function_request_id",
    }
)  # fmt: skip


def describe(name: str, fields: Mapping[str, Any]) -> tuple[str, str]:
    """Return the label of an event, in one or two words, and its reason; a later release may have written it."""
    try:
        event = Event(name)
    except ValueError:
        return name.removeprefix("message_").removeprefix("batch_").replace("_", " "), error_of(fields)
    if (reason := _REASONS.get(event)) is not None:
        return event.label, reason(fields)
    return event.label, (error_of(fields) if event.is_problem else "") or event.description


def labels() -> list[str]:
    """Return the labels and names of the events that report results."""
    results = [event for event in Event if not event.is_problem]
    return sorted({*results, *(event.label for event in results)})


def error_code(text: str) -> str:
    """Return the exception or the code of AWS that an error begins with; `other` if it has none."""
    name, colon, _ = text.partition(":")
    return name if colon and name.replace(".", "").isidentifier() else "other"


def format_seconds(value: Any) -> str:
    """Write a number of seconds for people."""
    if not isinstance(value, int | float):
        return "an unknown time"
    if value <= 0:
        return "0 s"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 100:  # noqa: PLR2004 - two digits of seconds read well
        return f"{value:.3g} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    figures = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    first = next(place for place, (figure, _) in enumerate(figures) if figure)
    return " ".join(f"{figure} {unit}" for figure, unit in figures[first : first + 2] if figure)


def format_clock(at: float | None, *, near: float) -> str:
    """Write a time of day, with its date unless it is the day of the time `near`; both in epoch seconds."""
    if at is None:
        return "unknown"
    when, other = datetime.fromtimestamp(at, UTC), datetime.fromtimestamp(near, UTC)
    return when.strftime("%H:%M:%SZ" if when.date() == other.date() else "%Y-%m-%d %H:%M:%SZ")


def number_of(fields: Mapping[str, Any], name: str) -> float | None:
    """Return a number among the fields of an event; None if another release wrote none."""
    value = fields.get(name)
    return value if isinstance(value, int | float) else None


def describe_away(*, since: str, tries: float | None) -> str:
    """Describe since when a resource is away, and how many calls have found it so."""
    return f"away since {since}, {'unknown' if tries is None else tries} tries"


def _resource_away(fields: Mapping[str, Any]) -> str:
    next_at = number_of(fields, "next_at")
    near = 0.0 if next_at is None else next_at
    since = format_clock(number_of(fields, "since"), near=near)
    known = describe_away(since=since, tries=number_of(fields, "tries"))
    resource, reason = _short(fields.get("resource")), _short(fields.get("reason"))
    return f"{resource} {known} by this slot, next {format_clock(next_at, near=near)} ({reason})"


def _resource_back(fields: Mapping[str, Any]) -> str:
    return f"{_short(fields.get('resource'))} back after {format_seconds(fields.get('seconds'))}, as this slot found it"


def _handled(fields: Mapping[str, Any]) -> str:
    started, finished = fields.get("started_at"), fields.get("finished_at")
    took = finished - started if started is not None and finished is not None else None
    return f"attempt {fields.get('attempt')} succeeded in {format_seconds(took)}"


def _failed(fields: Mapping[str, Any]) -> str:
    error, delay = _short(fields.get("error")), format_seconds(fields.get("delay"))
    return f"attempt {fields.get('attempt')}: {error}; next attempt in {delay} at the earliest"


def _blocking(fields: Mapping[str, Any]) -> str:
    return f"its group waits: {_failed(fields)}"


def _dead_lettered(fields: Mapping[str, Any]) -> str:
    return (
        f"{_cause(fields)}; {counted(fields.get('attempts'), 'failed attempt')}, "
        f"{counted(fields.get('yields'), 'yield')}, {counted(fields.get('receive_count'), 'receive')}"
    )


def moment(epoch_seconds: float | None) -> datetime | None:
    """Return a time in UTC."""
    return None if epoch_seconds is None else datetime.fromtimestamp(epoch_seconds, UTC)


def counted(number: Any, noun: str) -> str:
    """Write a number with its noun in the right form."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _cause(fields: Mapping[str, Any]) -> str:
    error = f" ({_short(fields['error'])})" if fields.get("error") else ""
    return f"{_short(fields.get('reason'))}{error}"


def _yielded(fields: Mapping[str, Any]) -> str:
    to = fields.get("to_lane")
    reason = f"to {to}, which has a backlog" if to else "the backlog of the higher lanes was unknown"
    # In the pull engine nothing is parked: only a handler at a checkpoint yields, and its batch is visible at once.
    back = (
        f"parked for {format_seconds(fields['delay'])} unless woken" if fields.get("delay") else _visible(0)
    )
    return f"{reason}; {back}"


def _tenant_yielded(fields: Mapping[str, Any]) -> str:
    delay = format_seconds(fields.get("delay"))
    return f"tenant {fields.get('tenant')} uses its share of the slots; parked for {delay}"


def _returned(fields: Mapping[str, Any]) -> str:
    reason = RETURN_REASONS.get(str(fields.get("reason")), str(fields.get("reason")))
    error = f" ({_short(fields['error'])})" if fields.get("error") else ""
    return f"{reason}{error}; {_visible(fields.get('delay'))}"


def _visible(delay: Any) -> str:
    return "visible again at once" if delay == 0 else f"visible again in {format_seconds(delay)}"


def _woken(fields: Mapping[str, Any]) -> str:
    by = fields.get("by_lane")
    return f"the higher lanes had no backlog when {by or 'an invocation'} was done"


def _cancelled(fields: Mapping[str, Any]) -> str:
    return f"by override {fields.get('override')}"


def _moved(fields: Mapping[str, Any]) -> str:
    return f"to {fields.get('to_lane')} by override {fields.get('override')}"


def _not_moved(fields: Mapping[str, Any]) -> str:
    return (
        f"to {fields.get('to_lane')} by override {fields.get('override')}: with its new priority it has "
        f"{fields.get('size_bytes')} bytes, and SQS takes 1 MiB; it is handled here"
    )


def error_of(fields: Mapping[str, Any]) -> str:
    """Return the last line of the traceback, which is the error itself, or the other fields."""
    lines = str(fields.get("exception") or "").strip().splitlines()
    return _short(lines[-1]) if lines else _other_fields(fields)


def _other_fields(fields: Mapping[str, Any]) -> str:
    return _short(", ".join(f"{key} {value}" for key, value in fields.items() if key not in _NOT_SHOWN))


def _short(text: object) -> str:
    plain = " ".join(str(text or "").split())
    return plain if len(plain) <= MAX_LENGTH else f"{plain[:MAX_LENGTH]}..."


_REASONS: dict[Event, Callable[[Mapping[str, Any]], str]] = {
    Event.MESSAGE_HANDLED: _handled,
    Event.MESSAGE_FAILED: _failed,
    Event.GROUP_BLOCKED: _blocking,
    Event.MESSAGE_DEAD_LETTERED: _dead_lettered,
    Event.BATCH_YIELDED: _yielded,
    Event.TENANT_YIELDED: _tenant_yielded,
    Event.BATCH_RETURNED: _returned,
    Event.BATCH_WOKEN: _woken,
    Event.MESSAGE_CANCELLED: _cancelled,
    Event.MESSAGE_MOVED: _moved,
    Event.MESSAGE_NOT_MOVED: _not_moved,
    Event.RESOURCE_AWAY: _resource_away,
    Event.RESOURCE_BACK: _resource_back,
    Event.SLOT_STARTED: _other_fields,
    Event.SLOT_STOPPED: _other_fields,
    Event.SLOT_KILLED: _other_fields,
}
