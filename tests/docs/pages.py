"""The pages of the documentation, read as text: links, tables, code blocks."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")

FOLLOWED = {
    "README.md": ("Your first app",),
    "docs/quickstart.md": ("An app of your own", "The handler", "A test"),
    "docs/how-to/run-locally.md": ("",),
    "docs/how-to/outbox.md": ("First steps with DynamoDB",),
    "docs/how-to/schedules.md": ("Periodic messages", "A message for later"),
    "docs/how-to/send.md": ("A producer", "Many messages", "Messages with an end"),
    "docs/how-to/handlers.md": ("Fail, retry, dead-letter", "Data with a type", "Long work", "Send on"),
    "docs/how-to/follow-a-run.md": ("",),
    "docs/how-to/test-your-code.md": ("A handler by itself", "Through the lanes", "Time and failures"),
    "docs/how-to/plan.md": ("Describe the load", "Simulate"),
    "docs/how-to/resource-away.md": ("",),
}
"""The sections (the one before the first is "") whose steps are executed in a new app, word by word."""
NEW_APP = ("function/handler.py", "send.py", "test_handler.py", "app.py")
"""The Python files that `lanes new shop` makes."""
NAMED_FILE = re.compile(r"`([\w./-]+\.(?:py|toml))`")
ADD, WHOLE = re.compile(r"\b[Aa]dd\b[^.:`]*\bto\s+`"), re.compile(r"\b[Aa] whole\s+`")


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


def section(page, heading):
    """Give the text below a heading of the second level."""
    text = f"\n{page.read_text(encoding='utf-8')}"
    below = text.partition(f"\n## {heading}\n")[2] if heading else text
    return re.split(r"^## ", below, maxsplit=1, flags=re.MULTILINE)[0]


def steps(page, heading):
    """Give what a section says before each of its blocks, with the block's language and text; the last has none."""
    text, before = section(page, heading), 0
    for found in FENCE.finditer(text):
        yield text[before : found.start()], found[1], found[2]
        before = found.end()
    yield text[before:], "", ""


def target(said):
    """Give the file that the words before a block name for it, and whether it goes to its end; None if it has none."""
    name = next(reversed(NAMED_FILE.findall(said)), "")
    added = name == "lanes.toml" or bool(ADD.search(said))
    # A block of a file that a new app has is quoted from it.
    is_quoted = name.removeprefix("shop/") in NEW_APP and not added and not WHOLE.search(said)
    return None if is_quoted or not name else (name, added)


def executed(page):
    """Give the Python blocks of a page that are put into files and executed there."""
    return {
        block
        for heading in FOLLOWED.get(name_of(page), ())
        for said, language, block in steps(page, heading)
        if language == "python" and target(said)
    }


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
