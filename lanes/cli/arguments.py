"""Arguments and options that several verbs share, their completion in a shell, and the parsers of their values."""

from __future__ import annotations

import math
import os
import re
import time
import tomllib
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanes.aws.stack.operations import Operations
from lanes.cli.target import target_of
from lanes.cli.usage import UsageError, parse_priority
from lanes.config.table import nearest, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

HANDLER = re.compile(r"""\.handler\(\s*["']([^"']+)["']""")
BY_KIND = ("max_rates", "on_exhausted")
"""Tables of `[consumer]` with a key for each kind."""
MOST_FOLDERS = 200
"""A shell waits for the answer, and the current folder may be a large one."""
NO_SOURCES = ("build", "node_modules", "venv")


def lanes_here(incomplete: str) -> list[str]:
    """Return the names of lanes that begin like this."""
    lanes = _file().get("lanes", [])
    return _beginning([one.get("name", "") for one in lanes if isinstance(one, dict)], incomplete)


def stages_here(incomplete: str) -> list[str]:
    """Return the names of stages that begin like this."""
    return _beginning(list(_file().get("stages", {})), incomplete)


def kinds_here(incomplete: str) -> list[str]:
    """Return the kinds that begin like this, of handlers in a Python file here and of the tables by kind here."""
    kinds = {kind for path in _sources() for kind in HANDLER.findall(_text(path))}
    return _beginning(sorted(kinds | _kinds_of(_file())), incomplete)


def _kinds_of(file: dict[str, Any]) -> set[str]:
    """Return the kinds of a lanes.toml; patterns of several kinds are left out."""
    consumer = file.get("consumer")
    tables = [consumer.get(name) for name in BY_KIND] if isinstance(consumer, dict) else []
    return {kind for table in tables if isinstance(table, dict) for kind in table if "*" not in kind}


def _sources() -> Iterator[Path]:
    """Yield the Python files here but for those in hidden folders, and of packages that are installed here."""
    for folder, folders, files in islice(os.walk("."), MOST_FOLDERS):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in NO_SOURCES]
        yield from (Path(folder, name) for name in files if name.endswith(".py"))


def _beginning(names: list[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _file() -> dict[str, Any]:
    try:
        return tomllib.loads(_text(Path("lanes.toml")))
    except ValueError:
        return {}  # a shell shows no errors of a completion


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


HIGHEST_RATE = 1_000_000
"""Far beyond what SQS takes."""


def parse_rate(text: str) -> float:
    """
    Parse a number a second; 0 is for no limit.

    Raises:
        typer.BadParameter: it is not a number, negative, or not finite.
    """
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 <= rate < HIGHEST_RATE:
        raise typer.BadParameter(f"{text!r} is not a rate; give a number from 0 to {HIGHEST_RATE:,}")
    return rate


DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")]
NewPriority = Annotated[
    int,
    typer.Argument(
        parser=parse_priority,
        metavar="PRIORITY",
        help="Set this priority: a number, BULK, LOW, NORMAL, HIGH or CRITICAL; put -- before a negative number.",
    ),
]
LaneName = Annotated[
    str,
    typer.Argument(metavar="LANE", help="Name of the lane; upper or lower case.", autocompletion=lanes_here),
]

Kind = Annotated[
    str | None,
    typer.Option(help="Select this kind; * matches any characters.", autocompletion=kinds_here),
]

Rate = Annotated[
    float,
    typer.Option(
        parser=parse_rate, metavar="RATE", help="Process at most this many a second; 0 for no limit."
    ),
]
MostDone = Annotated[int, typer.Option("--limit", min=0, help="Stop after this many; 0 for no limit.")]
StartingAt = Annotated[
    str, typer.Option("--since", help="Start at this time: ISO 8601, or an age such as 2h.")
]
Latest = Annotated[int, typer.Option("--limit", min=1, help="List at most this many, the latest first.")]

OfRun = Annotated[str | None, typer.Option("--run", help="Select the members of this run.")]


def operations_of(context: typer.Context) -> Operations:
    """Return the operations on the stack that the global options name."""
    target = target_of(context)
    return Operations(deployment=target.deployment(), clients=target.clients(), stack_name=target.stack_name)


def lane_named(operations: Operations, name: str) -> str:
    """
    Return the name of a lane as the configuration spells it.

    Raises:
        UsageError: there is no such lane.
    """
    names = [lane.name for lane in operations.deployment.config.lanes]
    for known in names:
        # Names differ in more than their case (`lanes.config.lane_tables`), so this finds one at most.
        if known.casefold() == name.casefold():
            return known
    problem = f"there is no lane {name!r}{nearest(name.upper(), names)}; lanes are {', '.join(names)}"
    raise UsageError([problem], source=f"stack {operations.stack_name}")


def duration(text: str, option: str) -> timedelta:
    """
    Parse the duration of an option, such as 2s, 30m or 1d.

    Raises:
        typer.BadParameter: the text is not a duration.
    """
    value = parse_duration(float(text) if text.replace(".", "", 1).isdecimal() else text)
    if value is None:
        raise typer.BadParameter(
            f"{text!r} is not a duration; give seconds, or a number with a unit such as 30s, 15m, 2h or 1d",
            param_hint=option,
        )
    return value


def read_time(text: str | None, option: str = "--since") -> float | None:
    """
    Parse the time of an option: ISO 8601 (UTC if it names no zone), or an age such as 2h.

    Raises:
        typer.BadParameter: the text is neither.
    """
    if text is None:
        return None
    ago = parse_duration(text)
    if ago is not None:
        return time.time() - ago.total_seconds()
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is not a time; give ISO 8601 such as 2026-01-31T12:00, or an age such as 2h",
            param_hint=option,
        ) from error
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
