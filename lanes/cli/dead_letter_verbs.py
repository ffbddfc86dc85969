"""`lanes dead-letters`: look at messages that were given up, send them to their lanes again, or delete them."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lanes.cli import hold_verbs
from lanes.cli.operating import DryRun, LaneName, Yes, duration, lane_called, moment_given, operations_of
from lanes.cli.place import place_of
from lanes.cli.printing import confirm, console, laid_out, say, show_one, show_rows
from lanes.errors import ConfigurationError
from lanes.operate.audit import audited
from lanes.operate.dead_letter_records import details_of, row_of
from lanes.operate.dead_letters import DeadLetterFilter, look
from lanes.operate.redrive import DeadLetterRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.aws.operations import Operations
    from lanes.operate.dead_letters import Listing
    from lanes.operate.redrive_progress import RunProgress

PREVIEWED = 1_000
ALL = 1_000_000
MOST_LISTED = 20
# AWS: a visibility timeout is 0 seconds to 12 hours (SQS API reference, ReceiveMessage); 0 would hide nothing.
LEAST_HOLD, MOST_HOLD = timedelta(seconds=1), timedelta(hours=12)

app = typer.Typer(
    no_args_is_help=True,
    help="Look at messages that were given up, send them to their lanes again, or delete them.",
)

app.command()(hold_verbs.held)
app.command()(hold_verbs.release)

Lane = Annotated[str | None, typer.Argument(metavar="[LANE]", help="The lane; all lanes without.")]
Kind = Annotated[str | None, typer.Option(help="Only of this kind; * and ? stand for any characters.")]
Group = Annotated[str | None, typer.Option(help="Only of this group.")]
Reason = Annotated[str | None, typer.Option(help="Only with this text in reason or error.")]
Since = Annotated[str | None, typer.Option(help="Only given up since: a time, or an age such as 2h.")]
Until = Annotated[str | None, typer.Option(help="Only given up before: a time, or an age.")]
Ids = Annotated[list[str] | None, typer.Option("--id", help="Only this message; may be repeated.")]
Limit = Annotated[int, typer.Option(min=0, help="At most so many; 0 for no limit.")]
Rate = Annotated[float, typer.Option(min=0, help="At most so many in a second; 0 for no limit.")]
Hold = Annotated[str, typer.Option(help="How long SQS hides from others what this run works on.")]


@app.command("list")
def list_(
    context: typer.Context,
    lane: Lane = None,
    *,
    kind: Kind = None,
    group: Group = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 100,
) -> None:
    """
    List dead letters, each group in its order.

    SQS shows messages only by handing them out: for the seconds of the listing they are hidden from others, then they
    are given back, in the same order. Their receive counts rise. At most ten of a group can be seen at once.
    """
    operations = operations_of(context)
    wanted = _filter(kind=kind, group=group, reason=reason, since=since, until=until)
    rows: list[dict[str, Any]] = []
    for name in _lanes(operations, lane):
        listing = look(operations.dead_letters, name, wanted, limit=limit or ALL)
        rows += [row_of(letter) for letter in listing.letters]
        _say_beyond(name, listing)
    show_rows(place_of(context), rows, nothing="there are no such dead letters")


@app.command()
def show(
    context: typer.Context,
    id: Annotated[str, typer.Argument(help="Id of the dead letter, of its original, or of the message.")],  # noqa: A002
    *,
    lane: Annotated[str | None, typer.Option(help="Look in this lane only.")] = None,
) -> None:
    """Show one dead letter with its body and everything that was noted when it was given up."""
    operations = operations_of(context)
    for name in _lanes(operations, lane):
        listing = look(operations.dead_letters, name, DeadLetterFilter(ids=(id,)), limit=1)
        if listing.letters:
            show_one(place_of(context), details_of(listing.letters[0]))
            return
        _say_beyond(name, listing)
    raise ConfigurationError([f"no dead letter that can be seen is called {id!r}"], source="dead letters")


@app.command()
def redrive(
    context: typer.Context,
    lane: LaneName,
    *,
    kind: Kind = None,
    group: Group = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    ids: Ids = None,
    limit: Limit = 0,
    rate: Rate = 0.0,
    hold: Hold = "30s",
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """
    Send dead letters to their lane again: the same body, group and attributes, each group in its order.

    Copies first and deletes afterwards, so a run that is killed loses nothing: run it again, and it goes on. What the
    killed run had copied is not doubled if that happens within five minutes. The copies come behind what was sent
    meanwhile, but for held groups: there what came meanwhile follows them, and the hold ends with the last one.
    """
    wanted = _filter(kind=kind, group=group, reason=reason, since=since, until=until, ids=ids)
    how = _How(limit=limit, rate=rate, hold=_hold(hold), dry_run=dry_run, yes=yes)
    _work(context, "redrive", lane, wanted, how)


@app.command()
def delete(
    context: typer.Context,
    lane: LaneName,
    *,
    kind: Kind = None,
    group: Group = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    ids: Ids = None,
    everything: Annotated[bool, typer.Option("--all", help="Delete all of them.")] = False,
    limit: Limit = 0,
    rate: Rate = 0.0,
    hold: Hold = "30s",
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete dead letters for good. Takes a filter, or --all."""
    wanted = _filter(kind=kind, group=group, reason=reason, since=since, until=until, ids=ids)
    if wanted.chooses_all and not everything:
        raise typer.BadParameter("say which: --id, --kind, --group, --reason, --since, --until, or --all")
    how = _How(limit=limit, rate=rate, hold=_hold(hold), dry_run=dry_run, yes=yes)
    _work(context, "delete", lane, wanted, how)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _How:
    limit: int
    rate: float
    hold: timedelta
    dry_run: bool
    yes: bool


