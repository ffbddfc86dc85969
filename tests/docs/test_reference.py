"""The reference and the code name the same things."""

import inspect
import json
import os
import re
from datetime import timedelta

import pytest

import cdk
from cdk.function.lambda_function import own_variables
from lanes.aws import queues
from lanes.cli.main import command as root_command
from lanes.cli.target import ExitCode
from lanes.config import ConsumerSettings, EngineName, Lane, LanesConfig, OutboxSettings, Schedule
from lanes.config.reading import ROOT_KEYS
from lanes.config.table import ConfigTable, format_duration, settings_of
from lanes.consumer.ledger import Cause
from lanes.consumer.outcome import Reason
from lanes.consumer.records import RawRecord
from lanes.consumer.settlement import DeadLetterNote
from lanes.errors import ConfigurationError
from lanes.metrics import Metric
from lanes.operate.trace import UNSEEN
from spark_jobs.columns import COLUMNS
from spark_jobs.options import READ_OPTIONS, WRITE_OPTIONS
from tests.docs.pages import ROOT, blocks, codes, rows, spans
from tests.golden.golden import RENEW
from tests.support import infrastructure

REFERENCE = ROOT / "docs" / "reference"
SETTINGS = REFERENCE / "lanes-toml.md"
TABLES = {
    "## `[consumer]`": ConsumerSettings,
    "## `[[lanes]]`": Lane,
    "## `[[schedules]]`": Schedule,
    "## `[outbox]`": OutboxSettings,
}
METRICS = REFERENCE / "metrics-and-logs.md"
COMMAND = REFERENCE / "command-line.md"
ROOT_COMMAND = root_command()
OWN = {"--help", "--install-completion", "--show-completion"}
RECORD = RawRecord.from_event(
    {
        "messageId": "m",
        "receiptHandle": "r",
        "body": "{}",
        "attributes": {"SentTimestamp": "1", "MessageGroupId": "g"},
        "messageAttributes": {
            f"a{number}": {"dataType": "String", "stringValue": "v"} for number in range(10)
        },
    }
)


def row(key, declared):
    """Write the declaration of a key as a row of its table."""
    meaning = declared.meaning + (f". Only with `{declared.needs}`" if declared.needs else "")
    return f"| `{key}` | {written(declared.default)} | {declared.within or within(declared)} | {meaning} |"


def written(value):
    """Write a default as the file would."""
    if value is ...:
        return "required"
    if value in (None, {}, ()):
        return "none"
    if isinstance(value, timedelta):
        return f'`"{format_duration(value)}"`'
    return f'`"{value}"`' if isinstance(value, str) else f"`{str(value).lower()}`"


def within(declared):
    """Write the bounds of a reader."""
    if declared.reader is ConfigTable.boolean:
        return "true, false"
    if declared.reader is ConfigTable.rate:
        return '`"1/min"` or more'
    bounds = dict(declared.bounds)
    if "allowed" in bounds:
        return ", ".join(f'`"{word}"`' for word in bounds["allowed"])
    lowest, highest = bounds.get("minimum") or 0, bounds.get("maximum")
    text = f"{limit(lowest)} or more" if highest is None else f"{limit(lowest)} to {limit(highest)}"
    return f"{text}, whole seconds" if bounds.get("whole_seconds") else text


def limit(value):
    """Write a bound."""
    return format_duration(value) if isinstance(value, timedelta) else f"{value:g}"


def check(page, tables):
    """Check the first table under each of these headings; `RENEW_GOLDEN=1` writes them."""
    kept = text = page.read_text(encoding="utf-8")
    for heading, lines in tables.items():
        head, _, rest = text.partition(f"\n{heading}\n")
        table = "".join(f"{line}\n" for line in lines)
        under = re.sub(r"(?:^\|.*\n)+", lambda _, table=table: table, rest, count=1, flags=re.MULTILINE)
        text = f"{head}\n{heading}\n{under}"
    if os.environ.get(RENEW):
        page.write_text(text, encoding="utf-8")
    else:
        assert text == kept


def test_the_tables_of_settings_are_those_of_the_declarations():
    """No key, default or bound has a second copy by hand."""
    head = ["| Key | Default | Range | Meaning |", "|---|---|---|---|"]
    tables = {
        heading: head + [row(key, declared) for key, declared in settings_of(record).items()]
        for heading, record in TABLES.items()
    }

    check(SETTINGS, tables)


def test_causes_of_receives_and_reasons_of_returns_are_those_of_the_code():
    """With the meanings that they have there."""
    names = {cause: f"{Metric.RECEIVES}{cause.title().replace('_', '')}" for cause in Cause}
    causes = [f"| `{names[cause]}` | {cause.description} |" for cause in Cause]
    reasons = [f"| `{reason}` | {reason.description} |" for reason in Reason]

    check(
        METRICS,
        {
            "## Metrics": ["| Metric | Why the record was received |", "|---|---|", *causes],
            "## Log events": ["| Reason | Meaning |", "|---|---|", *reasons],
        },
    )


