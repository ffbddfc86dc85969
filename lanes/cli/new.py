"""`lanes new`: a folder with an app of your own, ready to run."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated

import typer

from lanes.cli.printing import say
from lanes.cli.usage import UsageError
from lanes.installing import requirement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

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
    say(f"made {folder}; next: lanes local up {folder}, and see {folder / 'README.md'}")


def _contents(folder: Traversable, inside: Path) -> Iterator[tuple[Path, str]]:
    """Return the path and text of each file of the template."""
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            yield from _contents(entry, inside / entry.name)
        else:
            # Under another name, the template's own .gitignore would hide its files.
            name = entry.name.removesuffix(SUFFIX)
            yield inside / (".gitignore" if name == "gitignore" else name), entry.read_text()
