"""`lanes adopt`: move the messages of an existing queue to a lane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lanes.cli.arguments import (
    DryRun,
    MostDone,
    Rate,
    Yes,
    kinds_here,
    lane_named,
    lanes_here,
    operations_of,
)
from lanes.cli.busy import run_shown
from lanes.cli.printing import confirm, say, show_one
from lanes.cli.target import Output, target_of
from lanes.cli.usage import ExitCode, UsageError, usage
from lanes.operate.adopt import NO_HOLDS, Adoption, Grouped, priority_in
from lanes.operate.dead_letters.redrive import DeadLetterRun, Task
from lanes.operate.history.audit import audited

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lanes.aws.queues.adopted_queue import AdoptedQueueCalls
    from lanes.aws.stack.operations import Operations
    from lanes.cli.target import Target
    from lanes.operate.adopt import SourceQueue
    from lanes.operate.dead_letters.redrive import RunProgress

# One screen; the counts are complete.
MAX_LISTED = 20
# A queue with fewer receives may dead-letter a message that a killed run, or a repeat, has received.
FEW_RECEIVES = 10


def adopt(
    context: typer.Context,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Name, URL or ARN of the queue.")],
    *,
    to: Annotated[
        str, typer.Option("--to", metavar="LANE", help="Send to this lane.", autocompletion=lanes_here)
    ],
    group_by: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Take the group from this place of a JSON body, such as customer.id."
        ),
    ] = None,
    group: Annotated[str | None, typer.Option(help="Put all messages into this group.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="Wrap each body as the data of a message of this kind; by default it is sent as it is.",
            autocompletion=kinds_here,
        ),
    ] = None,
    limit: MostDone = 0,
    rate: Rate = 0.0,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """
    Move the messages of an existing queue to a lane, each group in its order.

    Each message is sent to the lane, then deleted from its queue. Body and attributes stay as they are. A FIFO queue
    keeps its groups; for a standard queue give --group-by or --group. If the command is killed, run it again: nothing
    is lost and, within five minutes, nothing is sent twice. --dry-run receives no message, since SQS counts receives.
    Exit code 3: messages stay in the queue, because they have no group.
    """
    operations = operations_of(context)
    lane = lane_named(operations, to)
    if next(one for one in operations.deployment.config.lanes if one.name == lane).closing:
        raise UsageError([f"lane {lane} is closing; choose another one"], source="--to")
    with usage("lanes adopt"):
        source = operations.source(queue)
        adoption = _adoption(operations, lane, group=group, group_by=group_by, kind=kind).checked(source)
    target = target_of(context)
    if source.max_receive_count is not None and source.max_receive_count < FEW_RECEIVES:
        say(
            f"SQS moves a message of {source.name} to its dead-letter queue after {source.max_receive_count} receives, "
            "and those of this command count"
        )
    if source.max_receive_count is None:
        say(
            f"{source.name} has no dead-letter queue: a message may be received any number of times, until it expires"
        )
    if dry_run:
        say(f"would move about {source.waiting} messages from {source.name} to {lane}")
        show_one(target, _planned(source, lane, target))
        return
    confirm(
        f"move about {source.waiting} messages from {source.name} to {lane} of {target.stack_name}?", yes=yes
    )
    calls = operations.adopted(source, lane=lane, adoption=adoption)
    progress = _run(operations, calls, source, lane=lane, limit=limit, rate=rate)
    _say_staying(source, progress.failed | calls.staying)
    delayed = operations.source(queue).delayed
    if delayed:
        say(
            f"still delayed in {source.name}: about {delayed}; SQS hands them out within 15 minutes, repeat the "
            "command then"
        )
    show_one(
        target,
        {
            "queue": source.name,
            "lane": lane,
            "adopted": progress.done,
            "without_group": len(calls.staying),
            "failed": len(progress.failed),
            "left": progress.left + delayed,
        },
    )
    if progress.failed:
        raise typer.Exit(ExitCode.FAILED)
    if calls.staying:
        raise typer.Exit(ExitCode.NO)


def _adoption(
    operations: Operations, lane: str, *, group: str | None, group_by: str | None, kind: str | None
) -> Adoption:
    config = operations.deployment.config
    priority = priority_in(config, next(one for one in config.lanes if one.name == lane))
    return Adoption(group=group, group_by=group_by, kind=kind, priority=priority)


def _planned(source: SourceQueue, lane: str, target: Target) -> dict[str, object]:
    most: int | str | None = source.max_receive_count
    if most is None and target.output is Output.TABLE:
        most = "none"
    return {
        "queue": source.name,
        "fifo": source.is_fifo,
        "lane": lane,
        "waiting": source.waiting,
        "in_flight": source.in_flight,
        "delayed": source.delayed,
        "max_receive_count": most,
    }


def _run(
    operations: Operations,
    calls: AdoptedQueueCalls,
    source: SourceQueue,
    *,
    lane: str,
    limit: int,
    rate: float,
) -> RunProgress:
    what = Task(
        lane=lane,
        wanted=Grouped(),
        copies=True,
        limit=limit or None,
        rate=rate or None,
        is_fifo=source.is_fifo,
    )
    asked = {"queue": source.arn, "limit": limit, "rate": rate}
    with audited(operations.audit, "adopt", lane, details=asked) as entry:
        return run_shown(
            f"adopt {source.name}",
            lambda report: DeadLetterRun(what, queues=calls, holds=NO_HOLDS, report=report),
            limit=limit,
            entry=entry,
        )


def _say_staying(source: SourceQueue, reasons: Mapping[str, str]) -> None:
    for message_id, why in list(reasons.items())[:MAX_LISTED]:
        say(f"{message_id} stays in {source.name}: {why}")
    if len(reasons) > MAX_LISTED:
        say(f"and {len(reasons) - MAX_LISTED} more stay")
