"""
Verbs of packages that the library does not depend on: of the simulator, and of AWS on this machine.

They are found by name: `lanes_simulator` where it is installed, `simulator` in a checkout of the project.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer


def add_to(app: typer.Typer) -> None:
    """Add the verbs of the packages that are available."""
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
