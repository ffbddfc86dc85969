"""The map of the code: the files and names that decide each promise exist."""

import re

from tests.docs.pages import ROOT, codes, rows

CONSUMER = ROOT / "lanes" / "consumer"
HEADING = "## The consumer: one corridor, two engines"


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


def test_each_promise_is_decided_in_files_and_names_that_exist():
    """A reader who starts from the map arrives, also after a file was moved."""
    found = [places(cell) for _, cell, _ in rows(ROOT / "docs" / "architecture.md", HEADING)]
    files = {path for paths, _ in found for path in paths}

    assert [path for path in files if not path.is_file()] == []
    words = {word for path in files for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    assert [name for _, names in found for name in names if name not in words] == []
