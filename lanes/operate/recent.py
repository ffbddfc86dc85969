"""
Recent work from the function's log: waits by lane and kind, failures, running invocations, and resources away.

The consumer logs each handled message with the times of its sending and its start, so waits are exact and need no
metric. Metrics have one dimension, the lane, and CloudWatch charges for each further one.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import time
from collections import Counter, defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes.events import Event
from lanes.metrics import percentile
from lanes.operate.descriptions import error_code, number_of
from lanes.operate.log import read_event
from lanes.operate.symptoms import AWAY_OR_BACK, RETURNED, WANTED, away_resources, symptoms_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lanes.consumer.engines.presence import Presence
    from lanes.operate.log import LogEvent, LogLine, Logs
    from lanes.operate.symptoms import AwayResource, Symptom

SPAN = timedelta(minutes=5)
"""Period of waits: that of the rates from CloudWatch, so that they can be compared."""
FEW_SPAN, FLOOD_SPAN = timedelta(hours=1), timedelta(minutes=1)
"""Periods of waits if the log has none, or too many, in the usual one."""
WHOLE_SPANS = (timedelta(hours=1), timedelta(minutes=15), timedelta(minutes=5), timedelta(minutes=1))
"""Periods of failures, tries of resources and returns: the first that the log returns as a whole."""
# CloudWatch Logs returns up to 10,000 lines a call, and an account has 5 to 25 calls a second (quotas).
MAX_LINES = 10_000
FAILING = (Event.MESSAGE_FAILED, Event.GROUP_BLOCKED, Event.MESSAGE_DEAD_LETTERED)
# AWS: Lambda writes these lines of text, or these objects, about each invocation (Lambda, "Log formats").
STARTED, ENDED = ("START RequestId: ", "platform.start"), ("REPORT RequestId: ", "platform.report")
_REQUEST = re.compile(r"^(START|REPORT) RequestId: (\S+)")
# Lines of an environment arrive a few seconds late and out of order.
LATE = timedelta(seconds=30)
# Ids and numbers make each error another one: "order 417 has no customer".
_VARIES = re.compile(r"\b(?:0x)?[0-9a-fA-F]*\d[0-9a-fA-F]*(?:-[0-9a-fA-F]+)*\b")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """
    Waits of the messages of one lane and kind, from sending to the start of the handler that succeeded.

    Attributes:
        kind: the kind; empty for all kinds of the lane.
        handled: number of messages.
        p50: half of them waited no longer.
        p99: 99 of 100 waited no longer.
        last_at: time of the last one, epoch seconds.
    """

    lane: str
    kind: str
    handled: int
    p50: timedelta
    p99: timedelta
    last_at: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """
    Failures of one lane and kind with one error, numbers and ids left out.

    Attributes:
        code: name of the exception; `other` for an error without one.
        error: the first of the errors.
        attempts: failed attempts, with those that end in a dead letter.
        dead_letters: messages that were dead-lettered.
        last_at: time of the last one, epoch seconds.
        last_id: id of its message.
    """

    lane: str
    kind: str
    code: str
    error: str
    attempts: int
    dead_letters: int
    last_at: float
    last_id: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """
    One running invocation.

    Attributes:
        environment: its environment.
        lane: the lane of its records; empty if it has logged no event.
        records: number of its records; None if unknown.
        since: its start, epoch seconds.
        code: name of its last event; empty if it has logged none.
        last: label and message of that event.
    """

    environment: str
    lane: str
    records: int | None
    since: float
    code: str
    last: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RecentWork:
    """
    The last minutes of the lanes.

    Attributes:
        since: start of the waits, epoch seconds.
        waits: waits by lane and kind, all kinds of a lane first.
        failed_since: start of the failures, epoch seconds.
        failures: failures, the most frequent first.
        running: running invocations, the longest first; None if unknown.
        tried_since: start of the tries of resources, epoch seconds.
        away: resources that were away at the latest of these tries.
        symptoms: what is wrong, in words, the widest first.
        notes: reasons of unknown and incomplete values.
    """

    since: float
    waits: Sequence[Wait]
    failed_since: float
    failures: Sequence[Failure]
    running: Sequence[Running] | None
    tried_since: float
    away: Sequence[AwayResource]
    symptoms: Sequence[Symptom]
    notes: Sequence[str]


class RecentWorkReader:
    """
    Reads the last minutes; raises `LanesError`.

    Args:
        logs: the function's log.
        presence: reads the presence records; None if the environments write none (pull engine, or one slot).
        function_timeout: limit of an invocation.
        clock: epoch seconds.
    """

    def __init__(
        self,
        logs: Logs,
        *,
        presence: Callable[[], Iterable[Presence]] | None,
        function_timeout: timedelta,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._logs = logs
        self._presence = presence
        self._timeout = function_timeout.total_seconds()
        self._clock = clock

    def read(self) -> RecentWork:
        """Read once: four to sixteen calls of CloudWatch Logs, and with presence records one of DynamoDB."""
        now = self._clock()
        notes: list[str] = []
        since, handled = self._handled(now, notes)
        failed_since, lines = self._whole(now, FAILING, "failures", notes)
        failed = _events(lines, FAILING)
        tried_since, lines = self._whole(now, AWAY_OR_BACK, "resources away", notes)
        late = self._timeout + LATE.total_seconds()
        away = away_resources(_events(lines, AWAY_OR_BACK), now=now, late=late)
        _, lines = self._whole(now, WANTED, "returned messages", notes)
        symptoms = symptoms_of(
            lines, _events(lines, RETURNED), away=away, done=[*handled, *failed], now=now, late=late
        )
        return RecentWork(
            since=since,
            waits=waits_of(handled),
            failed_since=failed_since,
            failures=failures_of(failed),
            running=self._running(now, [*handled, *failed], notes),
            tried_since=tried_since,
            away=away,
            symptoms=symptoms,
            notes=notes,
        )

    def _handled(self, now: float, notes: list[str]) -> tuple[float, list[LogEvent]]:
        names = (Event.MESSAGE_HANDLED,)
        span, cut = SPAN, list[str]()
        events = _events(self._lines(now - span.total_seconds(), names, "waits", cut), names)
        if cut or not events:
            span, cut = FLOOD_SPAN if cut else FEW_SPAN, []
            events = _events(self._lines(now - span.total_seconds(), names, "waits", cut), names)
        notes += cut
        if not events:
            notes.append("waits not yet known: the log has no handled message of the last hour")
        return now - span.total_seconds(), events

    def _whole(
        self, now: float, containing: Sequence[str], what: str, notes: list[str]
    ) -> tuple[float, list[LogLine]]:
        # A full reading is cut at its end, which is not the latest: lines come by streams.
        for span in WHOLE_SPANS:
            since, cut = now - span.total_seconds(), list[str]()
            lines = self._lines(since, containing, what, cut)
            if not cut:
                break
        notes += cut
        return since, lines

    def _lines(self, since: float, containing: Sequence[str], what: str, notes: list[str]) -> list[LogLine]:
        lines = list(itertools.islice(self._logs.lines(since=since, containing=containing), MAX_LINES))
        if len(lines) == MAX_LINES:
            notes.append(f"{what} are those of the first {MAX_LINES:,} lines of their period; there are more")
        return lines

    def _running(self, now: float, events: Sequence[LogEvent], notes: list[str]) -> Sequence[Running] | None:
        if self._presence is not None:
            return _present(self._presence(), now=now, timeout=self._timeout)
        cut: list[str] = []
        since = now - self._timeout - LATE.total_seconds()
        found = self._lines(since, (*STARTED, *ENDED), "running invocations", cut)
        # A log may return other lines too.
        lines = [line for line in found if _request_of(line.text)[0]]
        # With one slot and in the pull engine no environment writes down its work; Lambda's own lines show it.
        if cut or (not lines and any(event.line.at > since for event in events)):
            notes.append("running invocations unknown: the log has not all lines START and REPORT of Lambda")
            return None
        return _started(lines, events, now=now, timeout=self._timeout)


def _events(lines: Iterable[LogLine], names: Sequence[Event]) -> list[LogEvent]:
    found = (read_event(line) for line in lines)
    return [event for event in found if event is not None and event.name in names]


def waits_of(events: Iterable[LogEvent]) -> list[Wait]:
    """Return the waits of handled messages by lane, and by lane and kind."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for event in events:
        sent, started = event.fields.get("sent_at"), event.fields.get("started_at")
        if isinstance(sent, int | float) and isinstance(started, int | float):
            # Clocks of two machines differ by milliseconds.
            wait = (max(0.0, started - sent), event.line.at)
            found[event.lane, ""].append(wait)
            found[event.lane, str(event.fields.get("kind") or "no event")].append(wait)
    return [_wait(lane, kind, waits) for (lane, kind), waits in sorted(found.items())]


