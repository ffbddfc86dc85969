"""`lanes audit`: who changed what and when."""

from __future__ import annotations

from typing import Annotated

import typer

from lanes.cli.operating import moment_given, operations_of
from lanes.cli.place import place_of
from lanes.cli.printing import moment, show_rows


def audit(
    context: typer.Context,
    *,
    since: Annotated[str, typer.Option(help="From when on: a time, or an age such as 2h.")] = "7d",
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the latest.")] = 100,
) -> None:
    """
    Show what operators changed with this command, the latest first.

    An entry is written before the change and again after it: one that stays `started` was killed in between.
    """
    entries = operations_of(context).audit.entries(since=moment_given(since) or 0.0, limit=limit)
    rows = [
        {
            "at": moment(entry.at),
            "who": entry.who,
            "action": entry.action,
            "target": entry.target,
            "outcome": entry.outcome,
            "details": entry.details,
        }
        for entry in entries
    ]
    show_rows(place_of(context), rows, nothing=f"nothing was changed since {since}")
