"""The lines that the consumer writes itself are those that Powertools would have written."""

import json
import uuid

import pytest
from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

from lanes.aws.telemetry.log_line import LogLines

FIELDS = {
    "lane": "HIGH",
    "id": "größer",
    "priority": None,
    "attempt": 2,
    "sent_at": 1.25,
    "kinds": ["a"],
    "x": 1j,
}


@pytest.fixture
def new_logger(monkeypatch):
    """Return a maker of Powertools' loggers: one prints to what standard output is when it is made."""
    monkeypatch.setenv("LOG_LEVEL", "INFO")
    return lambda: Logger(service=f"orders-{uuid.uuid4().hex}", child=False, location=None)


@pytest.fixture
def printed(capsys):
    """Return the printed objects, each on a line of its own."""
    return lambda: [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("trace", ["", "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8"])
def test_an_event_has_the_keys_of_powertools_line_in_their_order(new_logger, printed, monkeypatch, trace):
    """Values too, but for the time; and the time has the same form."""
    monkeypatch.setenv("_X_AMZN_TRACE_ID", trace)
    logger = new_logger()
    lines = LogLines(logger)
    logger.set_correlation_id("request-7")
    lines.begin("request-7")

    lines.event("message_handled", FIELDS)
    logger.info("message_handled", event="message_handled", **FIELDS)

    ours, theirs = printed()
    assert list(ours) == list(theirs)
    mask = str.maketrans("0123456789", "9" * 10)
    assert ours.pop("timestamp").translate(mask) == theirs.pop("timestamp").translate(mask)
    assert ours == theirs


def test_the_level_of_the_logger_decides(new_logger, printed):
    """Who asks for warnings only gets no events."""
    logger = new_logger()
    lines = LogLines(logger)
    logger.setLevel("WARNING")

    lines.event("message_handled", {})

    assert printed() == []


def test_half_a_surrogate_pair_can_be_written(new_logger, printed):
    """JSON can carry it in an id, so a log line has to."""
    LogLines(new_logger()).event("message_handled", {"id": "\ud800 ü"})

    assert printed()[0]["id"] == "\ud800 ü"


def test_every_text_and_number_is_read_as_it_was(new_logger, printed):
    """Whatever a sender put into an id, in the form of JSON."""
    fields = {
        "id": 'a "b" \\ \n\t\x00\x7f ü 𝄞',
        "kind": "",
        "ok": True,
        "n": -7,
        "at": 1.5e-9,
        "of": {"x": [None]},
    }

    LogLines(new_logger()).event("message_handled", fields)

    (line,) = printed()
    assert {key: line[key] for key in fields} == fields


def test_durations_are_told_to_the_microsecond(new_logger, printed):
    """Which is what the clock tells; a wait may be less than nothing where two clocks differ."""
    LogLines(new_logger()).figures(
        "PriorityLanes", "HIGH", {}, {"WaitTime": [0.00023841, 28123.59571, -1.5, 3]}
    )

    assert printed()[0]["WaitTime"] == [0.0, 28123.596, -1.5, 3.0]


def test_figures_are_the_object_of_powertools_metrics(new_logger, printed):
    """Key by key, but for the time."""
    logger = new_logger()
    provider = AmazonCloudWatchEMFProvider(namespace="PriorityLanes", service=logger.service)
    provider.clear_metrics()
    provider.add_dimension(name="lane", value="HIGH")
    provider.add_metric(name="HandledMessages", unit=MetricUnit.Count, value=3)
    for value in (12.5, 7):
        provider.add_metric(name="WaitTime", unit=MetricUnit.Milliseconds, value=value)
    theirs = json.loads(json.dumps(provider.serialize_metric_set()))
    provider.clear_metrics()

    LogLines(logger).figures("PriorityLanes", "HIGH", {"HandledMessages": 3}, {"WaitTime": [12.5, 7]})

    (ours,) = printed()
    assert abs(ours["_aws"].pop("Timestamp") - theirs["_aws"].pop("Timestamp")) < 60_000
    assert ours == theirs
