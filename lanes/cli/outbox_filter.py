"""The options by which verbs of `lanes outbox` say which entries are meant, and how entries are printed."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lanes.cli.printing import moment
from lanes.config_table import nearest
from lanes.errors import ConfigurationError
from lanes.outbox.entry import Entry, EntryState
from lanes.outbox.filter import EntryFilter

Kind = Annotated[str | None, typer.Option(help="Only of this kind: a regular expression for all of it.")]
Group = Annotated[str | None, typer.Option(help="Only of this group, likewise.")]
Source = Annotated[str | None, typer.Option(help="Only from this source, likewise.")]
Exact = Annotated[bool, typer.Option("--exact", help="Take kind, group and source as they stand.")]
Lowest = Annotated[int | None, typer.Option("--from-priority", help="Only of this priority or a higher one.")]
Highest = Annotated[int | None, typer.Option("--to-priority", help="Only of this priority or a lower one.")]
States = Annotated[list[str] | None, typer.Option("--state", help="Only in this state; may be repeated.")]


def filter_of(
    *,
    kind: str | None,
    group: str | None,
    source: str | None,
    exact: bool,
    lowest: int | None,
    highest: int | None,
    states: list[str] | None,
    default: frozenset[EntryState],
) -> EntryFilter:
    """
    Make a filter of what the options say.

    Raises:
        ConfigurationError: there is no such state, or a regular expression can't be read.
    """
    known = [state.value for state in EntryState]
    problems = [
        f"there is no state {state!r}{nearest(state.upper(), known)}"
        for state in states or ()
        if state.upper() not in known
    ]
    if problems:
        raise ConfigurationError(problems, source="--state")
    meant = frozenset(EntryState(state.upper()) for state in states) if states else default
    return EntryFilter(
        kind=kind, group=group, source=source, exact=exact, lowest=lowest, highest=highest, states=meant
    )


def entry_row(entry: Entry) -> dict[str, Any]:
    """Give an entry as a row of a table."""
    return {
        "id": entry.id,
        "state": entry.state.value,
        "kind": entry.kind,
        "group": entry.group or "",
        "priority": entry.priority,
        "lane": entry.lane,
        "attempts": entry.attempts,
        "created": moment(entry.created_at),
        "last_error": entry.last_error,
    }
