"""`lanes local`: AWS on this machine, with your app deployed into it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from lanes.cli.target import Output, UsageError, target_of
from lanes.errors import ConfigurationError
from lanes.installing import install_hint

from .account import NO_FILES, without_aws_settings
from .state import running

HERE = Path()
LARGEST_PORT = 65_535

PASSED_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""Settings of a verb that runs another command with its words."""

OF_AN_APP = frozenset(
    {"list", "ls", "synth", "synthesize", "deploy", "watch", "diff", "drift", "rollback", "destroy"}
)
"""Verbs of `cdk` that need an app; it explains the others itself."""
NEEDS_NO_FOLDER = ("-a", "--app", "-h", "--help")
"""Options by which they don't need its folder."""

verbs = typer.Typer(no_args_is_help=True, help="Run AWS on this machine, with your app deployed into it.")

AppFolder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="Folder of the CDK app (default: this one).")
]


def add_to(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.add_typer(verbs, name="local")
    app.command(context_settings=PASSED_ON)(cdk)


@verbs.command()
def up(
    context: typer.Context,
    folder: AppFolder = HERE,
    *,
    port: Annotated[
        int, typer.Option(min=0, max=LARGEST_PORT, help="Use this port (default: a free one).")
    ] = 0,
    values: Annotated[
        list[str] | None,
        typer.Option("--context", "-c", metavar="KEY=VALUE", help="Set CDK context. Repeatable."),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Choose the behaviour that AWS does not document by this seed.")
    ] = 0,
    variant: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Choose an assumption about AWS, as in simulations. Repeatable."),
    ] = None,
) -> None:
    """
    Deploy an app to AWS on this machine, and run it until Ctrl-C.

    Functions run in its folder: a saved handler is live at once, and other changes are deployed. --stage and --output
    are those of the command.
    """
    try:
        from .up import serve
    except ModuleNotFoundError as error:
        raise _not_installed(error.name, "lanes local") from error
    wrong = [item for item in values or () if "=" not in item]
    if wrong:
        raise UsageError([f"it takes KEY=VALUE, not {wrong[0]!r}"], source="--context")
    target = target_of(context)
    status = serve(
        folder.resolve(),
        stage=target.stage or None,
        context=dict(item.split("=", 1) for item in values or ()),
        port=port,
        seed=seed,
        variants=variant or (),
        as_json=target.output is Output.JSON,
    )
    raise typer.Exit(status)


@verbs.command(context_settings=PASSED_ON)
def run(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="Run this command.")],
    *,
    folder: Annotated[
        Path, typer.Option("--app", metavar="FOLDER", help="Folder of the running app (default: this one).")
    ] = HERE,
) -> None:
    """Run a command against the app of `lanes local up`: with its addresses, and no credentials of yours."""
    variables = running(folder.resolve())
    environment = without_aws_settings(os.environ) | NO_FILES | variables
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606 - the user's own command
    except OSError as error:
        raise UsageError([f"{command[0]} can't be run: {error.strerror}"], source="COMMAND") from error


def cdk(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORDS...", help="Arguments and options of `cdk`.")
    ] = None,
) -> None:
    """Run the AWS CDK command that is installed with this library, with its own Node.js."""
    try:
        from .deploy import CdkApp, DeployError, cdk_command, cdk_variables
    except ModuleNotFoundError as error:
        raise _not_installed(error.name, "lanes cdk") from error
    typed = words or []
    try:
        if not OF_AN_APP.isdisjoint(typed) and not any(word.startswith(NEEDS_NO_FOLDER) for word in typed):
            CdkApp(directory=Path.cwd()).check()
        command, environment = [*cdk_command(), *typed], os.environ | cdk_variables()
    except DeployError as error:
        raise ConfigurationError([str(error)], source="lanes cdk") from error
    os.execve(command[0], command, environment)  # noqa: S606 - the command that was asked for


def _not_installed(name: str | None, source: str) -> ConfigurationError:
    return ConfigurationError([f"{name} is not installed: {install_hint('local')}"], source=source)
