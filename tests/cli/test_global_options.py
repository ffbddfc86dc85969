"""Options before and after the verb, and what a shell completes."""

import json
import re
import shlex

import pytest

import lanes
from lanes.cli import arguments
from lanes.cli.arguments import kinds_here
from lanes.cli.bulk import job_arguments
from lanes.cli.main import EXAMPLES, FIRST, options_first
from tests.support.command import COMMAND, Typed


def verbs(command=COMMAND, path=()):
    """Give each verb by its words."""
    for name, verb in command.commands.items():
        if hasattr(verb, "commands"):
            yield from verbs(verb, (*path, name))
        else:
            yield " ".join((*path, name)), verb


def test_the_version_needs_no_verb(typed):
    """As people ask every command for it."""
    done = typed("--version")

    assert (done.returncode, done.stdout) == (0, f"lanes {lanes.__version__}\n")


def test_a_global_option_may_come_after_the_verb(typed):
    """Where everybody types it first."""
    before = typed("--output", "json", "--stage", "demo", "config", "show")
    after = typed("config", "show", "--output", "json", "--stage=demo", "--file", "lanes.toml")

    assert json.loads(after.stdout) == json.loads(before.stdout)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("dead-letters list MAIN --limit many", "'--limit': 'many': Input should be a valid integer"),
        (
            "simulate --slots 0",
            "--slots: 1 problem - consumer: reserved_concurrency is 0; must be at least 1",
        ),
        ("dead-letters redrive MAIN --rate inf", "'inf' is not a rate; give a number from 0 to 1,000,000"),
        ("dead-letters redrive MAIN --rate nan", "'nan' is not a rate; give a number from 0 to 1,000,000"),
        ("dead-letters redrive MAIN --rate -1", "'-1' is not a rate; give a number from 0 to 1,000,000"),
        ("dead-letters redrive MAIN --hide ²", "'²' is not a duration"),
        ("--output yaml status", "'--output': Value error, 'yaml' is not one of 'table', 'json'"),
    ],
)
def test_an_error_of_an_option_names_its_value(typed, words, named):
    """Once, with what is allowed."""
    done = typed(*words.split())

    assert done.returncode == 2
    assert named in " ".join(done.stderr.replace("│", "").split())


@pytest.mark.parametrize(
    ("typed_words", "parsed"),
    [
        ("status --stage prod", "--stage prod status"),
        ("--region r status --watch --stage=prod", "--region r --stage=prod status --watch"),
        ("dead-letters list MAIN --output json", "--output json dead-letters list MAIN"),
        # The value of a verb's option is no option.
        ("send a 1 --group --stage --output json", "--output json send a 1 --group --stage"),
        # Arguments that a verb passes on are not ours, nor are those behind the two dashes.
        ("bulk submit --stack Other", "bulk submit --stack Other"),
        # A command that a verb runs has an output of its own.
        ("local run lanes status --output json", "local run lanes status --output json"),
        (
            "--stage x local run --app shop lanes --output=json",
            "--stage x local run --app shop lanes --output=json",
        ),
        ("prioritize --stage prod -- --stack", "--stage prod prioritize -- --stack"),
    ],
)
def test_global_options_are_moved_before_the_verb(typed_words, parsed):
    """And nothing else is."""
    assert options_first(COMMAND, typed_words.split()) == parsed.split()


def test_a_global_option_without_its_value_is_wrong_usage(typed):
    """The verb must not become its value."""
    done = typed("config", "show", "--stage")

    assert (done.returncode, "--stage" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--stage", "", "status"], "--stage"),
        (["cancel", "--all", "--yes", "--stack", ""], "--stack"),
        (["status", "--endpoint="], "--endpoint"),
        (["outbox", "--database", "", "list"], "--database"),
        (["dead-letters", "delete", "MAIN", "--reason", "", "--yes"], "--reason"),
        (["dead-letters", "show", ""], "an argument of show"),
    ],
)
def test_an_empty_value_is_wrong_usage(typed, words, named):
    """An unset variable of a script leaves one, which would mean the default stack, or every dead letter."""
    done = typed(*words)

    assert done.returncode == 2
    assert f"{named}: it has an empty value; give one" in " ".join(done.stderr.replace("│", "").split())


