"""
`lanes simulate` and `lanes plan`, verbs of the simulator.

The library does not depend on the simulator. It finds it by name: `lanes_simulator` if installed, `simulator` in a
checkout of the project.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

INSTALLED, IN_CHECKOUT = "lanes_simulator", "simulator"


def add_to(app: typer.Typer) -> None:
    """Add the verbs to the command if the simulator is available."""
    package = _package()
    if package is not None:
        verbs = importlib.import_module(f"{package}.verbs")
        app.command()(verbs.simulate)
        app.command()(verbs.plan)


def _package() -> str | None:
    """Return the package of the simulator; ignore another package with the name `simulator`."""
    # Other packages are called `simulator` too.
    beside = Path(__file__).resolve().parents[2]
    if (beside / "pyproject.toml").exists() and (beside / IN_CHECKOUT / "verbs.py").exists():
        return IN_CHECKOUT
    return INSTALLED if importlib.util.find_spec(INSTALLED) else None
