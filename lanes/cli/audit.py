"""`lanes audit`: list the changes that operators made."""

from __future__ import annotations

from typing import Annotated

import typer

from lanes.cli.arguments import operations_of, read_time
from lanes.cli.printing import moment, show_rows
from lanes.cli.target import target_of


def audit(
    context: typer.Context,
    *,
    since: Annotated[str, typer.Option(help="Start at this time: ISO 8601, or an age such as 2h.")] = "7d",
    limit: Annotated[int, typer.Option(min=1, help="List at most this many, the latest first.")] = 100,
) -> None:
    """
    List the changes that operators made with this command, the latest first.

    An entry is written before its change and updated after it. An entry that stays `started` belongs to a command that
    was killed.
    """
    entries = operations_of(context).audit.entries(since=read_time(since) or 0.0, limit=limit)
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
    show_rows(target_of(context), rows, empty=f"no changes since {since}")