def test_a_reason_may_be_empty_and_passed_on_words_too():
    """They are for people, or for another program."""
    for words in (
        ["cancel", "--why", "", "--all"],
        ["local", "run", "python", "-c", ""],
        ["send", "--", "a", ""],
    ):
        assert options_first(COMMAND, words) == words


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("dead-letters list --lane MAIN", "give it as an argument, without --lane: list LANE"),
        ("pause --lane=MAIN", "give it as an argument, without --lane: pause LANE"),
        ("dead-letters show --id order-7", "give it as an argument, without --id: show ID"),
    ],
)
def test_an_argument_that_is_given_as_an_option_is_named(typed, monkeypatch, words, advice):
    """Other verbs have it as an option."""
    monkeypatch.setitem(typed.variables, "COLUMNS", "200")
    done = typed(*words.split())

    assert (done.returncode, advice in done.stderr) == (2, True), done.stderr


def test_arguments_have_names_for_people():
    """In capitals, as in the documentation."""
    for name, verb in verbs():
        for one in verb.params:
            if one.param_type_name == "argument":
                assert re.fullmatch(r"[A-Z:]+(\.{3})?", one.metavar or ""), (name, one.metavar)


def test_each_verb_has_examples_that_it_understands():
    """With options that it has, or that every verb has."""
    known = {name: {word for one in verb.params for word in one.opts} for name, verb in verbs()}
    common = {word for one in COMMAND.params for word in one.opts}
    common |= {word for one in COMMAND.commands["outbox"].params for word in one.opts}

    assert set(EXAMPLES) == set(known)
    for name, examples in EXAMPLES.items():
        for example in examples:
            words = shlex.split(example)
            left = iter(words[1:])
            assert all(word in left for word in name.split()), example
            if name == "bulk submit":
                # The arguments are the job's.
                assert job_arguments([*left]).kind
            else:
                options = {word.partition("=")[0] for word in words if word.startswith("--") and word != "--"}
                assert options <= known[name] | common, example


def test_the_help_begins_with_the_verbs_for_every_day(typed):
    """In their order, in a panel of their own; all others are below."""
    lines = typed("--help").stdout.splitlines()

    begins = [
        number for number, line in enumerate(lines) if "Commands ─" in line or "More commands ─" in line
    ]
    verbs = [
        [line[2:].split()[0] for line in lines[at:] if line[:1] == "│" and line[2:3].isalpha()]
        for at in begins
    ]
    first, others = verbs[0][: len(verbs[0]) - len(verbs[1])], verbs[1]

    assert tuple(first) == FIRST
    assert sorted([*first, *others]) == sorted(COMMAND.commands)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("lanes t", {"trace", "tail"}),
        ("lanes tail --ev", {"--event"}),
        ("lanes dead-letters sh", {"show"}),
        ("lanes pause M", {"MEDIUM", "MAIN"}),
        ("lanes dead-letters redrive H", {"HIGH"}),
        ("lanes --stage demo-", {"demo-off", "demo-pull"}),
        ("lanes tail --kind payment.", {"payment.captured"}),
        ("lanes cancel --kind refund", {"refund.requested"}),
        ("lanes dead-letters list --kind order.p", {"order.placed"}),
        ("lanes send order.p", {"order.placed"}),
    ],
)
def test_a_shell_is_offered_verbs_options_and_names(words, offered):
    """Those that begin like the typed word: lanes and stages of the lanes.toml here, kinds of the handlers here."""
    typed = Typed()
    place = str(len(words.split()) - 1)
    typed.variables |= {"_LANES_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": place}

    done = typed()

    assert set(done.stdout.split()) == offered


def test_kinds_of_the_tables_by_kind_are_offered(tmp_path, monkeypatch):
    """A producer's folder has no handlers; a pattern is no kind."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lanes.toml").write_text(
        '[consumer.max_rates]\n"order.placed" = "1/s"\n"invoice.*" = "1/s"\n'
    )

    assert kinds_here("") == ["order.placed"]


@pytest.mark.parametrize("text", ["[consumer", "consumer = 3", "[consumer]\nmax_rates = 1"])
def test_a_broken_file_offers_nothing(tmp_path, monkeypatch, text):
    """A shell shows no errors of a completion."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lanes.toml").write_text(text)

    assert kinds_here("") == []


def test_kinds_are_searched_in_a_bounded_number_of_folders_and_in_no_virtual_environment(
    tmp_path, monkeypatch
):
    """A shell waits for the answer, also in a folder with all your data."""
    for folder in ("app", "venv/lib", "node_modules/x", ".hidden"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "handler.py").write_text(f'@consumer.handler("kind.{folder}")')
    monkeypatch.chdir(tmp_path)
    assert kinds_here("") == ["kind.app"]

    monkeypatch.setattr(arguments, "MOST_FOLDERS", 1)
    assert kinds_here("") == []
