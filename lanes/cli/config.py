"""`lanes config` and `lanes new`."""

from __future__ import annotations

import re
import shlex
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanes.cli.printing import say, show_rows
from lanes.cli.target import UsageError, target_of
from lanes.config import EngineName, LanesConfig
from lanes.config.table import format_duration, format_rate
from lanes.installing import requirement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from lanes.config import ConsumerSettings, Lane

app = typer.Typer(
    no_args_is_help=True, help="Check a lanes.toml, and print its settings as a stage resolves them."
)

FileOption = Annotated[Path, typer.Option("--file", help="Read this file.", exists=True, dir_okay=False)]


@app.command()
def show(context: typer.Context, file: FileOption = Path("lanes.toml")) -> None:
    """
    Print the lanes of a file as the stage resolves them, highest first, and the engine.

    Use it before you deploy: it calls no AWS service. A problem such as an unknown key or settings that contradict each
    other ends it with exit code 1, and all problems of the file are listed. A note names a setting that is valid but
    seldom wanted. `lanes cdk diff` compares the file with your deployment.
    """
    target = target_of(context)
    config = LanesConfig.load(file, stage=target.stage or None)
    rows = [
        {
            "lane": lane.name,
            "threshold": lane.threshold if lane is not config.last_lane else "rest",
            "batch_size": lane.batch_size,
            "visibility": lane.visibility_timeout,
            **_engine_columns(lane, config.consumer),
            "max_wait": lane.max_wait or "none",
            "maximum_concurrency": lane.maximum_concurrency,
        }
        for lane in config.lanes
    ]
    show_rows(target, rows, empty="there are no lanes")
    say(_engine(config.consumer))
    for note in config.notes():
        say(f"note: {note}")


def _engine_columns(lane: Lane, consumer: ConsumerSettings) -> dict[str, Any]:
    """Return the settings of a lane that only this engine and this policy have."""
    if consumer.engine is EngineName.MAPPINGS:
        return {"min_yield_delay": lane.yield_delay_min, "max_yield_delay": lane.yield_delay_max}
    return {"weight": lane.weight} if consumer.is_weighted else {}


def _engine(consumer: ConsumerSettings) -> str:
    """Describe the engine and its settings on one line."""
    rates = {"max_rate": consumer.max_rate, **consumer.max_rates}
    limits = [f"{name} {format_rate(rate)}" for name, rate in rates.items() if rate is not None]
    engine = f"engine: pull, policy {consumer.policy}, linger {format_duration(consumer.linger)}"
    return ", ".join(["engine: mappings" if consumer.engine is EngineName.MAPPINGS else engine, *limits])


# AWS: a stack's name has letters, digits and hyphens, begins with a letter and has at most 128 characters
# (API_CreateStack). Its queues and alarms put more behind it.
NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,39}")
SUFFIX = ".template"
UNSHARED = """\
# This place is on your machine alone. For your colleagues and CI, name one that they can reach too, for example
# priority-lanes[local] @ git+https://git.example.com/team/priority-lanes@COMMIT
"""


def new(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Make this folder; its name is that of the stack too.")
    ],
) -> None:
    """
    Make a folder with an app of your own: handler, producer, test, lanes.toml and CDK app.

    Its README.md has the commands that run it on your machine.
    """
    name = folder.resolve().name
    if not NAME.fullmatch(name):
        raise UsageError(
            [
                f"the name is {name!r}; it must have 1 to 40 letters, digits and hyphens, and begin with a letter"
            ],
            source="FOLDER",
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            [f"{folder} exists and is not an empty folder; give the name of a new one"], source="FOLDER"
        )
    wanted = requirement("local")
    note = UNSHARED if "@ file:" in wanted else ""
    values = {"name": name, "stack": name, "requirement": note + wanted}
    try:
        for path, text in _contents(files("lanes.cli").joinpath("template"), Path()):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(Template(text).substitute(values))
    except OSError as error:
        raise UsageError([f"{folder} can't be written: {error.strerror}"], source="FOLDER") from error
    say(f"made {folder}; next: lanes local up {shlex.quote(str(folder))}, and see {folder / 'README.md'}")


def _contents(folder: Traversable, inside: Path) -> Iterator[tuple[Path, str]]:
    """Return the path and text of each file of the template."""
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            yield from _contents(entry, inside / entry.name)
        else:
            # Under another name, the template's own .gitignore would hide its files.
            name = entry.name.removesuffix(SUFFIX)
            yield inside / (".gitignore" if name == "gitignore" else name), entry.read_text()
