"""Messages on a terminal: wrapped once, between words, and never within a command."""

import io
import itertools

import pytest

from lanes.cli.printing import say

MESSAGE = (
    "error: AWS can't be reached\n"
    "  - the table could not be read, so that pauses, overrides and the number of cancelled messages are unknown\n"
    "  - check the address and your network, and whether a local platform runs there: `lanes local up --port 4566`\n"
    "  - `lanes dead-letters redrive MAIN --kind 'order.*' --reason TimeoutError --dry-run`: 全部 is what it would send"
)


@pytest.fixture
def said(monkeypatch):
    """Say something on a terminal of a width, or into a file; give its lines."""

    def say_on(text, width=None):
        stream = io.StringIO()
        stream.isatty = lambda: width is not None
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setenv("COLUMNS", str(width or 0))
        say(text)
        return stream.getvalue().splitlines()

    return say_on


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_a_message_is_wrapped_once(said, width):
    """A line ends early only if the next word does not fit, and all words stay."""
    lines = said(MESSAGE, width)

    assert " ".join(" ".join(lines).split()) == " ".join(MESSAGE.split())
    for line, following in itertools.pairwise(lines):
        if not following.startswith("  - "):
            next_word = following.split("`")[1] if following.strip().startswith("`") else following.split()[0]
            assert len(line) + 1 + len(next_word) > width
    assert all(len(line) <= width for line in lines if "`" not in line)


@pytest.mark.parametrize("width", [20, 40, 80])
def test_no_command_is_broken(said, width):
    """A pasted line end would run its first half."""
    lines = said(MESSAGE, width)

    assert all(line.count("`") % 2 == 0 for line in lines)


def test_an_item_keeps_its_indent(said):
    """Its later lines begin below its text."""
    assert said("  - one two three four", 14) == ["  - one two", "    three four"]


def test_a_file_gets_each_line_whole(said):
    """For grep."""
    assert said(MESSAGE) == MESSAGE.splitlines()
