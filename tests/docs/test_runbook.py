"""The runbook's commands exist, and its rows name every event of a failed call."""

import functools
import re
import shlex

import typer

from lanes.cli.main import app
from lanes.events import Event
from tests.docs.pages import ROOT, blocks, codes, rows, spans

RUNBOOK = ROOT / "docs" / "runbook.md"
ERRORS_OF_AWS = {
    "InvalidSignatureException",
    "SignatureDoesNotMatch",
    "AccessDenied",
    "ThrottlingException",
    "ProvisionedThroughputExceeded",
    "ResourceNotFoundException",
    "NonExistentQueue",
}
# Where alarms say the first step; a lane's name is filled in there.
RULES = [ROOT / "cdk" / "alarms" / "lanes.py", ROOT / "cdk" / "outbox.py"]


def commands_of(page):
    """Give what a page tells to type, in blocks and within the text."""
    typed = [line for block in blocks(page, "sh") for line in block.splitlines()] + list(spans(page))
    return [line for line in typed if line.startswith("lanes ")]


@functools.cache
def command():
    """Give the command with all its verbs, which takes a while to build."""
    return typer.main.get_command(app)


def check(line):
    """Follow a line through the command, and refuse verbs and options that it doesn't have."""
    found = command()
    for word in shlex.split(line.partition(" -- ")[0])[1:]:
        if word.startswith("--"):
            assert word in {name for one in found.params for name in one.opts}, f"{line}: {word}"
        elif hasattr(found, "commands"):
            assert word in found.commands, f"{line}: {word}"
            found = found.commands[word]


def test_its_commands_exist():
    """With every option that is written down."""
    for line in commands_of(RUNBOOK):
        check(line)


def test_the_first_steps_of_the_alarms_exist():
    """They stand in the alarms' descriptions, where nobody would look for mistakes before the night they ring."""
    steps = [
        step for file in RULES for step in re.findall(r"`(lanes [^`]+)`", file.read_text(encoding="utf-8"))
    ]

    assert len(steps) > 5
    for step in steps:
        check(step)


def test_the_section_on_failed_calls_has_every_event_of_one():
    """The alarm counts each, so the section has to say which call it was."""
    named = {name for row in rows(RUNBOOK, "## Call errors") for name in codes(row[0])} - ERRORS_OF_AWS

    problems = {event for event in Event if event.is_problem and not event.startswith(("entry_", "outbox_"))}
    others = {
        Event.HANDLER_FAILED,
        Event.BATCH_INTERRUPTED,
        Event.DUPLICATE_OF_OTHER_LANE,
        Event.RESOURCE_AWAY,
    }
    assert named == problems - others