def _hold(text: str) -> timedelta:
    hold = duration(text)
    if not LEAST_HOLD <= hold <= MOST_HOLD:
        raise typer.BadParameter(f"{text!r} is not between 1s and 12h", param_hint="--hold")
    return hold


def _work(context: typer.Context, verb: str, lane: str, wanted: DeadLetterFilter, how: _How) -> None:
    """Preview, ask, work, and tell what was done."""
    place, operations = place_of(context), operations_of(context)
    name = lane_called(operations, lane)
    if how.dry_run or not how.yes:
        listing = look(operations.dead_letters, name, wanted, limit=min(how.limit or PREVIEWED, PREVIEWED))
        rows = _summary(name, listing)
        _say_beyond(name, listing)
        if how.dry_run or not rows:
            say(f"would {verb} {len(listing.letters)} that can be seen at once")
            show_rows(place, rows, nothing="there are no such dead letters")
            return
        out = console(stderr=True)
        out.print(laid_out(rows, out))
        behind = f", and what is meant of about {listing.beyond} more," if listing.beyond else ""
        confirm(f"{verb} these {len(listing.letters)}{behind} in {name} of {place.stack_name}?", yes=how.yes)
    progress = _run(operations, verb, name, wanted, how)
    for letter, why in list(progress.failed.items())[:MOST_LISTED]:
        say(f"{letter} stays: {why}")
    if progress.returned:
        say(
            f"{progress.returned} came back: sent to {name} and given up again meanwhile; they stay, and "
            f"`lanes dead-letters list {name}` tells their errors"
        )
    done = "redriven" if verb == "redrive" else "deleted"
    show_one(
        place,
        {
            "lane": name,
            done: progress.done,
            "kept": progress.kept,
            "failed": len(progress.failed),
            "came_back": progress.returned,
            "left": progress.left,
            "released": progress.released,
        },
    )
    if progress.failed:
        raise typer.Exit(1)


def _run(operations: Operations, verb: str, lane: str, wanted: DeadLetterFilter, how: _How) -> RunProgress:
    """Work with a bar on standard error and an entry in the audit trail."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    asked = {"filter": wanted.describe(), "limit": how.limit, "rate": how.rate}
    with (
        audited(operations.audit, f"dead-letters {verb}", lane, details=asked) as noted,
        Progress(
            *columns, console=console(stderr=True), disable=not sys.stderr.isatty(), transient=True
        ) as bar,
    ):
        task = bar.add_task(f"{verb} {lane}", total=None)

        def report(progress: RunProgress) -> None:
            bar.update(task, completed=progress.done, total=how.limit or progress.expected)

        run = DeadLetterRun(
            queues=operations.dead_letters,
            lane=lane,
            wanted=wanted,
            copies=verb == "redrive",
            holds=operations.holds,
            limit=how.limit or None,
            rate=how.rate or None,
            hold=how.hold,
            report=report,
        )
        try:
            return run.run()
        except KeyboardInterrupt:
            say(f"interrupted after {run.progress.done}; the same command goes on from there")
            raise
        finally:
            noted |= {"done": run.progress.done, "failed": len(run.progress.failed)}


def _filter(
    *,
    kind: str | None,
    group: str | None,
    reason: str | None,
    since: str | None,
    until: str | None,
    ids: Sequence[str] | None = None,
) -> DeadLetterFilter:
    return DeadLetterFilter(
        kind=kind,
        group=group,
        reason=reason,
        since=moment_given(since),
        until=moment_given(until),
        ids=tuple(ids or ()),
    )


def _lanes(operations: Operations, lane: str | None) -> list[str]:
    if lane is not None:
        return [lane_called(operations, lane)]
    return [one.name for one in operations.deployment.config.lanes]


def _say_beyond(lane: str, listing: Listing) -> None:
    if listing.beyond:
        say(
            f"{lane}: about {listing.beyond} more were not looked at: beyond the limit, behind the first ten of "
            f"their group, or held by someone else"
        )


def _summary(lane: str, listing: Listing) -> list[dict[str, Any]]:
    counts = Counter((letter.kind, letter.reason) for letter in listing.letters)
    return [
        {"lane": lane, "kind": kind, "reason": reason, "dead_letters": count}
        for (kind, reason), count in counts.most_common()
    ]
