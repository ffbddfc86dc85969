"""
Configure Sphinx for `make docs`: no network, and every warning is an error.

The pages are plain Markdown that you can also read in the repository. The build adds the parts that only a site needs:
the navigation, and the descriptions of the public names from their docstrings.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

project = "Priority Lanes"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "index"
source_suffix = {".md": "markdown"}
default_role = "code"  # docstrings use single backticks for code
highlight_language = "text"  # a block without a language is output
add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
napoleon_use_ivar = True
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Priority Lanes"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One caption of the navigation; a pattern adds all pages not listed by name or before it."""

    caption: str
    pages: tuple[str, ...]


SECTIONS = (
    Section(caption="Start", pages=("quickstart", "concepts", "comparison")),
    Section(
        caption="Write",
        pages=(
            "how-to/handlers",
            "how-to/batch-handlers",
            "how-to/send",
            "how-to/priorities",
            "how-to/test-your-code",
            "how-to/outbox",
            "how-to/bulk-from-spark",
        ),
    ),
    Section(
        caption="Run",
        pages=(
            "how-to/run-locally",
            "how-to/deploy",
            "how-to/own-cdk-app",
            "how-to/run-as-a-process",
            "how-to/tune",
            "cost",
        ),
    ),
    Section(caption="Operate", pages=("how-to/operate", "how-to/*", "runbook/README")),
    Section(
        caption="Reference",
        pages=("reference/lanes-toml", "reference/command-line", "reference/python*", "reference/*"),
    ),
    Section(caption="Why", pages=("architecture", "*", "decisions/README")),
)
"""The navigation; the pages below a page are in NESTED."""

NESTED = {
    "runbook/README": "runbook/*",
    "decisions/README": "decisions/*",
    "how-to/bulk-from-spark": "bulk/*",
}

PUBLIC = {
    "reference/python": ("lanes",),
    "reference/python-outbox": (
        "lanes.outbox",
        "lanes.outbox.sql.store",
        "lanes.outbox.dynamodb.transaction",
    ),
    "reference/python-testing": ("lanes.testing", "lanes.testing.entries", "lanes.testing.on_moto"),
}
"""Pages that describe the public names of modules."""

NAMES = {
    "lanes.outbox.sql.store": ("SqlOutboxStore",),
    "lanes.outbox.dynamodb.transaction": ("OutboxTransaction",),
    "lanes.testing.entries": ("Sent", "Handled", "Failed", "DeadLettered"),
    "lanes.testing.on_moto": ("MotoLanes",),
}
"""Public names of modules without `__all__`."""


def setup(app: Sphinx) -> None:
    """Connect the functions that complete the pages."""
    app.connect("source-read", _complete)
    app.connect("autodoc-process-docstring", _escape, priority=400)


def _complete(_app: Sphinx, page: str, source: list[str]) -> None:
    text = source[0]
    if page == root_doc:
        text += "".join(_toctree(section.caption, pages) for section, pages in _navigation())
    if page in NESTED:
        text += _toctree("", [one for one in _matching(NESTED[page]) if one != page])
    for module in PUBLIC.get(page, ()):
        text += _descriptions(module)
    source[0] = text


def _navigation() -> list[tuple[Section, list[str]]]:
    """Return the sections with their pages, each page in the first that names it."""
    named = {root_doc, *(page for section in SECTIONS for page in section.pages)}
    taken: set[str] = set()
    found = []
    for section in SECTIONS:
        pages: list[str] = []
        for pattern in section.pages:
            pages += [
                one for one in _matching(pattern) if one not in (taken | named if "*" in pattern else taken)
            ]
            taken.update(pages)
        found.append((section, pages))
    return found


def _matching(pattern: str) -> list[str]:
    return sorted(path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.glob(f"{pattern}.md"))


def _toctree(caption: str, pages: list[str]) -> str:
    title = [f":caption: {caption}"] if caption else []
    lines = ["", "", "```{toctree}", ":hidden:", *title, "", *(f"/{page}" for page in pages), "```", ""]
    return "\n".join(lines)


def _descriptions(module: str) -> str:
    names = NAMES.get(module) or tuple(import_module(module).__all__)
    parts = ["", "", f"## `{module}`", "", "```{eval-rst}"]
    found = {name: getattr(import_module(module), name) for name in names}
    for name in sorted(names, key=lambda one: (_kind(found[one]) == "exception", one)):
        parts += ["", f".. auto{_kind(found[name])}:: {module}.{name}"]
    return "\n".join([*parts, "", "```", ""])


def _kind(found: Any) -> str:
    if not isinstance(found, type):
        return "function"
    return "exception" if issubclass(found, BaseException) else "class"


def _escape(_app: Sphinx, _what: str, _name: str, _found: Any, _options: Any, lines: list[str]) -> None:
    """Escape asterisks and trailing underscores in docstrings, outside of code."""
    for number, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        parts = line.split("`")
        parts[::2] = [re.sub(r"(\*|(?<=\w)_(?=\W|$))", r"\\\1", part) for part in parts[::2]]
        lines[number] = "`".join(parts)
