"""The filter options that several verbs share, and the row that they print for an entry of the outbox."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanes.cli.arguments import Kind  # noqa: TC001 - typer reads it
from lanes.cli.printing import moment
from lanes.cli.usage import UsageError, parse_priority, usage
from lanes.config.table import nearest
from lanes.message_filter import MessageFilter
from lanes.operate.history.descriptions import error_code
from lanes.outbox.entry import Entry, EntryState
from lanes.outbox.filter import EntryFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
