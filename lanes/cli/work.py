"""`lanes work`: run the consumer as a process, with its own slots."""

from __future__ import annotations

import dataclasses
import os
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from lanes.aws.clients import deployment_from_env
from lanes.aws.telemetry import PowertoolsTelemetry
from lanes.cli.arguments import duration
from lanes.cli.printing import say
from lanes.cli.target import ExitCode, target_of, usage
from lanes.config import EngineName, LanesConfig
from lanes.config.deployment import VARIABLE
from lanes.errors import ConfigurationError
from lanes.work.slot import SOURCE, split_name, write_whole_lines
from lanes.work.supervisor import RunningSlot, Supervisor, collect_orphans

if TYPE_CHECKING:
    from lanes.cli.target import Target
    from lanes.config.deployment import Deployment

STDERR = 2
STOPPING = b"stopping: each slot finishes its record; another Ctrl-C or SIGTERM kills the slots\n"
KILLING = b"killing the slots\n"


def work(
    context: typer.Context,
    consumer: Annotated[
        str,
        typer.Argument(
            metavar=SOURCE, help="Work with this lanes.Consumer, for example orders.handler:consumer."
        ),
    ],
    *,
    slots: Annotated[
        int | None,
        typer.Option(min=1, help="Work with this many slots; default: reserved_concurrency of the lanes."),
    ] = None,
    grace: Annotated[
        str | None,
        typer.Option(
            help="Kill slots that have not ended this long after a stop; default: function_timeout."
        ),
    ] = None,
) -> None:
    """
    Run a consumer as a process that serves the lanes with slots of its own, until you stop it.

    Needs engine = "pull". The lanes are those of LANES_DEPLOYMENT; without it, or if you type --stack or --stage, those
    of the stack. Each slot is a process; the log is on standard output. After SIGTERM or Ctrl-C each slot finishes its
    record, returns the others at once, and ends; a second signal kills the slots. If a function or another process
    serves the same lanes, all slots add up.
    """
    with usage(SOURCE):
        split_name(consumer)
    patience = duration(grace, "--grace") if grace else None
    target = target_of(context)
    deployment = with_slots(_deployment(context, target), slots)
    settings = deployment.config.consumer
    environment = environment_of(target, deployment)
    write_whole_lines()
    supervisor = Supervisor(
        slots=settings.reserved_concurrency,
        start=lambda number: RunningSlot.start(number, consumer=consumer, environment=environment),
        timeout=settings.function_timeout.total_seconds(),
        grace=(settings.function_timeout if patience is None else patience).total_seconds(),
        telemetry=PowertoolsTelemetry(environ=environment),
        collect=collect_orphans,
    )
    lanes = ", ".join(lane.name for lane in deployment.config.lanes)
    say(f"serving {lanes} with slots: {settings.reserved_concurrency}; stop with Ctrl-C")
    raise typer.Exit(_run(supervisor))


def _run(supervisor: Supervisor) -> ExitCode:
    """Run until a signal; return the exit code."""
    received: list[int] = []

    def stop(number: int, _frame: object) -> None:
        # Not say: a signal may come in the middle of another line, and streams are not reentrant.
        os.write(STDERR, KILLING if received else STOPPING)
        received.append(number)
        supervisor.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    with usage(SOURCE):
        is_clean = supervisor.run()
    if not is_clean:
        say("error: slots were killed; their messages return when their visibility timeout ends")
        return ExitCode.FAILED
    return ExitCode.INTERRUPTED if received[0] == signal.SIGINT else ExitCode.DONE


def _deployment(context: typer.Context, target: Target) -> Deployment:
    """Return the lanes of the environment, or those of the stack if it is typed or the environment has none."""
    root = context.find_root()
    sources = [root.get_parameter_source(name) for name in ("stage", "stack")]
    is_typed = any(source is not None and source.name == "COMMANDLINE" for source in sources)
    if is_typed or not os.environ.get(VARIABLE):
        found, origin = target.deployment(), f"stack {target.stack_name}"
    else:
        found, origin = deployment_from_env(), VARIABLE
    if found.config.consumer.engine is not EngineName.PULL:
        problem = (
            'the lanes have engine = "mappings": their mappings start a function, and a process beside it would use '
            'the resource too; set engine = "pull" in [consumer] of lanes.toml and deploy, then start this again'
        )
        raise ConfigurationError([problem], source=origin)
    # A missing region is an error here rather than in each slot.
    target.clients().sqs()
    return found


def with_slots(deployment: Deployment, slots: int | None) -> Deployment:
    """
    Return the deployment with another number of slots, and with the defaults that follow from it.

    Raises:
        UsageError: the number is not allowed.
    """
    if slots is None:
        return deployment
    document = deployment.config.to_dict(brief=True)
    document["consumer"]["reserved_concurrency"] = slots
    with usage("--slots"):
        return dataclasses.replace(deployment, config=LanesConfig.from_dict(document))


def environment_of(target: Target, deployment: Deployment) -> dict[str, str]:
    """Return the variables of the slots, which have the same lanes and the same account as this command."""
    return target.environment(os.environ) | {VARIABLE: deployment.to_json()}
