"""The `lanes` command: its global options, its verbs, their order and help, and the exit codes of errors."""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
import sys
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from lanes import __version__
from lanes.aws.explanation import explained
from lanes.cli import bulk, config, dead_letters, move, outbox, runs, send, status, trace, ui, work
from lanes.cli.arguments import stages_here
from lanes.cli.printing import escape_unwritable, say
from lanes.cli.target import ExitCode, Output, Target, UsageError
from lanes.errors import AwsError, LanesError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FIRST = (
    "status", "send", "dead-letters", "trace", "pause", "resume", "prioritize", "cancel", "work", "local",
)  # fmt: skip
"""The verbs for every day, which `lanes --help` shows first."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "new": ("lanes new shop",),
    "local up": ("lanes local up shop", "lanes local up --stage demo --port 4566"),
    "cdk": ("lanes cdk bootstrap", "lanes cdk deploy -c stage=prod"),
    "local run": ("lanes local run python send.py", "lanes local run --app shop lanes status"),
    "status": ("lanes status", "lanes status --watch --stage prod"),
    "check": ("lanes check --stage prod",),
    "send": (
        "lanes send order.placed '{\"order\": 7}' --group customer-7 --priority HIGH",
        "lanes send --file orders.jsonl --dry-run",
    ),
    "pause": ("lanes pause MAIN", "lanes pause MAIN --dry-run"),
    "resume": ("lanes resume MAIN",),
    "prioritize": (
        'lanes prioritize 60 --kind "invoice.*" --group customer-7 --why "customer waits"',
        "lanes prioritize --kind report.built --dry-run -- -100",
    ),
    "cancel": (
        'lanes cancel --kind "report.*" --dry-run',
        'lanes cancel --id order-7 --id order-8 --why "sent twice"',
        'lanes cancel --run statements-2026-11 --why "wrong month"',
    ),
    "audit": ("lanes audit --since 2d",),
    "trace": ("lanes trace order-7", "lanes trace order-7 --since 14d"),
    "tail": ('lanes tail --lane HIGH --kind "order.*"', "lanes tail --event failed --event dead-lettered"),
    "ui": ("lanes ui --open", "lanes ui --stage prod --write"),
    "work": ("lanes work my_app.handlers:consumer", "lanes work my_app.handlers:consumer --slots 1"),
    "simulate": (
        'lanes simulate --arrivals "HIGH rate=2 service=200ms" --arrivals "MAIN backlog=1000 service=200ms"',
        "lanes simulate load.toml --compare --plot waits.svg",
        "lanes simulate load.toml --slots 1,2,3,5",
    ),
    "dead-letters list": (
        "lanes dead-letters list",
        'lanes dead-letters list MAIN --kind "order.*" --since 2h',
    ),
    "dead-letters show": ("lanes dead-letters show order-7",),
    "dead-letters redrive": (
        'lanes dead-letters redrive MAIN --kind "order.*" --dry-run',
        "lanes dead-letters redrive MAIN --reason TimeoutError --rate 20",
    ),
    "dead-letters delete": (
        'lanes dead-letters delete MAIN --kind "test.*" --dry-run',
        "lanes dead-letters delete MAIN --id order-7",
    ),
    "overrides list": ("lanes overrides list",),
    "overrides withdraw": ("lanes overrides withdraw 3f2a --dry-run",),
    "overrides cancelled": ("lanes overrides cancelled --since 2d",),
    "schedules list": ("lanes schedules list",),
    "schedules pause": ("lanes schedules pause nightly-statements",),
    "schedules resume": ("lanes schedules resume nightly-statements --dry-run",),
    "schedules run": ("lanes schedules run nightly-statements",),
    "scheduled list": ("lanes scheduled list --limit 20",),
    "scheduled cancel": ("lanes scheduled cancel reminder-7",),
    "scheduled send-now": ("lanes scheduled send-now reminder-7",),
    "runs list": ("lanes runs list", "lanes runs list --since 45d"),
    "runs show": ("lanes runs show statements-2026-11", "lanes runs show statements-2026-11 --exact"),
    "runs watch": ("lanes runs watch statements-2026-11 --timeout 2h",),
    "runs close": ('lanes runs close statements-2026-11 --why "sent by mail" --dry-run',),
    "outbox setup": ("lanes outbox --database postgresql://localhost/shop setup --print",),
    "outbox relay": ("lanes outbox relay", "lanes outbox --database postgresql://localhost/shop relay"),
    "outbox status": ("lanes outbox status",),
    "outbox list": ('lanes outbox list --state ABANDONED --kind "invoice.*"',),
    "outbox show": ("lanes outbox show order-7",),
    "outbox retry": ("lanes outbox retry --state ABANDONED --kind order.placed --dry-run",),
    "outbox cleanup": ("lanes outbox cleanup --dry-run",),
    "outbox reconcile": ("lanes outbox reconcile --after 1h",),
    "outbox audit": ("lanes outbox audit",),
    "bulk submit": (
        "lanes bulk submit --run spring --table s3://lake/customers --kind customer.remind --id customer_id",
    ),
    "config show": ("lanes config show --stage prod --file lanes.toml",),
}
"""Examples by verb; the tests parse each of them."""


def add_help(command: Any, path: str = "") -> None:
    """Unwrap the paragraphs of a command's help, and add its examples; do the same for its verbs."""
    # A docstring's line ends would stay, and the terminal would wrap each of its lines once more.
    paragraphs = (command.help or "").split("\n\n")
    command.help = "\n\n".join(" ".join(one.split()) for one in paragraphs)
    if examples := EXAMPLES.get(path):
        heading = "Example:" if len(examples) == 1 else "Examples:"
        command.epilog = "\n".join([heading, *(f"  {example}" for example in examples)])
    for name, verb in getattr(command, "commands", {}).items():
        add_help(verb, f"{path} {name}".strip())


