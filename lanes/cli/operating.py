"""From the options before the verb to what verbs call; and the arguments that several verbs share."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lanes.aws.operations import Operations
from lanes.cli.place import place_of
from lanes.cli.usage import WrongUsage, priority_given
from lanes.config_table import nearest, parse_duration

if TYPE_CHECKING:
    from datetime import timedelta

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
NewPriority = Annotated[
    int,
    typer.Argument(
        parser=priority_given,
        metavar="PRIORITY",
        help="The new priority: a number, or BULK, LOW, NORMAL, HIGH, CRITICAL; put -- before a negative one.",
    ),
]
LaneName = Annotated[str, typer.Argument(metavar="LANE", help="The lane, in small or capital letters.")]


def operations_of(context: typer.Context) -> Operations:
    """Return what the verb calls, for the stack that the options before it name."""
    place = place_of(context)
    return Operations(deployment=place.deployment(), clients=place.clients(), stack_name=place.stack_name)


def lane_called(operations: Operations, name: str) -> str:
    """
    Return the name of a lane as the configuration writes it.

    Raises:
        WrongUsage: there is no such lane.
    """
    names = [lane.name for lane in operations.deployment.config.lanes]
    for known in names:
        if known.casefold() == name.casefold():
            return known
    problem = f"there is no lane {name!r}{nearest(name.upper(), names)}"
    raise WrongUsage([problem], source=f"stack {operations.stack_name}")


def duration(text: str) -> timedelta:
    """
    Read a duration such as 2s, 30m or 1d.

    Raises:
        typer.BadParameter: it is none.
    """
    value = parse_duration(float(text) if text.replace(".", "", 1).isdigit() else text)
    if value is None:
        raise typer.BadParameter(f"{text!r} is no duration; seconds or texts like 30s, 15m, 2h, 1d are")
    return value


def moment_given(text: str | None) -> float | None:
    """
    Read a time: ISO 8601, or a duration for so long ago. Without a zone it is UTC.

    Raises:
        typer.BadParameter: it is neither.
    """
    if text is None:
        return None
    ago = parse_duration(text)
    if ago is not None:
        return time.time() - ago.total_seconds()
    try:
        given = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is neither a time like 2026-01-31T12:00 nor an age like 2h"
        ) from error
    return (given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp()
