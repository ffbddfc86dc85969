"""Arguments, options and filters that several verbs share, their completion in a shell, and their parsers."""

from __future__ import annotations

import functools
import inspect
import math
import os
import re
import time
import tomllib
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanes.aws.stack import Operations
from lanes.cli.target import UsageError, parse_priority, target_of, usage
from lanes.config.table import nearest, parse_duration
from lanes.message_filter import MessageFilter
from lanes.operate.descriptions import error_code, moment
from lanes.outbox.entry import Entry, EntryState
from lanes.outbox.operations import EntryFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
        # Names differ in more than their case (`lanes.config.lanes`), so this finds one at most.
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


# Below this the verb would call AWS without a pause, and be throttled.
MIN_INTERVAL = timedelta(milliseconds=100)


def parse_interval(text: str) -> float:
    """
    Parse an interval into seconds.

    Raises:
        typer.BadParameter: the text is not a duration, or the duration is too short.
    """
    interval = duration(text, "--interval")
    if interval < MIN_INTERVAL:
        raise typer.BadParameter(f"{text!r} is too short; give at least 100ms", param_hint="--interval")
    return interval.total_seconds()


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


Ids = Annotated[list[str] | None, typer.Option("--id", help="Select this message; may be repeated.")]
Group = Annotated[str | None, typer.Option(help="Select this group; * matches any characters.")]
Source = Annotated[str | None, typer.Option(help="Select this source; * matches any characters.")]
Exact = Annotated[bool, typer.Option("--exact", help="Match kind, group and source literally.")]
Lowest = Annotated[
    int | None,
    typer.Option(
        "--from-priority",
        parser=parse_priority,
        metavar="PRIORITY",
        help="Select this priority and higher ones.",
    ),
]
Highest = Annotated[
    int | None,
    typer.Option(
        "--to-priority",
        parser=parse_priority,
        metavar="PRIORITY",
        help="Select this priority and lower ones.",
    ),
]
Everything = Annotated[bool, typer.Option("--all", help="Select everything; required if you give no filter.")]
States = Annotated[
    list[str] | None, typer.Option("--state", help="Select entries in this state; may be repeated.")
]


def require_filter(wanted: MessageFilter, *, everything: bool) -> None:
    """
    Refuse to change everything by leaving out the filter.

    Raises:
        typer.BadParameter: there is neither a filter nor `--all`.
    """
    if wanted.chooses_all and not everything:
        raise typer.BadParameter("say which: --id, --kind, --group, --source, priorities, or --all")


def entry_filter(
    wanted: MessageFilter, named: Sequence[str] | None, default: frozenset[EntryState]
) -> EntryFilter:
    """
    Return the filter of outbox entries in the named states, or in the default ones if none is named.

    Raises:
        UsageError: there is no such state.
    """
    known = {state.value: state for state in EntryState}
    states = [name.upper() for name in named or ()]
    problems = [
        f"there is no state {state!r}{nearest(state, list(known))}; states are {', '.join(known)}"
        for state in states
        if state not in known
    ]
    if problems:
        raise UsageError(problems, source="--state")
    return EntryFilter.of(wanted, frozenset(known[state] for state in states) or default)


def filter_of(
    *,
    ids: Ids = None,
    kind: Kind = None,
    group: Group = None,
    source: Source = None,
    exact: Exact = False,
    from_priority: Lowest = None,
    to_priority: Highest = None,
) -> MessageFilter:
    """
    Return the filter of a verb that `takes` these options.

    Raises:
        UsageError: a value is wrong.
    """
    with usage("filter"):
        return MessageFilter(
            ids=tuple(ids or ()),
            kind=kind,
            group=group,
            source=source,
            exact=exact,
            lowest=from_priority,
            highest=to_priority,
        )


def takes(**readers: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb, in place of each named keyword, the options of a function, whose result the keyword gets."""
    options = {name: inspect.signature(read, eval_str=True).parameters for name, read in readers.items()}

    def taking(verb: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(verb)
        def called(**values: Any) -> None:
            taken = {
                name: read(**{option: values.pop(option) for option in options[name]})
                for name, read in readers.items()
            }
            verb(**values, **taken)

        # typer reads the options of a verb from its signature, so the wrapper shows all.
        parameters: list[inspect.Parameter] = []
        for one in inspect.signature(verb, eval_str=True).parameters.values():
            parameters += options[one.name].values() if one.name in options else [one]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in parameters}
        return called

    return taking


def entry_row(entry: Entry) -> dict[str, Any]:
    """Return the row of an entry in a table."""
    return {
        "id": entry.id,
        "state": entry.state.value,
        **({"holds_group": True} if entry.holds_group else {}),
        "kind": entry.kind,
        "group": entry.group or "",
        "priority": entry.priority,
        "lane": entry.lane,
        "attempts": entry.attempts,
        "created": moment(entry.created_at),
        **({} if entry.not_before is None else {"not_before": moment(entry.not_before)}),
        "code": error_code(entry.last_error) if entry.last_error else "",
        "last_error": entry.last_error,
    }
