"""The reference and the code name the same things."""

import inspect
import json
from datetime import timedelta

import pytest

import cdk
from cdk.function.lambda_function import own_variables
from lanes.aws.queues import lane_queue
from lanes.config import ConsumerSettings, EngineName, LanesConfig, OutboxSettings
from lanes.config.file import ROOT_KEYS
from lanes.config.settings import CONSUMER_KEYS, LANE_KEYS, OUTBOX_KEYS
from lanes.config.table import format_duration
from lanes.consumer.ledger import Cause, Entry, Park
from lanes.consumer.outcome import Reason
from lanes.consumer.records import RawRecord
from lanes.consumer.settlement import DeadLetterNote
from lanes.errors import ConfigurationError
from lanes.metrics import Metric
from spark_jobs.columns import COLUMNS
from spark_jobs.options import READ_OPTIONS, WRITE_OPTIONS
from tests.docs.pages import ROOT, blocks, codes, rows, spans
from tests.support import infrastructure

REFERENCE = ROOT / "docs" / "reference"
SETTINGS = REFERENCE / "lanes-toml.md"
METRICS = REFERENCE / "metrics-and-logs.md"
CONSTRUCTS = REFERENCE / "cdk-constructs.md"
ENTRY = Entry(
    lane="MAIN",
    message_id="m",
    park=Park.YIELD,
    receipt_handle="r",
    last_error="e",
    given_up="g",
    unknown_since=1.0,
    away_since=1.0,
)
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


def settings_in(heading):
    """Give the defaults under a heading, by key."""
    return {codes(row[0])[0]: (codes(row[1]) or [row[1]])[0] for row in rows(SETTINGS, heading)}


def written(value):
    """Give a default the way the page writes it."""
    if isinstance(value, timedelta):
        return f'"{format_duration(value)}"'
    if isinstance(value, str):
        return f'"{value}"'
    return "none" if value in (None, {}, ()) else str(value).lower()


def test_the_consumers_settings_are_all_there_with_their_defaults():
    """Neither a key nor a default may be missing or wrong."""
    usual = ConsumerSettings()

    assert settings_in("## `[consumer]`") == {key: written(getattr(usual, key)) for key in CONSUMER_KEYS}


def test_the_outboxs_settings_are_all_there_with_their_defaults():
    """Neither a key nor a default may be missing or wrong."""
    usual = OutboxSettings()

    assert settings_in("## `[outbox]`") == {key: written(getattr(usual, key)) for key in OUTBOX_KEYS}


def test_the_lanes_settings_are_all_there_with_their_defaults():
    """Those of the last lane, which alone goes without a threshold."""
    usual = LanesConfig.from_dict({}).last_lane
    expected = {key: written(getattr(usual, key)) for key in LANE_KEYS} | {"name": "required"}

    assert settings_in("## `[[lanes]]`") == expected


def test_the_top_levels_keys_are_all_there():
    """`stage` is written by deployments only."""
    assert set(settings_in("## Top level")) == set(ROOT_KEYS) - {"stage"}


@pytest.mark.parametrize("heading", ["## `[consumer]`", "## `[[lanes]]`", "## `[outbox]`"])
def test_ranges_end_where_the_page_says(heading):
    """One beyond a bound that is written as a number or duration is refused."""
    place = codes(heading)[0].strip("[]")
    for row in rows(SETTINGS, heading):
        key, bounds = codes(row[0])[0], row[2].split(",")[0].split(" to ")
        for bound, step in zip(bounds, (-1, 1), strict=False):
            wrong = beyond(bound.removesuffix(" or more"), step)
            if wrong is None:
                continue
            raw = {"lanes": [{"name": "MAIN", key: wrong}]} if place == "lanes" else {place: {key: wrong}}
            with pytest.raises(ConfigurationError, match=key):
                LanesConfig.from_dict(raw)


def beyond(bound, step):
    """Give a value just outside of a bound, None where the bound is no number."""
    seconds = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(bound[-1:])
    if seconds and bound[:-1].isdecimal():
        return int(bound[:-1]) * seconds + step
    if bound.isdecimal():
        return int(bound) + step
    return float(bound) + step if bound.replace(".", "").isdecimal() else None


def test_the_error_that_is_shown_is_the_one_that_comes():
    """The page's example is made by the code."""
    raw = {"consumer": {"max_attempt": 3}, "lanes": [{"name": "HIGH", "threshold": 50, "batch_size": 20}]}

    with pytest.raises(ConfigurationError) as caught:
        LanesConfig.from_dict(raw)

    shown = blocks(SETTINGS, "")[0].splitlines()
    assert str(caught.value).splitlines()[1:] == shown[1:]


def test_metrics_of_receives_are_those_of_their_causes():
    """One for each."""
    documented = [codes(row[0])[0] for row in rows(METRICS, "## Metrics")]

    assert sorted(documented) == sorted(
        f"{Metric.RECEIVES}{cause.title().replace('_', '')}" for cause in Cause
    )


def test_reasons_of_returned_batches_are_those_of_the_code():
    """Each with its meaning."""
    assert sorted(codes(row[0])[0] for row in rows(METRICS, "## Log events")) == sorted(Reason)


def test_a_dead_letters_fields_are_those_of_the_code():
    """As they are sent with an original that has ten attributes."""
    note = DeadLetterNote(
        reason="r", error="e", attempts=1, yields=0, receives=1, first_received_at=1.0, dead_lettered_at=2.0
    )
    sent = lane_queue.attributes_with(note, "MAIN", RECORD)
    documented = {name for row in rows(REFERENCE / "message.md", "## Dead letters") for name in codes(row[0])}

    assert list(sent) == [lane_queue.NOTE_ATTRIBUTE]
    assert documented == set(json.loads(sent[lane_queue.NOTE_ATTRIBUTE]["StringValue"]))
    assert lane_queue.NOTE_ATTRIBUTE in spans(REFERENCE / "message.md")


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
    """Each has a row in the runbook that leads to its page."""
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
    documented = {codes(row[0])[0] for row in rows(ROOT / "docs" / "runbook" / "README.md", "# Runbook")}
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
    page = ROOT / "docs" / "how-to" / "bulk-from-spark.md"
    documented = {name for row in rows(page, "# Enqueue bulk work from Spark") for name in codes(row[0])}

    assert documented == {*COLUMNS, *WRITE_OPTIONS, *READ_OPTIONS}
