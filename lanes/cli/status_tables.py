"""The tables of `lanes status`: each of one source and one span, which its heading names."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from lanes.cli.printing import escape_controls, format_value, layout
from lanes.operate.history.descriptions import format_clock, format_seconds
from lanes.operate.lanes.figures import Drain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, RenderableType

    from lanes.operate.history.recent import Failure, RecentWork, Running
    from lanes.operate.history.symptoms import Symptom
    from lanes.operate.lanes.status import BlockedGroup, LaneStatus, Status

# A screen; the page and `dead-letters list` show all.
MAX_FAILURES = 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One reading: the lanes, and their last minutes from the log; None if that can't be read."""

    status: Status
    work: RecentWork | None
    notes: Sequence[str]

    @property
    def symptoms(self) -> Sequence[Symptom]:
        """What is wrong now, those of the log first."""
        return [*(() if self.work is None else self.work.symptoms), *self.status.symptoms]


def tables_of(found: Reading, out: Console) -> RenderableType:
    """Return the tables of a reading for a console."""
    status = found.status
    parts: list[RenderableType] = [
        *(Text(escape_controls(str(one)), style="bold red") for one in found.symptoms),
        layout([_count_row(lane) for lane in status.lanes], out),
        Text(status.engine_line),
        _heading(
            f"counted at {_clock(status.at)}; blocked: groups behind a failing message; dead: dead letters"
        ),
    ]
    if blocked := [one for lane in status.lanes for one in lane.blocked or ()]:
        parts += [
            _heading("\nblocked groups"),
            layout([_blocked_row(one, status.at) for one in blocked], out),
        ]
    parts += [
        _heading(f"\n{_rates_heading(status)}"),
        layout([_rate_row(lane, is_read=status.figures_read) for lane in status.lanes], out),
    ]
    if found.work is not None:
        parts += _work_tables(found.work, status, out)
    return Group(*parts)


def _heading(text: str) -> Text:
    return Text(text, style="dim italic")


def _clock(at: float) -> str:
    return format_clock(at, near=at)


def _rates_heading(status: Status) -> str:
    figures = next((lane.figures for lane in status.lanes if lane.figures.until is not None), None)
    if figures is None:
        return "rates per minute from CloudWatch" + (": it has none yet" if status.figures_read else "")
    since, until = figures.since or 0.0, figures.until or 0.0
    span, late = format_seconds(round(until - since)), format_seconds(round(status.at - until))
    return (
        f"per minute in the {span} until {_clock(until)}, {late} ago, from CloudWatch; "
        "inversion: work while a higher lane waited"
    )


def _work_tables(work: RecentWork, status: Status, out: Console) -> Iterator[RenderableType]:
    now = status.at
    if work.waits:
        yield _heading(f"\nhandled, and their waits, in the {_span(now - work.since)}, from the log")
        yield layout(_wait_rows(work, status), out)
    if work.running:
        yield _heading("\nrunning invocations")
        yield layout([_running_row(one, now) for one in work.running], out)
    if work.failures:
        yield _heading(f"\nfailures of the {_span(now - work.failed_since)}, from the log")
        yield layout([_failure_row(one, now) for one in work.failures[:MAX_FAILURES]], out)
    if len(work.failures) > MAX_FAILURES:
        yield _heading(f"and {len(work.failures) - MAX_FAILURES} other errors")


def _span(seconds: float) -> str:
    # The log may have been read some seconds before the counts.
    return f"last {format_seconds(round(seconds))}"


def _wait_rows(work: RecentWork, status: Status) -> list[dict[str, Any]]:
    places = {lane.lane: place for place, lane in enumerate(status.lanes)}
    return [
        {
            "lane": wait.lane,
            "kind": wait.kind or "all",
            "handled": wait.handled,
            "wait p50": format_seconds(wait.p50.total_seconds()),
            "wait p99": format_seconds(wait.p99.total_seconds()),
        }
        for wait in sorted(work.waits, key=lambda wait: (places.get(wait.lane, len(places)), wait.kind))
    ]


def _running_row(running: Running, now: float) -> dict[str, Any]:
    return {
        "environment": running.environment,
        "lane": running.lane or None,
        "records": running.records,
        "for": timedelta(seconds=max(0.0, now - running.since)),
        "last event": running.last,
    }


def _failure_row(failure: Failure, now: float) -> dict[str, Any]:
    return {
        "lane": failure.lane,
        "kind": failure.kind,
        "attempts": failure.attempts,
        "dead": failure.dead_letters,
        "last": timedelta(seconds=max(0.0, now - failure.last_at)),
        "error": failure.error,
    }


def _blocked_row(blocked: BlockedGroup, now: float) -> dict[str, Any]:
    return {
        "lane": blocked.lane,
        "group": blocked.group,
        "kind": blocked.kind,
        "id": blocked.id,
        "for": timedelta(seconds=max(0.0, now - blocked.since)),
        "next try in": timedelta(seconds=max(0.0, blocked.next_at - now)),
        "error": blocked.error,
    }


def _count_row(lane: LaneStatus) -> dict[str, Any]:
    return {
        "lane": lane.lane,
        "waiting": lane.waiting,
        "in flight": lane.in_flight,
        "parked": lane.parked,
        "blocked": None if lane.blocked is None else len(lane.blocked),
        "trend": _trend(lane),
        "mapping": lane.mapping,
        "dead": lane.dead_letters,
    }


def _trend(lane: LaneStatus) -> str:
    if lane.growth is None or lane.drain not in (Drain.GROWING, Drain.FALLING, Drain.STEADY):
        return str(lane.drain)
    change = "" if lane.drain is Drain.STEADY else f" {lane.growth.per_minute:+,.0f}/min"
    text = f"{lane.drain}{change} in {format_seconds(round(lane.growth.over))}"
    return text if lane.time_to_drain is None else f"{text}, empty in {format_value(lane.time_to_drain)}"


def _rate_row(lane: LaneStatus, *, is_read: bool) -> dict[str, Any]:
    figures = lane.figures
    inversion = None if figures.inversion is None else format_seconds(figures.inversion / 1000)
    values: dict[str, Any] = {
        "oldest": "none" if lane.waiting + lane.in_flight == 0 else figures.oldest_age,
        "handled": figures.pace,
        "dead-lettered": figures.dead,
        "sent": figures.arrivals,
        "yields": figures.yields,
        "inversion": inversion,
    }
    # Unknown is what could not be read; a note says why.
    absent = str(Drain.NOT_YET) if is_read else None
    return {"lane": lane.lane} | {name: absent if value is None else value for name, value in values.items()}
