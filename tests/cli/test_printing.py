"""What the command prints: tables, long lines, and the errors of AWS and of missing packages."""

import io
import itertools
import subprocess
import sys
from datetime import timedelta

import pytest
import typer
from rich.console import Console

from lanes.cli import printing, trace
from lanes.cli.printing import confirm, format_value, layout, readings, say
from lanes.errors import AwsError
from lanes.installing import install_hint
from lanes.operate.log import LogEvent, LogLine
from tests.docs.pages import ROOT
from tests.support.command import DURATIONS, NOWHERE, Typed

ROWS = [
    {
        "lane": "MEDIUM",
        "waiting": 10010,
        "message_id": "afbdfcd6-4c44-7dc9-9983-f7057c06dc27",
        "error": "no [b]",
    },
    {"lane": "HIGH", "waiting": None, "message_id": "0" * 36, "error": ""},
]


def drawn(width):
    """Draw the rows on a terminal of this width."""
    out = Console(file=io.StringIO(), width=width)
    out.print(layout(ROWS, out))
    return out.file.getvalue()


@pytest.mark.parametrize("width", [200, 80, 64, 50])
def test_no_word_is_cut_and_no_line_too_long(width):
    """Ids can be copied from any terminal."""
    text = drawn(width)

    assert "afbdfcd6-4c44-7dc9-9983-f7057c06dc27" in text
    assert "no [b]" in text
    assert "MEDIUM" in text
    assert max(map(len, text.splitlines())) <= width


def test_the_lines_between_cells_go_first_and_then_the_table():
    """Each width has the best that fits."""
    assert "│" in drawn(80)
    assert "│" not in drawn(64)
    assert drawn(64).splitlines()[0].split() == ["lane", "waiting", "message", "id", "error"]
    assert drawn(50).splitlines()[0].startswith("lane MEDIUM  waiting 10010")


@pytest.mark.parametrize(("answer", "status"), [(typer.Abort, 130), (False, 1)])
def test_a_question_that_is_not_agreed_to_changes_nothing(monkeypatch, capsys, answer, status):
    """Ctrl-C ends it as it ends everything, with 130."""

    def asked(*_arguments, **_options):
        if answer is typer.Abort:
            raise typer.Abort
        return answer

    monkeypatch.setattr(printing.typer, "confirm", asked)
    monkeypatch.setattr(sys, "stdin", type("Terminal", (), {"isatty": staticmethod(lambda: True)})())

    with pytest.raises(typer.Exit) as ended:
        confirm("sure?", yes=False)

    assert ended.value.exit_code == status
    assert "nothing was changed" in capsys.readouterr().err


def failing(*, retryable):
    """A look of which the second fails."""
    seen = iter(["one", AwsError(operation="Query", code="Throttled", retryable=retryable), "three"])

    def look():
        found = next(seen)
        if isinstance(found, AwsError):
            raise found
        return found

    return look


def test_who_follows_what_happens_survives_a_throttled_look(capsys):
    """It says so and tries again."""
    assert list(readings(failing(retryable=True), every=0.0, times=3)) == ["one", "three"]
    assert "trying again" in capsys.readouterr().err


@pytest.mark.parametrize("verb", [["runs", "watch", "nov"], ["status", "--watch"], ["tail"]], ids=" ".join)
def test_an_interval_that_is_too_short_is_refused_before_a_call_to_aws(typed, verb):
    """Without a stack or a region too."""
    done = typed(*verb, "--interval", "1ms")

    assert done.returncode == 2
    assert "'1ms' is too short; give at least 100ms" in done.stderr


def test_what_does_not_pass_by_itself_ends_the_looking():
    """Such as credentials that have expired."""
    with pytest.raises(AwsError):
        list(readings(failing(retryable=False), every=0.0, times=3))


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[2Jgone",
        "a\x07b",
        "\x9b31m",
        "abc\u202etxt.exe",
        "back\x08\x08\x08\x08",
        "half a pair \ud800",
        "a line\u2028another",
        "a paragraph\u2029another",
        "left to right\u200e, right to left\u200f\u061c",
        "hidden\u200b\u2060\ufeff",
        "tagged \U000e0041",
    ],
    ids=ascii,
)
def test_what_a_message_says_can_do_nothing_to_the_terminal(text, capsys):
    """Ids, kinds and errors are words of others."""
    say(text)

    for told in (format_value(text), capsys.readouterr().err):
        assert told.rstrip("\n").isprintable()
        assert "\\" in told


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_stream_takes_every_text(encoding):
    """A terminal's encoding may lack a letter, and none has half of a surrogate pair."""
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding=encoding)
    printing.escape_unwritable(stream)

    stream.write("漢 \ud800")
    stream.flush()

    assert written.getvalue().endswith(b" \\ud800")


