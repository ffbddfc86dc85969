"""The `lanes` command: its global options, its verbs, and the exit codes of errors."""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lanes import __version__
from lanes.aws.explanation import explained
from lanes.cli import (
    bulk,
    config,
    move,
    new,
    overrides,
    pause,
    runs,
    schedules,
    send,
    status,
    tail,
    trace,
    ui,
    work,
)
from lanes.cli.arguments import stages_here
from lanes.cli.dead_letters import app as dead_letters
from lanes.cli.global_options import RootGroup
from lanes.cli.help import add_help, put_first
from lanes.cli.outbox import app as outbox
from lanes.cli.printing import escape_unwritable, say
from lanes.cli.target import Output, Target
from lanes.cli.usage import ExitCode, UsageError
from lanes.errors import AwsError, LanesError

UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of a full or broken disk behind standard output."""

app = typer.Typer(
    name="lanes",
    cls=RootGroup,
    no_args_is_help=True,
    # Its tracebacks print local variables, and credentials may be among them.
    pretty_exceptions_enable=False,
    help="Inspect and change the work in priority lanes. Global options may be before or after the verb: "
    "lanes status --stage prod --output json",
)
app.command()(new.new)
app.command()(status.status)
app.command()(status.check)
app.command()(send.send)
app.add_typer(dead_letters.app, name="dead-letters")
app.command()(pause.pause)
app.command()(pause.resume)
app.command()(move.prioritize)
app.command()(move.cancel)
app.add_typer(overrides.app, name="overrides")
app.add_typer(runs.app, name="runs")
app.add_typer(schedules.app, name="schedules")
app.add_typer(schedules.scheduled, name="scheduled")
app.command()(tail.audit)
app.command()(trace.trace)
app.command()(tail.tail)
app.command()(ui.ui)
app.command()(work.work)
app.add_typer(outbox.app, name="outbox")
app.add_typer(bulk.app, name="bulk")
app.add_typer(config.app, name="config")


def _add_packages() -> None:
    """
    Add the verbs of packages that the library does not depend on: of the simulator, and of AWS on this machine.

    They are found by name: `lanes_simulator` where it is installed, `simulator` in a checkout of the project.
    """
    for name in ("simulator", "local"):
        package = _package(name)
        if package is not None:
            importlib.import_module(f"{package}.verbs").add_to(app)


def _package(name: str) -> str | None:
    """Return the full name of a package of this project; ignore another package with its short name."""
    # Other packages are called `simulator` or `local` too, and an environment may know a checkout by the other names.
    beside = Path(__file__).resolve().parents[2]
    found = importlib.util.find_spec(name)
    if found and found.origin and Path(found.origin).resolve() == beside / name / "__init__.py":
        return name
    installed = f"lanes_{name}"
    return installed if importlib.util.find_spec(installed) else None


_add_packages()


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - Typer passes the value of an option like this
    if wanted:
        typer.echo(f"lanes {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    *,
    stage: Annotated[
        str,
        typer.Option(
            envvar="LANES_STAGE",
            help="Work on the stack PriorityLanes-STAGE.",
            autocompletion=stages_here,
        ),
    ] = "",
    stack: Annotated[
        str | None, typer.Option(envvar="LANES_STACK", help="Work on the stack with this name.")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="Use this profile of the AWS configuration.")] = None,
    region: Annotated[str | None, typer.Option(envvar="AWS_REGION", help="Use this AWS region.")] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(envvar="AWS_ENDPOINT_URL", help="Call AWS at this address, for example a local one."),
    ] = None,
    output: Annotated[Output, typer.Option(help="Print data in this format.")] = Output.TABLE,
    version: Annotated[  # noqa: ARG001 - its callback ends the command
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Store the target; a typed --stage has priority over a stack named by LANES_STACK."""
    sources = [context.get_parameter_source(name) for name in ("stage", "stack")]
    # A shell that sets LANES_STACK for everyday use must not redirect a command with --stage.
    if [source.name for source in sources if source] == ["COMMANDLINE", "ENVIRONMENT"]:
        stack = None
    where = context.get_parameter_source("endpoint")
    context.obj = Target(
        stage=stage,
        stack=stack,
        profile=profile,
        region=region,
        endpoint=endpoint,
        is_endpoint_typed=where is not None and where.name == "COMMANDLINE",
        output=output,
    )


def command() -> Any:
    """Return the command with its verbs, as Typer assembles it."""
    assembled = typer.main.get_command(app)
    add_help(assembled)
    put_first(assembled)
    return assembled


def main() -> None:
    """Run the command; print the errors of the library without a traceback."""
    # Python has None for a stream that is closed, as under some schedulers: a change must not end in a traceback.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - until the process ends
    for stream in (sys.stdout, sys.stderr):
        escape_unwritable(stream)
    try:
        command()(prog_name="lanes")
    except UsageError as error:
        say(f"error: {error}")
        sys.exit(ExitCode.USAGE)
    except AwsError as error:
        found = explained(error)
        say(f"error: {found.title}")
        for line in filter(None, (found.advice, str(error))):
            say(f"  - {line}")
        sys.exit(ExitCode.FAILED)
    except LanesError as error:
        say(f"error: {error}")
        sys.exit(ExitCode.FAILED)
    except OSError as error:
        if error.errno not in UNWRITABLE or error.filename is not None:
            raise
        # What is left in the buffer would fail again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        say(
            f"error: the output can't be written: {error.strerror}; changes that the command had begun may be made"
        )
        sys.exit(ExitCode.FAILED)
