"""What the pages point to exists, and what they quote is what the tests run."""

import ast
import builtins
import re
import shlex
import subprocess
import textwrap
import tomllib

from lanes import LanesConfig, installing
from tests.docs.pages import (
    FENCE,
    LINK,
    NEW_APP,
    ROOT,
    anchors,
    blocks,
    codes,
    executed,
    links,
    name_of,
    pages,
    rows,
    spans,
)  # fmt: skip

EXAMPLES = [*(ROOT / "examples").rglob("*.py"), *(ROOT / "tests" / "docs").glob("test_*_example*.py")]
CONSUMER = ROOT / "lanes" / "consumer"
# The table of docs/architecture.md with the files that decide each promise.
MAP = "## The consumer: one corridor, two engines"
TEMPLATE = [*(ROOT / "lanes" / "cli" / "template").rglob("*.py.template")]
FRAGMENT = re.compile(r"\n\nA fragment of .*")
IMPORTS = (ast.Import, ast.ImportFrom)
NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)
FILE = re.compile(r"[\w.-]+(/[\w.-]+)*\.(py|toml|md|txt|json|in|png|html)|([\w.-]+/)+")
# Files that runs make, and places in other people's folders.
MADE = re.compile(
    r"build/|cdk\.out|\.venv|requirements\.txt$|handler\.py$|report\.json$|^app\.py$|/lanes/|^shop/|^(sent|quarantine)/"
)
# With or without quotes, options and the path of a checkout.
INSTALLED = re.compile(r"pip install [^`\n]*?priority-lanes[^`\n]*")


def test_links_lead_to_files_and_headings_that_exist():
    """A reader who follows a link arrives."""
    for page in pages():
        for file, anchor in links(page):
            target = (page.parent / file).resolve() if file else page
            assert target.exists(), f"{name_of(page)}: {file}"
            assert not anchor or anchor in anchors(target), f"{name_of(page)}: {file}#{anchor}"


def test_files_that_are_named_exist():
    """A name written as code that looks like a file or folder of this repository is one."""
    for page in pages():
        for span in spans(page):
            if FILE.fullmatch(span) and "/" in span and not MADE.search(span):
                assert any((base / span).exists() for base in (ROOT, page.parent)), f"{name_of(page)}: {span}"


def test_python_is_quoted_from_files_that_are_tested():
    """Each block stands, word for word, in one of the examples or the template of a new app, or is executed itself."""
    sources = [path.read_text(encoding="utf-8") for path in EXAMPLES]
    sources += [path.read_text(encoding="utf-8").replace("$stack", "shop") for path in TEMPLATE]
    for page in pages():
        for block in set(blocks(page, "python")) - executed(page):
            quoted = [part.strip("\n") for part in block.split("\n...\n")]
            for part in quoted:
                spread = [part, textwrap.indent(part, " " * 4), textwrap.indent(part, " " * 8)]
                assert any(form in source for form in spread for source in sources), (
                    f"{name_of(page)}: {part}"
                )


def test_python_runs_as_pasted_or_says_where_the_rest_of_it_is():
    """A block without imports of what it uses is a fragment: a line below it, or the one above, has its file."""
    for page in pages():
        pasted = executed(page)
        text = page.read_text(encoding="utf-8")
        for found in FENCE.finditer(text):
            if found[1] == "python" and found[2] not in pasted and undefined_names(found[2]):
                below = FRAGMENT.match(text, found.end())
                files = [(page.parent / file).resolve() for file in LINK.findall(below[0])] if below else []
                above = text[: found.start()].rstrip().rpartition("\n\n")[2]
                assert files or any(f"`shop/{path}`" in above for path in NEW_APP), (name_of(page), found[2])
                sources = "".join(file.read_text(encoding="utf-8") for file in files)
                for line in found[2].splitlines() if files else ():
                    assert line == "..." or line.strip() in sources, (name_of(page), line)


