"""The command itself: options before the verb, the groups of verbs, and the border where errors become exit codes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lanes.aws.explanation import explained
from lanes.cli import (
    audit_verbs,
    bulk_verbs,
    check_verbs,
    config_verbs,
    cost_verbs,
    dead_letter_verbs,
    move_verbs,
    outbox_verbs,
    override_verbs,
    pause_verbs,
    send_verbs,
    simulator_verbs,
    status_verbs,
    tail_verbs,
    trace_verbs,
    ui_verbs,
)
from lanes.cli.place import Output, Place
from lanes.cli.printing import say
from lanes.cli.usage import WrongUsage
from lanes.errors import AwsError, LanesError

WRONG_USAGE = 2

app = typer.Typer(
    name="lanes",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="See and move what waits in priority lanes. Options that say where come before the verb: "
    "lanes --stage prod --output json config show",
)
app.command()(status_verbs.status)
app.command()(check_verbs.check)
app.command()(send_verbs.send)
app.add_typer(dead_letter_verbs.app, name="dead-letters")
app.command()(pause_verbs.pause)
app.command()(pause_verbs.resume)
app.command()(move_verbs.prioritize)
app.command()(move_verbs.cancel)
app.add_typer(override_verbs.app, name="overrides")
app.command()(audit_verbs.audit)
app.command()(trace_verbs.trace)
app.command()(tail_verbs.tail)
app.command()(cost_verbs.cost)
app.command()(ui_verbs.ui)
app.add_typer(outbox_verbs.app, name="outbox")
app.add_typer(bulk_verbs.app, name="bulk")
app.add_typer(config_verbs.app, name="config")
simulator_verbs.add_to(app)


@app.callback()
def options(
    context: typer.Context,
    *,
    stage: Annotated[
        str, typer.Option(envvar="LANES_STAGE", help="Stage; names the stack PriorityLanes-STAGE.")
    ] = "",
    stack: Annotated[str | None, typer.Option(envvar="LANES_STACK", help="Another stack's name.")] = None,
    profile: Annotated[str | None, typer.Option(help="Profile of the AWS configuration.")] = None,
    region: Annotated[str | None, typer.Option(envvar="AWS_REGION", help="AWS region.")] = None,
    endpoint: Annotated[
        str | None, typer.Option(envvar="AWS_ENDPOINT_URL", help="Address of AWS on this machine.")
    ] = None,
    output: Annotated[Output, typer.Option(help="How data is printed.")] = Output.TABLE,
) -> None:
    """Remember where to work; a stage that was typed goes before a stack that a variable names."""
    sources = [context.get_parameter_source(name) for name in ("stage", "stack")]
    if [source.name for source in sources if source] == ["COMMANDLINE", "ENVIRONMENT"]:
        stack = None
    context.obj = Place(
        stage=stage, stack=stack, profile=profile, region=region, endpoint=endpoint, output=output
    )


def main() -> None:
    """Run the command; an error that explains itself is printed without a traceback."""
    try:
        app(prog_name="lanes")
    except WrongUsage as error:
        say(f"error: {error}")
        sys.exit(WRONG_USAGE)
    except AwsError as error:
        found = explained(error)
        say(f"error: {found.title}")
        for line in filter(None, (found.advice, str(error))):
            say(f"  - {line}")
        sys.exit(1)
    except LanesError as error:
        say(f"error: {error}")
        sys.exit(1)