def put_first(command: Any) -> None:
    """Put the verbs for every day first, and the others into a panel below."""
    others = [name for name in command.commands if name not in FIRST]
    for name in others:
        command.commands[name].rich_help_panel = "More commands"
    names = [name for name in FIRST if name in command.commands]
    command.commands = {name: command.commands[name] for name in [*names, *others]}


OUTPUT = "--output"
MAY_BE_EMPTY = frozenset({"--why"})
"""Options with a text for people."""


class RootGroup(TyperGroup):
    """The `lanes` command, which reads its own options behind a verb as well."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options of the command line, wherever they are."""
        with _naming_values():
            return super().parse_args(ctx, options_first(self, args))

    def invoke(self, ctx: Any) -> Any:
        """Run the verb."""
        with _naming_values():
            return super().invoke(ctx)


@contextmanager
def _naming_values() -> Iterator[None]:
    """Name the wrong value in an error of an option: Pydantic, which checks it for Typer, leaves it out."""
    try:
        yield
    except typer.BadParameter as error:
        if found := getattr(error.__cause__, "errors", None):
            value = repr(found()[0]["input"])
            error.message = error.message if value in error.message else f"{value}: {error.message}"
        raise


def options_first(root: Any, arguments: Sequence[str]) -> list[str]:
    """
    Return the arguments with the global options before the verb.

    An option that the verb has too stays the verb's. The arguments of a verb that passes them on to a job stay where
    they are, except for `--output`; so do all words of a command that a verb runs, and those after `--`.

    Raises:
        typer.BadParameter: the value of a global option is missing, an option or argument has an empty value, or an
            argument is given as an option.
    """
    mine = _options(root)
    first: list[str] = []
    rest: list[str] = []
    command, left = root, list(arguments)
    while left and left[0] != "--" and not command.context_settings.get("ignore_unknown_options"):
        word = left.pop(0)
        name, has_value = word.partition("=")[0], "=" in word
        own = _options(command)
        takes_value = not has_value and (own if name in own else mine).get(name, False)
        _refuse_empty(command, word, left[0] if takes_value and left else None)
        if takes_value and not left and name in mine and name not in own:
            raise typer.BadParameter("a value is missing", param_hint=name)
        if name in _arguments(command) and name not in own and name not in mine:
            raise typer.BadParameter(
                f"give it as an argument, without {name}: {_usage(command)}", param_hint=name
            )
        words = [word, *([left.pop(0)] if takes_value and left else [])]
        (first if name in mine and (command is root or name not in own) else rest).extend(words)
        if not word.startswith("-"):
            command = getattr(command, "commands", {}).get(word, command)
    is_command = not command.context_settings.get("allow_interspersed_args", True)
    moved, left = ([], left) if not left or left[0] == "--" or is_command else _output_of(left)
    return [*first, *moved, *rest, *left]


def _refuse_empty(command: Any, word: str, value: str | None) -> None:
    """
    Refuse an empty value, which an unset variable of a script leaves: it would mean the default stack, or any run.

    Args:
        command: the command, for the error.
        word: an option, with or without its value, or an argument.
        value: the value behind the option; None if it has none there.
    """
    name, is_assigned, assigned = word.partition("=")
    is_empty = word == "" or value == "" or (word.startswith("-") and is_assigned and not assigned)
    if is_empty and name not in MAY_BE_EMPTY:
        problem = "it has an empty value; give one" + (", or leave the option out" if name else "")
        raise typer.BadParameter(problem, param_hint=name or f"an argument of {command.name}")


def _output_of(passed_on: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate `--output`, which no job has, from the arguments that a verb passes on."""
    moved: list[str] = []
    left: list[str] = []
    words = iter(passed_on)
    for word in words:
        if word.partition("=")[0] == OUTPUT:
            moved += [word] if "=" in word else [word, *islice(words, 1)]
        else:
            left.append(word)
    return moved, left


def _arguments(command: Any) -> set[str]:
    """Return the names that the arguments of a command would have as options."""
    return {f"--{one.name}" for one in command.params if one.param_type_name == "argument"}


def _usage(command: Any) -> str:
    metavars = [one.metavar for one in command.params if one.param_type_name == "argument"]
    return " ".join([f"{command.name}", *metavars])


def _options(command: Any) -> dict[str, bool]:
    """Return the names of a command's options, and whether each takes a value."""
    return {
        name: not (parameter.is_flag or parameter.count)
        for parameter in command.params
        if parameter.param_type_name == "option"
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


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
app.command()(config.new)
app.command()(status.status)
app.command()(status.check)
app.command()(send.send)
app.add_typer(dead_letters.app, name="dead-letters")
app.command()(move.pause)
app.command()(move.resume)
app.command()(move.prioritize)
app.command()(move.cancel)
app.add_typer(move.overrides_app, name="overrides")
app.add_typer(runs.runs_app, name="runs")
app.add_typer(runs.schedules_app, name="schedules")
app.add_typer(runs.scheduled, name="scheduled")
app.command()(trace.audit)
app.command()(trace.trace)
app.command()(trace.tail)
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
            f"error: the output, or a file, can't be written: {error.strerror}; changes that the command had begun may "
            "be made"
        )
        sys.exit(ExitCode.FAILED)
