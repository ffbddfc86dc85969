"""Docs and docstrings stay in plain English: nouns instead of free relatives, and *you* for the reader."""

import ast
import re
import subprocess
from collections import Counter

import pytest

from tests.docs.pages import FENCE, ROOT

PER = 10_000
NAMES = re.compile(r"(?<=\])\([^)\s]*\)|`[^`\n]*`")
"""Targets of links and names written as code: they are no prose."""

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
AT_MOST = {
    ("what", "whatever"): 15,
    ("whose", "whoever", "nobody"): 3,
    ("tells", "told", "stands", "goes"): 3,
}
READER = ("you", "your")
READER_AT_LEAST = 60


def prose_of(path):
    """Give the text of a page without its code blocks, or the docstrings of a module."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return FENCE.sub("", text)
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, DOCUMENTED))
    return " ".join(ast.get_docstring(node) or "" for node in nodes)


@pytest.fixture(scope="module")
def words():
    """Give how often each tracked file uses each word; of tests and examples only their pages count."""
    command = ["git", "ls-files", "*.md", "*.py"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    counted = {}
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.exists() and (path.suffix == ".md" or not name.startswith(("tests/", "examples/"))):
            counted[name] = Counter(re.findall(r"[a-z']+", NAMES.sub("", prose_of(path)).lower()))
    return counted


def uses(counts, group):
    """Give how often a group of words is used."""
    return sum(counts[word] for word in group)


def rate(words, group):
    """Give the uses of a group of words in 10,000 words."""
    total = sum(words.values(), Counter())
    return PER * uses(total, group) / total.total()


@pytest.mark.parametrize("group", AT_MOST, ids=", ".join)
def test_words_in_place_of_a_noun_are_rare(group, words):
    """Name the thing: "the backlog above", not "what waits above"."""
    found = rate(words, group)
    worst = Counter({name: uses(counts, group) for name, counts in words.items()}).most_common(8)

    assert found <= AT_MOST[group], f"most uses: {worst}"


def test_the_reader_is_addressed(words):
    """Instructions speak to the reader."""
    found = rate(words, READER)

    assert found >= READER_AT_LEAST
