"""
Resources that are away, from the function's log: each slot logs every try that failed, and that a resource is back.

The slots share no state, so their log is all that is known.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import TYPE_CHECKING

from lanes.events import Event
from lanes.operate.history.descriptions import describe_away, format_clock, number_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lanes.operate.history.log import LogEvent

AWAY_OR_BACK = (Event.RESOURCE_AWAY, Event.RESOURCE_BACK)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AwayResource:
    """
    A resource that was away at the latest try in the log; times are epoch seconds, None is unknown.

    Attributes:
        resource: its name.
        lanes: lanes of the messages that tried it last, at most one for each slot.
        since: the first call that found it away.
        tries: calls of all slots since then.
        last_at: the latest of them.
        next_at: the next try; None if every slot's is overdue, so that nothing is known of the resource now.
        slots: slots that wait for their next try.
        reason: the reason of the latest call.
    """

    resource: str
    lanes: Sequence[str]
    since: float | None
    tries: float | None
    last_at: float
    next_at: float | None
    slots: int
    reason: str

    def describe(self, now: float) -> str:
        """Describe it in one line, to be read at a moment."""
        last = format_clock(self.last_at, near=now)
        since, next_at = format_clock(self.since, near=now), format_clock(self.next_at, near=now)
        if self.next_at is None:
            known = describe_away(since=since, tries=self.tries)
            return f"{self.resource} unknown: {known} at the last try, {last} ({self.reason})"
        slots = f" by {self.slots} slots" if self.slots > 1 else ""
        known = f"{describe_away(since=since, tries=self.tries)}{slots}"
        return f"{self.resource} {known}, next {next_at}; last {last} ({self.reason})"


def away_resources(events: Iterable[LogEvent], *, now: float, late: float) -> list[AwayResource]:
    """
    Return the resources that were away at their latest try.

    Args:
        events: events of `AWAY_OR_BACK`, in any order.
        now: epoch seconds.
        late: seconds after the start of a try within which the log has its result.
    """
    found: dict[str, list[LogEvent]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event.line.at):
        resource = str(event.fields.get("resource"))
        if event.name == Event.RESOURCE_BACK:
            found.pop(resource, None)
        else:
            found[resource].append(event)
    return [_away(resource, tries, overdue=now - late) for resource, tries in sorted(found.items())]


def _away(resource: str, tries: Sequence[LogEvent], *, overdue: float) -> AwayResource:
    # One stream may have several slots, or one that began again: each has a first call of its own.
    slots = {(one.line.stream, number_of(one.fields, "since")): one for one in tries}.values()
    began, tries_of, planned = (_numbers(slots, name) for name in ("since", "tries", "next_at"))
    waits = [at for at in planned if at > overdue]
    last = tries[-1]
    return AwayResource(
        resource=resource,
        lanes=sorted({one.lane for one in slots}),
        # Of another release, a slot may not have logged them.
        since=min(began) if len(began) == len(slots) else None,
        tries=sum(tries_of) if len(tries_of) == len(slots) else None,
        last_at=last.line.at,
        next_at=min(waits, default=None),
        slots=len(waits),
        reason=str(last.fields.get("reason") or "no reason was logged"),
    )


def _numbers(slots: Iterable[LogEvent], name: str) -> list[float]:
    return [value for one in slots if (value := number_of(one.fields, name)) is not None]