def _wait(lane: str, kind: str, found: Sequence[tuple[float, float]]) -> Wait:
    waits = sorted(wait for wait, _ in found)
    p50, p99 = (timedelta(seconds=percentile(waits, share)) for share in (0.5, 0.99))
    last_at = max(at for _, at in found)
    return Wait(lane=lane, kind=kind, handled=len(waits), p50=p50, p99=p99, last_at=last_at)


def failures_of(events: Iterable[LogEvent]) -> list[Failure]:
    """Return failures by lane, kind and error, the most frequent first."""
    found: dict[tuple[str, str, str], list[LogEvent]] = defaultdict(list)
    logged = list(events)
    failed = Counter(
        event.fields.get("message_id") for event in logged if event.name != Event.MESSAGE_DEAD_LETTERED
    )
    for event in logged:
        key = (event.lane, str(event.fields.get("kind") or ""), _VARIES.sub("#", _error_of(event)))
        found[key].append(event)
    failures = [_failure(lane, kind, group, failed) for (lane, kind, _), group in found.items()]
    return sorted(failures, key=lambda one: (-one.attempts - one.dead_letters, -one.last_at))


def _error_of(event: LogEvent) -> str:
    return str(event.fields.get("error") or event.fields.get("reason") or "no error was logged")


def _failure(lane: str, kind: str, events: Sequence[LogEvent], failed: Mapping[Any, int]) -> Failure:
    last = max(events, key=lambda event: event.line.at)
    dead = [event for event in events if event.name == Event.MESSAGE_DEAD_LETTERED]
    return Failure(
        lane=lane,
        kind=kind,
        code=error_code(_error_of(events[0])),
        error=_error_of(events[0]),
        # The last attempt has no event but the dead letter's; a refused message had none.
        attempts=len(events) - len(dead) + sum(_has_attempt(event, failed) for event in dead),
        dead_letters=len(dead),
        last_at=last.line.at,
        last_id=str(last.fields.get("id") or last.fields.get("message_id") or ""),
    )


