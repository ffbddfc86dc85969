"""
Symptoms: what is wrong with the lanes now, in words, each with the section of the runbook that ends it.

Those of the log are here: resources that are away, messages that come back again and again without an attempt, and
invocations without an end. The slots share no state, so their log is all that is known of a resource.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections import defaultdict
from typing import TYPE_CHECKING

from lanes.events import Event
from lanes.operate.descriptions import (
    counted,
    describe_away,
    error_of,
    format_clock,
    format_seconds,
    number_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from lanes.operate.log import LogEvent, LogLine, MessageEvent

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


UNKNOWN_KIND = "unknown_kind"
AWAY = "away", "alone"
# AWS: what Lambda writes for an invocation that its process or its time ended (Lambda, "Troubleshoot execution").
KILLED = ("Task timed out after", "Runtime exited with")
LEFT = (Event.MESSAGE_CANCELLED, Event.MESSAGE_MOVED, Event.MESSAGE_EXPIRED)
WANTED = (UNKNOWN_KIND, *AWAY, Event.IMPORT_FAILED, *KILLED, *LEFT)
"""Texts of the lines that are read."""
LONGEST_RETURN = 60
"""Most seconds for which an import that fails keeps records away (`lanes.aws.entry_point`)."""
RETURNED = (Event.BATCH_RETURNED, Event.IMPORT_FAILED, *LEFT)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """
    One thing that is wrong now.

    Attributes:
        page: anchor of its section in the runbook.
        text: one line for people.
        lane: its lane; empty if it is about several or all.
    """

    page: str
    text: str
    lane: str = ""

    def __str__(self) -> str:
        return f"{self.text} [runbook: {self.page}]"


def symptoms_of(
    lines: Sequence[LogLine],
    events: Iterable[LogEvent],
    *,
    away: Sequence[AwayResource],
    done: Iterable[LogEvent],
    now: float,
    late: float,
) -> list[Symptom]:
    """
    Return the symptoms that the log shows, the widest first.

    Args:
        lines: lines with one of the texts `WANTED`, and perhaps others.
        events: the events `RETURNED` in them: of messages that returned, or left their lane without a handler.
        away: resources that are away.
        done: events of messages that were handled or dead-lettered.
        now: epoch seconds.
        late: seconds after the return of a message within which the log has its next event.
    """
    returned, ended, kinds = list(events), set[str](), set[str]()
    handled_at = 0.0
    for event in [*done, *(one for one in returned if one.name in LEFT)]:
        ended |= {one.message_id for one in event.by_message()}
        if event.name == Event.MESSAGE_HANDLED:
            kinds.add(str(event.fields.get("kind") or ""))
            handled_at = max(handled_at, event.line.at)
    of_groups = {lane for one in away for lane in one.lanes}
    return [
        *_imports(returned, after=max(handled_at, now - LONGEST_RETURN - late), now=now),
        *_killed(lines, now),
        *(Symptom(page="resource-away", text=one.describe(now)) for one in away),
        *_waiting(returned, AWAY, ended, kinds, now=now, late=late, without=of_groups),
        *_waiting(returned, (UNKNOWN_KIND,), ended, kinds, now=now, late=late),
    ]


def _imports(events: Iterable[LogEvent], *, after: float, now: float) -> Iterator[Symptom]:
    failed = [event for event in events if event.name == Event.IMPORT_FAILED]
    if not failed or (last := max(failed, key=lambda event: event.line.at)).line.at < after:
        return
    messages = {one.message_id for event in failed for one in event.by_message()}
    since = format_clock(min(event.line.at for event in failed), near=now)
    yield Symptom(
        page="errors",
        text=f"the function's module can't be imported since {since} at the latest, and "
        f"{counted(len(messages), 'message')} came back: {error_of(last.fields)}",
    )


def _killed(lines: Iterable[LogLine], now: float) -> Iterator[Symptom]:
    found = [(line, text) for line in lines for text in KILLED if text in line.text]
    if found:
        last, text = max(found, key=lambda one: one[0].at)
        said = " ".join(last.text[last.text.index(text) :].split())
        yield Symptom(
            page="errors",
            text=f"{counted(len(found), 'invocation')} ended without an answer, the last one at "
            f"{format_clock(last.at, near=now)}: {said}",
        )


def _waiting(
    events: Iterable[LogEvent],
    reasons: Collection[str],
    ended: Collection[str],
    kinds: Collection[str],
    *,
    now: float,
    late: float,
    without: Collection[str] = (),
) -> Iterator[Symptom]:
    """Yield a symptom for each lane and kind with messages that returned for such a reason, and have not come again."""
    latest: dict[str, MessageEvent] = {}
    for event in sorted(events, key=lambda event: event.line.at):
        if event.fields.get("reason") in reasons and event.lane not in without:
            latest |= {one.message_id: one for one in event.by_message()}
    found: dict[tuple[str, str], list[MessageEvent]] = defaultdict(list)
    for one in latest.values():
        if one.message_id not in ended and one.at + (one.delay or 0.0) + late > now:
            found[one.lane, one.kind].append(one)
    for messages in sorted(found.values(), key=len, reverse=True):
        yield _symptom(reasons, messages, kinds, now)


def _symptom(
    reasons: Collection[str], messages: Sequence[MessageEvent], kinds: Collection[str], now: float
) -> Symptom:
    lane, kind = messages[0].lane, messages[0].kind
    sent = [at for one in messages if (at := one.sent_at) is not None]
    age = f", the oldest sent {format_seconds(round(now - min(sent)))} ago" if sent else ""
    waiting = f"{counted(len(messages), 'message')} in {lane}{age}"
    if UNKNOWN_KIND in reasons:
        meant = difflib.get_close_matches(kind, kinds, 1)
        hint = f"; did you mean {meant[0]}?" if meant else ""
        text = f"{kind or 'a body without a kind'} has no handler: {waiting}{hint}"
        return Symptom(page="unknown-kinds", lane=lane, text=text)
    error = str(max(messages, key=lambda one: one.at).fields.get("error") or "")
    text = f"{kind or 'a raw body'}: resource away for {waiting}, others are handled{f' ({error})' if error else ''}"
    return Symptom(page="resource-away", lane=lane, text=text)
