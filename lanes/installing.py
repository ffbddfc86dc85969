"""
How this library is installed, in the one place that a release changes.

The name `priority-lanes` is not taken on PyPI yet, so nothing may tell people to install it from there.
"""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

NAME = "priority-lanes"
RELEASED = False
"""Whether PyPI has the library; see CONTRIBUTING.md."""
CHECKOUT = "/path/to/priority-lanes"
"""A checkout of the repository, as the pages write it."""


def install_hint(extra: str) -> str:
    """Return the command that installs the library with an extra, from where it came."""
    return f"pip install '{requirement(extra)}'"


def requirement(*extras: str) -> str:
    """Return the line of a requirements file for this library with extras."""
    wanted = f"{NAME}[{','.join(extras)}]"
    if RELEASED:
        return wanted
    return f"{wanted} @ {_source()}"


def _source() -> str:
    """Return the URL of the checkout or file that this library was installed from."""
    beside = Path(__file__).resolve().parents[1]
    if (beside / "pyproject.toml").is_file():
        return beside.as_uri()
    try:
        # PEP 610: pip and uv record the URL of a package that did not come from an index.
        recorded = json.loads(metadata.distribution(NAME).read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        recorded = {}
    source = recorded.get("vcs_info")
    if source:
        return f"{source['vcs']}+{recorded['url']}@{source['commit_id']}"
    return str(recorded.get("url", f"file://{CHECKOUT}"))