def _has_attempt(dead: LogEvent, failed: Mapping[Any, int]) -> bool:
    return (number_of(dead.fields, "attempts") or 0) > failed.get(dead.fields.get("message_id"), 0)


def _present(records: Iterable[Presence], *, now: float, timeout: float) -> list[Running]:
    running = [
        Running(
            environment=one.environment,
            lane=one.lane,
            records=one.records,
            # A record lives until the deadline of its invocation.
            since=min(now, one.until - timeout),
            code="",
            last="",
        )
        for one in records
        if one.busy and one.until > now
    ]
    return sorted(running, key=lambda one: one.since)


def _started(
    lines: Iterable[LogLine], events: Sequence[LogEvent], *, now: float, timeout: float
) -> list[Running]:
    started: dict[str, LogLine] = {}
    ended: set[str] = set()
    for line in lines:
        what, request = _request_of(line.text)
        if what == "START":
            started[request] = line
        elif what:
            ended.add(request)
    last = _last_events(events)
    running = [
        _invocation(line, last.get(request))
        for request, line in started.items()
        # A killed environment may write no REPORT; none runs longer than the timeout.
        if request not in ended and now - line.at < timeout
    ]
    return sorted(running, key=lambda one: one.since)


def _request_of(text: str) -> tuple[str, str]:
    """Return START or REPORT and the request of a line; empty texts for another line."""
    if found := _REQUEST.match(text):
        return found[1], found[2]
    try:
        document = json.loads(text)
        names = {STARTED[1]: "START", ENDED[1]: "REPORT"}
        return names.get(document["type"], ""), str(document["record"]["requestId"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", ""


def _last_events(events: Iterable[LogEvent]) -> Mapping[str, LogEvent]:
    by_time = sorted(events, key=lambda event: event.line.at)
    return {str(event.fields.get("correlation_id")): event for event in by_time}


def _invocation(line: LogLine, last: LogEvent | None) -> Running:
    message = "" if last is None else str(last.fields.get("id") or last.fields.get("message_id") or "")
    return Running(
        environment=line.stream,
        lane="" if last is None else last.lane,
        records=None,
        since=line.at,
        code="" if last is None else last.name,
        last="" if last is None else f"{Event(last.name).label} {message}",
    )