def test_lines_tabs_and_spaces_of_a_body_stay():
    """They are how people write."""
    text = "one\n\ttwo é 漢 3\xa0€ 4\u202f% 五\u3000六 🎉"
    assert format_value(text) == text


def test_a_text_of_a_sender_writes_no_line_of_its_own_where_each_line_is_another_matter():
    """Its kind or id would look like an event or a fault that never was."""
    kind = "order.x\n12:00:00.000  HIGH      handled        payment.made"
    fields = {"lane": "MAIN", "message_id": "7", "kind": kind, "id": "1\r\n2"}
    event = LogEvent(line=LogLine(id="1", at=1.0, text=""), name="message_handled", fields=fields)

    told = trace._line(event, event.by_message()).plain

    assert "\n" not in told
    assert r"order.x\n12:00" in told


def test_a_very_long_text_in_a_list_is_cut_and_says_so():
    """What it says in whole is shown of one alone, and to programs."""
    out = Console(file=io.StringIO(), width=80)
    out.print(layout([{"id": "a", "error": "e" * 5_000}], out))

    assert out.file.getvalue().count("e") < 500
    assert "(5000 characters)" in out.file.getvalue()


def test_a_duration_is_written_as_in_every_other_text():
    """With its unit behind a space, and two units at most."""
    assert format_value(timedelta(minutes=3, seconds=7)) == "3 min 7 s"


@pytest.mark.parametrize(("seconds", "text"), DURATIONS.items())
def test_durations_have_three_digits_or_two_units(seconds, text):
    """As on the page."""
    assert format_value(timedelta(seconds=seconds)) == text


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


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Run the command with the variables of an operator, without some of them; give status and words."""
    typed = Typed()
    monkeypatch.setitem(typed.variables, "HOME", str(tmp_path))

    def run(*arguments, without=()):
        done = typed(*arguments, without=without)
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
        return done.returncode, done.stderr

    return run


def test_missing_credentials_are_told_with_what_was_tried(told):
    """And with what to do."""
    status, talk = told("status", without=("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))

    assert (status, talk.splitlines()[0]) == (1, "error: There are no AWS credentials")
    assert "AWS_ACCESS_KEY_ID" in talk
    assert "--profile" in talk
    assert "GetParameter: NoCredentialsError: Unable to locate credentials; sign in" in talk
    assert "run the command with `lanes local run`" in talk


def test_a_missing_region_is_told_with_what_was_tried(told):
    """And with what to do."""
    status, talk = told("status", without=("AWS_REGION", "AWS_DEFAULT_REGION"))

    assert status == 1
    assert "no AWS region is known" in talk
    assert "AWS_DEFAULT_REGION" in talk
    assert "--region" in talk


def test_an_endpoint_that_is_down_is_told_with_its_address(told):
    """And with what to look at."""
    status, talk = told("status")

    assert (status, talk.splitlines()[0]) == (1, "error: AWS can't be reached")
    assert NOWHERE in talk
    assert "--endpoint" in talk


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--endpoint", "nowhere"), "an address such as http://"),
        (("--region", "eu central"), "'eu central' is not an AWS region. Use one such as eu-central-1"),
        (("--profile", "nobody"), "There is no such profile"),
    ],
)
def test_options_that_lead_nowhere_are_told_in_words(told, arguments, words):
    """No traceback of the SDK."""
    status, talk = told(*arguments, "status")

    assert status == 1
    assert words in talk


BLOCKED = "import sys; sys.modules[{name!r}] = None; import lanes.__main__ as command; command.main()"


@pytest.mark.parametrize("name", ["typer", "rich"])
def test_a_package_that_is_missing_is_named_with_what_to_install(name):
    """One line, no traceback."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED.format(name=name), "status"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr == f"error: {name} is not installed: {install_hint('cli')}\n"


def test_an_interrupt_while_it_is_loaded_ends_it_without_a_traceback():
    """As an interrupt ends it at any later moment."""
    code = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'lanes.cli.main':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from lanes.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (130, "")