def undefined_names(code):
    """Return the names that code uses and nowhere binds; one that leaves lines out or can't be parsed uses `...`."""
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except SyntaxError:
        return {"..."}
    if "..." in code.splitlines():
        return {"..."}
    names = [node for node in nodes if isinstance(node, ast.Name)]
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    bound |= {
        one.asname or one.name.partition(".")[0]
        for node in nodes
        if isinstance(node, IMPORTS)
        for one in node.names
    }
    bound |= {node.name for node in nodes if isinstance(node, NAMED)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    return {node.id for node in names} - bound - set(dir(builtins)) - {"__file__"}


def test_lanes_toml_blocks_can_be_loaded():
    """Settings that are shown are settings that work, in every stage."""
    for page in pages():
        for block in blocks(page, "toml"):
            raw = tomllib.loads(block)
            for stage in (None, *raw.get("stages", {})):
                LanesConfig.from_dict(raw, stage=stage)


def test_make_targets_exist():
    """What is to be typed can be typed."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    known = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    for page in pages():
        lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
        typed = [shlex.split(line, comments=True) for line in lines if line.startswith("make")]
        used = {words[1] for words in typed if words[:1] == ["make"] and len(words) > 1}
        used |= {span.split()[1] for span in spans(page) if span.startswith("make ")}

        assert used <= known, name_of(page)


def test_commands_paste_as_they_are():
    """Without a prompt, and without the output among them, which has a block of its own."""
    for page in pages():
        assert blocks(page, "console") == [], name_of(page)
        for block in blocks(page, "sh"):
            assert not [line for line in block.splitlines() if line.startswith(("$ ", "> "))], name_of(page)
            parsed = subprocess.run(
                ["/bin/sh", "-n"], input=block, capture_output=True, text=True, check=False
            )
            assert parsed.returncode == 0, f"{name_of(page)}: {block}{parsed.stderr}"


def test_every_page_can_be_reached_from_the_readme():
    """No page is left to be found by chance."""
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            waiting += [(page.parent / file).resolve() for file, _ in links(page) if file]

    assert set(pages()) <= reached


def test_pages_install_from_the_place_that_has_the_library():
    """From a checkout, until `RELEASED` says that PyPI has it."""
    for page in pages():
        for command in INSTALLED.findall(page.read_text(encoding="utf-8")):
            assert (f"'{installing.CHECKOUT}[" in command) != installing.RELEASED, (name_of(page), command)


def places(cell):
    """Give the files of a cell as paths, and its other names; a folder counts for the files after it."""
    folder, files, names = CONSUMER, [], []
    for code in codes(cell):
        if code.endswith("/"):
            folder = ROOT / code
        elif code.endswith(".py"):
            files.append(ROOT / code if "/" in code else folder / code)
        else:
            names.append(code.rpartition(".")[2])
    return files, names


def test_the_tree_of_the_architecture_names_what_exists():
    """Folders at the top, those and files of the library, and folders within them."""
    tree = blocks(ROOT / "docs" / "architecture.md", "")[0]
    for line in tree.splitlines():
        base = ROOT / "lanes" if line.startswith("│   ") else ROOT
        names = re.findall(r"[\w.-]+(?:/|\.py|\.toml|\.md|\.json|\.txt|\.in)(?=\s|$|:)", line)
        places = [base, *(base / name for name in names[:1])]
        assert [name for name in names if not any((place / name).exists() for place in places)] == [], line


def test_each_promise_is_decided_in_files_and_names_that_exist():
    """A reader who starts from the map arrives, also after a file was moved."""
    table = rows(ROOT / "docs" / "architecture.md", MAP)
    found = [places(cell) for _, cell, _ in table]
    files = {path for paths, _ in found for path in paths}

    assert [path for path in files if not path.is_file()] == []
    words = {word for path in files for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    assert [name for _, names in found for name in names if name not in words] == []
    patterns = [pattern for *_, cell in table for pattern in codes(cell)]
    assert [one for one in patterns if not [*(ROOT / "tests" / "contract").glob(f"{one}.py")]] == []
