"""The options by which verbs say which messages and entries are meant, written once, and how entries are printed."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanes.cli.printing import moment
from lanes.cli.usage import WrongUsage, priority_given, usage
from lanes.config_table import nearest
from lanes.message_filter import MessageFilter
from lanes.outbox.entry import Entry, EntryState
from lanes.outbox.filter import EntryFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Ids = Annotated[list[str] | None, typer.Option("--id", help="Only this message; may be repeated.")]
Kind = Annotated[str | None, typer.Option(help="Only of this kind: a regular expression for all of it.")]
Group = Annotated[str | None, typer.Option(help="Only of this group, likewise.")]
Source = Annotated[str | None, typer.Option(help="Only from this source, likewise.")]
Exact = Annotated[bool, typer.Option("--exact", help="Take kind, group and source as they stand.")]
Lowest = Annotated[
    int | None,
    typer.Option(
        "--from-priority",
        parser=priority_given,
        metavar="PRIORITY",
        help="Only of this priority or a higher one.",
    ),
]
Highest = Annotated[
    int | None,
    typer.Option(
        "--to-priority",
        parser=priority_given,
        metavar="PRIORITY",
        help="Only of this priority or a lower one.",
    ),
]
Everything = Annotated[
    bool, typer.Option("--all", help="Mean everything that waits; else a filter is needed.")
]
States = Annotated[list[str] | None, typer.Option("--state", help="Only in this state; may be repeated.")]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What the options say: which messages, and the states that were named, in capital letters."""

    wanted: MessageFilter
    states: frozenset[str]

    def require(self, *, everything: bool) -> None:
        """
        See to it that somebody who names nothing means everything.

        Raises:
            typer.BadParameter: nothing is named, and `--all` was not given.
        """
        if self.wanted.chooses_all and not everything:
            raise typer.BadParameter("say which: --id, --kind, --group, --source, priorities, or --all")

    def among(self, known: Iterable[str]) -> frozenset[str]:
        """
        Return the states that were named, or all of those known where none was.

        Raises:
            WrongUsage: one of them is not known.
        """
        names = sorted(known)
        problems = [
            f"there is no state {state!r}{nearest(state, names)}"
            for state in sorted(self.states)
            if state not in names
        ]
        if problems:
            raise WrongUsage(problems, source="--state")
        return self.states or frozenset(names)

    def entries(self, default: frozenset[EntryState]) -> EntryFilter:
        """
        Return the filter of outbox entries, in these states unless others were named.

        Raises:
            WrongUsage: there is no such state.
        """
        named = self.among(state.value for state in EntryState)
        states = frozenset(map(EntryState, named)) if self.states else default
        return EntryFilter.of(self.wanted, states)


def _chosen(
    *,
    ids: Ids = None,
    kind: Kind = None,
    group: Group = None,
    source: Source = None,
    exact: Exact = False,
    from_priority: Lowest = None,
    to_priority: Highest = None,
    state: States = None,
) -> Chosen:
    with usage("filter"):
        wanted = MessageFilter(
            ids=tuple(ids or ()),
            kind=kind,
            group=group,
            source=source,
            exact=exact,
            lowest=from_priority,
            highest=to_priority,
        )
    return Chosen(wanted=wanted, states=frozenset(one.upper() for one in state or ()))


def takes_filter(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options of a filter in place of its keyword `chosen`."""
    options = inspect.signature(_chosen, eval_str=True).parameters
    own = inspect.signature(verb, eval_str=True).parameters

    @functools.wraps(verb)
    def called(**given: Any) -> None:
        chosen = _chosen(**{name: given.pop(name) for name in options})
        verb(**given, chosen=chosen)

    taken = [parameter for parameter in own.values() if parameter.name != "chosen"]
    positional = [one for one in taken if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    rest = [one for one in taken if one.kind is inspect.Parameter.KEYWORD_ONLY]
    parameters = [*positional, *options.values(), *rest]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called


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