def test_the_top_levels_keys_are_all_there():
    """`stage` is written by deployments only."""
    found = {codes(row[0])[0] for row in rows(SETTINGS, "## Top level")}

    assert found == set(ROOT_KEYS) - {"stage"}


def test_the_error_that_is_shown_is_the_one_that_comes():
    """The page's example is made by the code."""
    raw = {"consumer": {"max_attempt": 3}, "lanes": [{"name": "HIGH", "threshold": 50, "batch_size": 20}]}

    with pytest.raises(ConfigurationError) as caught:
        LanesConfig.from_dict(raw)

    shown = blocks(SETTINGS, "")[0].splitlines()
    assert str(caught.value).splitlines()[1:] == shown[1:]


def test_a_dead_letters_fields_are_those_of_the_code():
    """As they are sent with an original that has ten attributes."""
    note = DeadLetterNote(
        reason="r", error="e", attempts=1, yields=0, receives=1, first_received_at=1.0, dead_lettered_at=2.0
    )
    sent = queues.attributes_with(note, "MAIN", RECORD)
    documented = {name for row in rows(REFERENCE / "message.md", "## Dead letters") for name in codes(row[0])}

    assert list(sent) == [queues.NOTE_ATTRIBUTE]
    assert documented == set(json.loads(sent[queues.NOTE_ATTRIBUTE]["StringValue"]))
    assert queues.NOTE_ATTRIBUTE in spans(REFERENCE / "message.md")


def test_the_functions_variables_are_those_of_the_construct():
    """All functions get the same ones."""
    page = REFERENCE / "environment.md"
    documented = {codes(row[0])[0] for row in rows(page, "## Environment variables of the function")}
    source = inspect.getsource(own_variables).replace("deployment.VARIABLE", '"LANES_DEPLOYMENT"')

    assert documented == {
        "LANES_DEPLOYMENT",
        "POWERTOOLS_SERVICE_NAME",
        "POWERTOOLS_METRICS_NAMESPACE",
        "LOG_LEVEL",
    }
    assert all(f'"{name}"' in source or f"{name}:" in source for name in documented)


def test_alarms_are_those_of_the_stack():
    """Each has a row in the runbook that leads to its section."""
    alarms = {}
    for engine in EngineName:
        infrastructure.foreign_stack(
            LanesConfig.from_dict({"consumer": {"engine": engine, "on_exhausted": {"*": "block"}}}),
            then=lambda stack, queues, consumer: alarms.update(
                cdk.Observability(
                    stack,
                    "Observability",
                    queues=queues,
                    consumer=consumer,
                    schedules=cdk.Schedules(stack, "Schedules", queues=queues),
                ).alarms
            ),
        )
    documented = {codes(row[0])[0] for row in rows(ROOT / "docs" / "runbook.md", "## Alarms")}
    names = [lane.name for lane in LanesConfig().lanes]
    of_lanes = {one.replace("<lane>", name) for one in documented for name in names}

    # Nothing is above the highest lane, and the outbox brings its own.
    assert set(alarms) == of_lanes - {
        f"{names[0]}Starved",
        "Abandoned",
        "OldestAge",
        "Silent",
        "DeadLetters",
        "Failures",
        *(f"{name}Waits" for name in names),
    }


def test_sparks_columns_and_options_are_those_of_the_writer():
    """A column or option that nobody finds might as well not exist."""
    page = ROOT / "docs" / "how-to" / "bulk.md"
    read = rows(page, "## Your own Spark code") + rows(page, "## Read dead letters")
    documented = {name for row in read for name in codes(row[0])}

    assert documented == {*COLUMNS, *WRITE_OPTIONS, *READ_OPTIONS}


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
        rf"^## .*`lanes {verb}`.*$", COMMAND.read_text(encoding="utf-8"), maxsplit=1, flags=re.MULTILINE
    )[1]
    return re.split(r"^##? ", text, maxsplit=1, flags=re.MULTILINE)[0]


def sections():
    """Give the verbs that the pages have more to say about than `--help` does."""
    headings = re.findall(r"^## (`lanes .+)$", COMMAND.read_text(encoding="utf-8"), re.MULTILINE)
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
    tables = [row for row in rows(COMMAND, "## `lanes check`") if "--" not in row[0]]
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
    documented = [int(row[0]) for row in rows(COMMAND, "### Exit codes") if row[0].isdigit()]

    assert documented == list(ExitCode)


def test_rights_are_told_for_every_verb():
    """An operator's role can be written from the table."""
    named = {
        name
        for row in rows(COMMAND.with_name("rights.md"), "# Rights that verbs need")
        for name in codes(row[0])
    }
    named = {name.partition(" ")[0] if name.startswith("dead-letters") else name for name in named}

    assert set(ROOT_COMMAND.commands) - {"config"} <= named
