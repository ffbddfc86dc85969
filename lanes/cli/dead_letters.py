"""`lanes dead-letters`."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections import Counter
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanes.cli.arguments import (
    DryRun,
    Everything,
    Ids,
    Kind,
    LaneName,
    MostDone,
    OfRun,
    Rate,
    Yes,
    duration,
    lane_named,
    lanes_here,
    operations_of,
    read_time,
    takes,
)
from lanes.cli.printing import (
    busy,
    confirm,
    console,
    layout,
    one_line,
    progress_bar,
    say,
    show_one,
    show_rows,
    without_code,
)
from lanes.cli.target import ExitCode, Output, target_of
from lanes.operate.dead_letters import DeadLetterFilter, brief_rows, details_of, list_dead_letters, row_of
from lanes.operate.redrive import DeadLetterRun, Task
from lanes.operate.runs import find_run

if TYPE_CHECKING:
    from lanes.aws.stack import Operations
    from lanes.operate.dead_letters import DeadLetteredMessage, Listing
    from lanes.operate.redrive import RunProgress

# A preview receives: a thousand messages are a hundred calls, some seconds.
PREVIEWED = 1_000
# More than a dead-letter queue holds; `look` takes a number, not None.
ALL = 1_000_000
# One screen; the audit entry has the total.
MAX_LISTED = 20
# AWS: a visibility timeout is 0 seconds to 12 hours (SQS API reference, ReceiveMessage); 0 would hide nothing.
MIN_HIDE, MAX_HIDE = timedelta(seconds=1), timedelta(hours=12)

app = typer.Typer(
    no_args_is_help=True,
    help="List dead letters, redrive them to their lanes, or delete them.",
)

Lane = Annotated[
    str | None,
    typer.Argument(
        metavar="LANE", help="Name of the lane; all lanes if you leave it out.", autocompletion=lanes_here
    ),
]
Group = Annotated[str | None, typer.Option(help="Select this group.")]
Reason = Annotated[str | None, typer.Option(help="Select this text in the reason or error.")]
Since = Annotated[
    str | None, typer.Option(help="Select dead letters from this time on: ISO 8601, or an age such as 2h.")
]
Until = Annotated[str | None, typer.Option(help="Select dead letters before this time: ISO 8601, or an age.")]


def _filter(
    *,
    kind: Kind = None,
    group: Group = None,
    run: OfRun = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
) -> DeadLetterFilter:
    return DeadLetterFilter(
        kind=kind,
        group=group,
        run=run,
        reason=reason,
        since=read_time(since),
        until=read_time(until, "--until"),
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _How:
    limit: int
    rate: float
    hide: timedelta
    dry_run: bool
    yes: bool


def _how(
    *,
    limit: MostDone = 0,
    rate: Rate = 0.0,
    hide: Annotated[
        str, typer.Option(help="Hide the dead letters of this run from other readers for this long.")
    ] = "30s",
    dry_run: DryRun = False,
    yes: Yes = False,
) -> _How:
    hidden = duration(hide, "--hide")
    if not MIN_HIDE <= hidden <= MAX_HIDE:
        raise typer.BadParameter(f"{hide!r} is out of range; give 1s to 12h", param_hint="--hide")
    return _How(limit=limit, rate=rate, hide=hidden, dry_run=dry_run, yes=yes)


@app.command("list")
@takes(wanted=_filter)
def list_(
    context: typer.Context,
    lane: Lane = None,
    *,
    wanted: DeadLetterFilter,
    limit: Annotated[
        int,
        typer.Option(min=0, help="Stop after this many rows, of all lanes together; 0 for no limit."),
    ] = 100,
    wide: Annotated[
        bool,
        typer.Option("--wide", help="Show all fields."),
    ] = False,
) -> None:
    """
    List dead letters, each group in its order.

    Listing receives the messages and returns them in the same order: other readers can't see them for some seconds, and
    their receive counts rise. SQS shows at most ten messages of a group.
    """
    operations = operations_of(context)
    _check_run(operations, wanted.run)
    target = target_of(context)
    letters: list[DeadLetteredMessage] = []
    left = limit or ALL
    for name in _lanes(operations, lane):
        if not left:
            say(f"{name} is not listed: the lanes above have {limit} dead letters, the limit")
            continue
        listing = _read(operations, name, wanted, limit=left)
        letters += listing.letters
        left -= len(listing.letters)
        _say_beyond(name, listing)
    rows = [row_of(letter) for letter in letters]
    if not wide and target.output is not Output.JSON:
        rows = brief_rows(letters, now=time.time(), with_lane=lane is None)
    show_rows(target, rows, empty="no dead letters match")


@app.command()
def show(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Id of the message, at SQS or its own.")],  # noqa: A002
    *,
    lane: Annotated[str | None, typer.Option(help="Search this lane only.")] = None,
) -> None:
    """
    Show one dead letter: its body, its error and the circumstances of its failure.

    Exit code 3: no visible dead letter has the id.
    """
    operations = operations_of(context)
    for name in _lanes(operations, lane):
        listing = _read(operations, name, DeadLetterFilter(ids=(id,)), limit=1)
        if listing.letters:
            show_one(target_of(context), details_of(listing.letters[0]))
            return
        _say_beyond(name, listing)
    say(f"no visible dead letter has the id {id!r}; list them with `lanes dead-letters list`")
    raise typer.Exit(ExitCode.NO)


@app.command()
@takes(wanted=_filter, how=_how)
def redrive(
    context: typer.Context,
    lane: LaneName,
    *,
    wanted: DeadLetterFilter,
    ids: Ids = None,
    how: _How,
) -> None:
    """
    Send dead letters back to their lane: the same body, group and attributes, each group in its order.

    Each message is copied, then deleted. If the command is killed, run it again: nothing is lost and, within five
    minutes, nothing is sent twice. The copies come after newer messages of their group. Exit code 3: messages came
    back, because they failed again.
    """
    wanted = dataclasses.replace(wanted, ids=tuple(ids or ()))
    _work(context, "redrive", lane, wanted, how)


@app.command()
@takes(wanted=_filter, how=_how)
def delete(
    context: typer.Context,
    lane: LaneName,
    *,
    wanted: DeadLetterFilter,
    ids: Ids = None,
    everything: Everything = False,
    how: _How,
) -> None:
    """Delete dead letters for good. Give a filter, or --all."""
    wanted = dataclasses.replace(wanted, ids=tuple(ids or ()))
    # Nothing brings deleted messages back, so their choice is never implied by a missing option.
    if wanted.chooses_all and not everything:
        raise typer.BadParameter(
            "say which: --id, --kind, --group, --run, --reason, --since, --until, or --all"
        )
    _work(context, "delete", lane, wanted, how)


def _work(context: typer.Context, verb: str, lane: str, wanted: DeadLetterFilter, how: _How) -> None:
    """Show a preview, ask for confirmation, process the dead letters and print the result."""
    target, operations = target_of(context), operations_of(context)
    name = lane_named(operations, lane)
    _check_run(operations, wanted.run)
    if how.dry_run or not how.yes:
        listing = _read(operations, name, wanted, limit=min(how.limit or PREVIEWED, PREVIEWED))
        rows = _summary(name, listing)
        _say_beyond(name, listing)
        if how.dry_run or not listing.letters:
            say(f"would {verb} {len(listing.letters)} visible dead letters")
            show_rows(target, rows, empty="no dead letters match")
            return
        out = console(stderr=True)
        out.print(layout([without_code(row) for row in rows], out))
        is_all = not listing.beyond or len(listing.letters) == how.limit
        more = "" if is_all else f", and the matches among about {listing.beyond} more,"
        confirm(f"{verb} these {len(listing.letters)}{more} in {name} of {target.stack_name}?", yes=how.yes)
    progress = _run(operations, verb, name, wanted, how)
    # Failures before the result, so that the counts stay last on the screen.
    for letter, why in list(progress.failed.items())[:MAX_LISTED]:
        say(one_line(f"{letter} stays in the dead-letter queue: {why}"))
    if progress.returned:
        say(
            f"{progress.returned} came back: {name} received them and they failed again; they stay in the dead-letter "
            f"queue, and `lanes dead-letters list {name}` shows their errors"
        )
    done = "redriven" if verb == "redrive" else "deleted"
    show_one(
        target,
        {
            "lane": name,
            done: progress.done,
            "kept": progress.kept,
            "failed": len(progress.failed),
            "came_back": progress.returned,
            "left": progress.left,
        },
    )
    if progress.failed:
        raise typer.Exit(ExitCode.FAILED)
    if progress.returned:
        raise typer.Exit(ExitCode.NO)


def _run(operations: Operations, verb: str, lane: str, wanted: DeadLetterFilter, how: _How) -> RunProgress:
    """Redrive or delete with a progress bar, or lines in a log."""
    task = Task(
        lane=lane,
        wanted=wanted,
        copies=verb == "redrive",
        limit=how.limit or None,
        rate=how.rate or None,
        hide=how.hide,
    )
    with progress_bar() as bar:
        shown = bar.add_task(f"{verb} {lane}", total=None)

        def report(progress: RunProgress) -> None:
            bar.update(shown, completed=progress.done, total=how.limit or progress.expected)

        run = DeadLetterRun(task, queues=operations.dead_letters, audit=operations.audit, report=report)

        def so_far() -> str:
            return f"{verb} {lane}: {run.progress.done} of about {how.limit or run.progress.expected}"

        try:
            # The bar is for a terminal; a log gets lines.
            with nullcontext() if sys.stderr.isatty() else busy(so_far):
                return run.run()
        except KeyboardInterrupt:
            say(f"interrupted after {run.progress.done}; repeat the command to continue")
            raise


def _check_run(operations: Operations, name: str | None) -> None:
    """Raise `ConfigurationError` if there is no run of this name: nothing would match, as if all were well."""
    if name is not None:
        find_run(operations.runs, name)


def _lanes(operations: Operations, lane: str | None) -> list[str]:
    if lane is not None:
        return [lane_named(operations, lane)]
    return [one.name for one in operations.deployment.config.lanes]


def _read(operations: Operations, lane: str, wanted: DeadLetterFilter, *, limit: int) -> Listing:
    with busy(lambda: f"reading the dead letters of {lane}"):
        return list_dead_letters(operations.dead_letters, lane, wanted, limit=limit)


def _say_beyond(lane: str, listing: Listing) -> None:
    if listing.beyond:
        say(
            f"{lane}: about {listing.beyond} more are not listed: over the limit, behind the first ten of their group, "
            f"or hidden by another reader"
        )


def _summary(lane: str, listing: Listing) -> list[dict[str, Any]]:
    counts = Counter((letter.kind, letter.code, letter.reason) for letter in listing.letters)
    return [
        {"lane": lane, "kind": kind, "code": code, "reason": reason, "dead_letters": count}
        for (kind, code, reason), count in counts.most_common()
    ]
