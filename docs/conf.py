"""
Configure Sphinx for `make docs`: no network, and every warning is an error.

The pages are plain Markdown that you can also read in the repository. The build adds the parts that only a site needs,
or that the code says already: the navigation, the descriptions of the public names from their docstrings, the tables of
metrics and log events, and the options of the command.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import click
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
            "how-to/bulk",
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
    Section(caption="Operate", pages=("how-to/operate", "how-to/*", "runbook")),
    Section(
        caption="Reference",
        pages=("reference/lanes-toml", "reference/command-line", "reference/python", "reference/*"),
    ),
    Section(caption="Why", pages=("architecture", "*", "decisions")),
)
"""The navigation."""

PUBLIC = {
    "reference/python": (
        "lanes",
        "lanes.outbox",
        "lanes.outbox.sql.store",
        "lanes.outbox.dynamodb.transaction",
        "lanes.testing",
        "lanes.testing.assertions",
        "lanes.testing.on_moto",
    ),
    "reference/cdk-constructs": ("cdk",),
}
"""Pages that describe the public names of modules."""

NAMES = {
    "lanes.outbox.sql.store": ("SqlOutboxStore",),
    "lanes.outbox.dynamodb.transaction": ("OutboxTransaction",),
    "lanes.testing.assertions": ("Sent", "Handled", "Failed", "DeadLettered"),
    "lanes.testing.on_moto": ("MotoLanes",),
}
"""Public names of modules without `__all__`."""


UNLINKED = {"cdk": ("   :no-index:",)}
"""Modules that types in other descriptions don't lead to: `Outbox` is the library's."""

COMMAND = "reference/command-line"


def setup(app: Sphinx) -> None:
    """Connect the functions that complete the pages."""
    app.connect("source-read", _complete)
    app.connect("autodoc-process-docstring", _describe_settings, priority=300)
    app.connect("autodoc-process-docstring", _escape, priority=400)


def _complete(_app: Sphinx, page: str, source: list[str]) -> None:
    text = source[0]
    if page == root_doc:
        text += "".join(_toctree(section.caption, pages) for section, pages in _navigation())
    for module in PUBLIC.get(page, ()):
        text += _descriptions(module)
    if page == "reference/metrics-and-logs":
        text += _metrics() + _events()
    if page == COMMAND:
        text += "\n\n## Options\n" + "".join(_options())
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
    lines = [
        "",
        "",
        "```{toctree}",
        ":hidden:",
        f":caption: {caption}",
        "",
        *(f"/{page}" for page in pages),
        "```",
        "",
    ]
    return "\n".join(lines)


def _descriptions(module: str) -> str:
    names = NAMES.get(module) or tuple(import_module(module).__all__)
    parts = ["", "", f"## `{module}`", "", "```{eval-rst}"]
    found = {name: getattr(import_module(module), name) for name in names}
    for name in sorted(names, key=lambda one: (_kind(found[one]) == "exception", one)):
        parts += ["", f".. auto{_kind(found[name])}:: {module}.{name}", *UNLINKED.get(module, ())]
    return "\n".join([*parts, "", "```", ""])


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |\n" for line in lines)


def _metrics() -> str:
    """Return the table of the consumer's metrics."""
    from lanes.metrics import Metric

    rows = [(f"`{metric}`", metric.description) for metric in Metric]
    return "\n\n## All metrics\n\n" + _table(("Metric", "Meaning"), rows)


def _events() -> str:
    """Return the table of the log's events."""
    from lanes.events import Event

    rows = [
        (f"`{event}`", ", ".join(f"`{one}`" for one in event.fields), event.description) for event in Event
    ]
    return "\n\n## All events\n\n" + _table(("Event", "Fields", "Meaning"), rows)


def _options() -> Iterator[str]:
    """Give the global options, and a section for each verb with options."""
    from lanes.cli.main import command

    yield from _options_of("lanes", command())


def _options_of(path: str, verb: click.Command) -> Iterator[str]:
    rows = [
        (
            ", ".join(f"`{one}`" for one in parameter.opts),
            f"{parameter.help}{_default(parameter.default)}".replace("*", r"\*").replace("<", r"\<"),
        )
        for parameter in verb.params
        if parameter.param_type_name == "option" and "--help" not in parameter.opts
    ]
    if rows:
        yield f"\n### {path}\n\n" + _table(("Option", "Meaning"), rows)
    for name, inner in getattr(verb, "commands", {}).items():
        yield from _options_of(f"{path} {name}", inner)


def _default(value: Any) -> str:
    return f" Default: `{value}`." if value and value is not True else ""


def _kind(found: Any) -> str:
    if not isinstance(found, type):
        return "function"
    return "exception" if issubclass(found, BaseException) else "class"


def _describe_settings(
    _app: Sphinx, _what: str, _name: str, found: Any, _options: Any, lines: list[str]
) -> None:
    """Describe the attributes of a record of settings as its fields declare them."""
    from lanes.config.table import settings_of

    if is_dataclass(found) and isinstance(found, type) and (settings := settings_of(found)):
        lines += ["", "Attributes:", *(f"    {key}: {one.meaning}." for key, one in settings.items())]


def _escape(_app: Sphinx, _what: str, _name: str, _found: Any, _options: Any, lines: list[str]) -> None:
    """Escape asterisks and trailing underscores in docstrings, outside of code."""
    for number, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        parts = line.split("`")
        parts[::2] = [re.sub(r"(\*|(?<=\w)_(?=\W|$))", r"\\\1", part) for part in parts[::2]]
        lines[number] = "`".join(parts)
