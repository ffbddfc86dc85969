"""The pages of the documentation, read as text: links, tables, code blocks."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def pages():
    """Give every page, the README first."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(page):
    """Give the page's path for test ids."""
    return str(page.relative_to(ROOT))


def prose(page):
    """Give a page without its code blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page):
    """Give the targets of all links within this repository: file and anchor."""
    targets = [target for target in LINK.findall(prose(page)) if "://" not in target]
    return [(target.partition("#")[0], target.partition("#")[2]) for target in targets]


def anchors(page):
    """Give the anchors of a page's headings."""
    titles = [re.sub(r"[^\w\- ]", "", title.lower()) for title in HEADING.findall(prose(page))]
    return {title.replace(" ", "-") for title in titles}


def blocks(page, language):
    """Give the code blocks of a language."""
    return [text for kind, text in FENCE.findall(page.read_text(encoding="utf-8")) if kind == language]


def spans(page):
    """Give what is written as code within the prose."""
    return SPAN.findall(prose(page))


def rows(page, heading):
    """Give the cells of the tables under a heading, their first rows left out."""
    text = f"\n{page.read_text(encoding='utf-8')}".partition(f"\n{heading}\n")[2]
    level = heading.partition(" ")[0]
    section = re.split(rf"^{level} ", text, maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rulers = [index for index, row in enumerate(cells) if set("".join(row)) <= set("-: ")]
    dropped = {index for ruler in rulers for index in (ruler - 1, ruler)}
    return [row for index, row in enumerate(cells) if index not in dropped]


def codes(cell):
    """Give the code words of a cell."""
    return SPAN.findall(cell)
