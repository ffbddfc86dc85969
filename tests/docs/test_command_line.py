"""The reference of the command names verbs, options and codes that the command has."""

import re

import pytest

from lanes.cli.main import command
from lanes.cli.target import ExitCode
from lanes.operate.trace import UNSEEN
from tests.docs.pages import ROOT, codes, rows

PAGE = ROOT / "docs" / "reference" / "command-line.md"
ROOT_COMMAND = command()
OWN = {"--help", "--install-completion", "--show-completion"}


def options_of(command):
    """Give the long names of a command's options."""
    return {
        name
        for parameter in command.params
        for name in parameter.opts
        if name.startswith("--") and name not in OWN
    }


def section(verb):
    """Give the text about a verb."""
    text = re.split(
        rf"^## .*`lanes {verb}`.*$", PAGE.read_text(encoding="utf-8"), maxsplit=1, flags=re.MULTILINE
    )[1]
    return re.split(r"^##? ", text, maxsplit=1, flags=re.MULTILINE)[0]


def sections():
    """Give the verbs that the pages have more to say about than `--help` does."""
    headings = re.findall(r"^## (`lanes .+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [verb for heading in headings for verb in re.findall(r"`lanes ([a-z-]+)`", heading)]


def test_every_section_is_about_a_verb_that_exists():
    """And no verb has two."""
    assert set(sections()) <= set(ROOT_COMMAND.commands)
    assert len(sections()) == len(set(sections()))


def literals(path, pattern):
    """Give the codes that a module names."""
    return set(re.findall(pattern, (ROOT / "lanes" / "operate" / path).read_text(encoding="utf-8")))


def test_every_code_of_a_finding_is_documented():
    """As programs decide by them; a finding without a code can't be made."""
    made = literals("check_rules.py", r'Problem\(\s*"([^"]+)"')
    made |= literals(
        "check.py", r'(?:code = |else |(?:Problem|\.wrong|\.note)\(\s*|_add\(Verdict\.OK, )"([a-z_]+)"'
    )
    tables = [row for row in rows(PAGE, "## `lanes check`") if "--" not in row[0]]
    documented = {code for row in tables for code in codes(row[1])}

    assert made | {"not_allowed"} == documented
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in documented)


def test_every_code_of_a_step_without_an_event_is_documented():
    """Those of events are the names of events, which have a page of their own."""
    steps = literals("trace.py", r'code="([^"]+)"')
    steps |= {code for code, _, _ in UNSEEN.values()} | {"not_seen", "crash_suspected"}

    assert steps <= set(codes(section("trace")))


def test_every_code_of_a_status_is_documented():
    """Of a traced message, and of the reason of a dead letter."""
    statuses = literals("trace.py", r'MessageStatus\(\s*"([^"]+)"')
    reasons = literals("dead_letters.py", r'(?:return|else) "([a-z_]+)"')

    assert statuses | {"started"} <= set(codes(section("trace")))
    assert len(reasons) == 4
    assert reasons <= set(codes(section("dead-letters")))


@pytest.mark.parametrize("verb", sections())
def test_the_options_in_a_verbs_section_exist(verb):
    """In the verb, in one of its group, or before the verb."""
    command = ROOT_COMMAND.commands[verb]
    known = options_of(command).union(*map(options_of, getattr(command, "commands", {}).values()))

    assert set(re.findall(r"`(--[a-z-]+)", section(verb))) <= known | options_of(ROOT_COMMAND)


def test_the_exit_codes_are_those_of_the_command():
    """A script can rely on the table."""
    documented = [int(row[0]) for row in rows(PAGE, "### Exit codes") if row[0].isdigit()]

    assert documented == list(ExitCode)


def test_rights_are_told_for_every_verb():
    """An operator's role can be written from the table."""
    named = {
        name
        for row in rows(PAGE.with_name("rights.md"), "# Rights that verbs need")
        for name in codes(row[0])
    }
    named = {name.partition(" ")[0] if name.startswith("dead-letters") else name for name in named}

    assert set(ROOT_COMMAND.commands) - {"config"} <= named
