"""The lines that the consumer writes itself are those that Powertools would have written."""

import io
import json
import logging
import logging.config
import sys
import uuid

import pytest
from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

from lanes.aws.telemetry import LogLines
from lanes.cli.relay import ConsoleTelemetry
from lanes.outbox.telemetry import RelayMetric

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
def service():
    """Return a name of its own: Powertools' loggers of one name share where they print to."""
    return f"orders-{uuid.uuid4().hex}"


@pytest.fixture
def stream():
    """Return the stream of our lines."""
    return io.BytesIO()


@pytest.fixture
def lines(service, stream):
    """Return the writer of our lines."""
    return LogLines({"POWERTOOLS_SERVICE_NAME": service}, stream=stream)


@pytest.fixture
def written(stream):
    """Return our lines so far."""
    return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.fixture(params=["", "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8"])
def _trace(request, monkeypatch):
    """Run without a trace of X-Ray, and with one."""
    monkeypatch.setenv("_X_AMZN_TRACE_ID", request.param)


@pytest.mark.usefixtures("_trace")
def test_an_event_has_the_keys_of_powertools_line_in_their_order(service, lines, written, capsys):
    """Values too, but for the time; and the time has the same form."""
    logger = Logger(service=service, child=False, location=None, level="INFO")
    logger.set_correlation_id("request-7")
    lines.begin("request-7")

    lines.event("message_handled", FIELDS)
    logger.info("message_handled", event="message_handled", **FIELDS)

    (ours,), theirs = written(), json.loads(capsys.readouterr().out)
    assert list(ours) == list(theirs)
    mask = str.maketrans("0123456789", "9" * 10)
    assert ours.pop("timestamp").translate(mask) == theirs.pop("timestamp").translate(mask)
    assert ours == theirs


def test_a_problem_has_the_keys_of_powertools_line_too(service, lines, written, capsys):
    """But for the traceback's second form."""
    logger = Logger(service=service, child=False, location=None, level="INFO")
    try:
        int("no")
    except ValueError:
        lines.problem("handler_failed", FIELDS)
        logger.warning("handler_failed", event="handler_failed", exc_info=True, **FIELDS)

    (ours,), theirs = written(), json.loads(capsys.readouterr().out)
    del theirs["stack_trace"], theirs["timestamp"], ours["timestamp"]
    assert list(ours) == list(theirs)
    assert ours == theirs


@pytest.mark.parametrize("variable", ["POWERTOOLS_LOG_LEVEL", "LOG_LEVEL", "AWS_LAMBDA_LOG_LEVEL"])
@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["message_handled", "wake_failed", "batch_interrupted"]),
        ("nonsense", ["message_handled", "wake_failed", "batch_interrupted"]),
        ("WARNING", ["wake_failed", "batch_interrupted"]),
        ("ERROR", ["batch_interrupted"]),
        ("CRITICAL", ["batch_interrupted"]),
    ],
)
def test_the_functions_setting_decides_the_level(stream, written, variable, level, expected):
    """Only the event that an alarm counts is written at every level."""
    lines = LogLines({variable: level}, stream=stream)

    lines.event("message_handled", {})
    lines.problem("wake_failed", {})
    lines.problem("batch_interrupted", {})

    assert [line["event"] for line in written()] == expected


def _own_logger(service):
    Logger(service=service, level="CRITICAL")


def _own_level(service):
    Logger(service=service).setLevel("ERROR")


def _disabled(service):
    logging.disable(logging.CRITICAL)


def _configured(service):
    logging.config.dictConfig({"version": 1, "root": {"level": "CRITICAL"}})


@pytest.mark.parametrize("sets", [_own_logger, _own_level, _disabled, _configured])
@pytest.mark.parametrize("is_before", [True, False])
def test_nothing_that_your_code_sets_hides_a_line(service, stream, written, sets, is_before):
    """Our lines share no logger, level or stream with it."""
    level = logging.getLogger().level
    try:
        if is_before:
            sets(service)
        lines = LogLines({"POWERTOOLS_SERVICE_NAME": service}, stream=stream)
        sets(service)
        lines.event("message_handled", {})
        lines.problem("batch_interrupted", {})
    finally:
        logging.disable(logging.NOTSET)
        logging.getLogger().setLevel(level)
        for logger in list(logging.Logger.manager.loggerDict.values()):
            if isinstance(logger, logging.Logger):
                logger.disabled = False

    assert [line["event"] for line in written()] == ["message_handled", "batch_interrupted"]


def test_lines_go_to_the_standard_output_of_the_process(capfd, monkeypatch):
    """Whatever your code puts in the place of `sys.stdout`."""
    monkeypatch.setattr("sys.stdout", io.StringIO())

    LogLines({}).event("message_handled", {"lane": "HIGH"})

    assert json.loads(capfd.readouterr().out)["lane"] == "HIGH"


class Recursive:
    def __repr__(self):
        return repr([self])


class Exit:
    def __repr__(self):
        raise SystemExit(2)


def fail(value):
    raise ValueError(value)


@pytest.mark.parametrize("value", [Recursive(), Exit()], ids=["recursive", "exit"])
def test_what_has_no_text_hides_nothing_else(lines, written, value):
    """Neither as a field nor in the traceback."""
    cycle = {}
    cycle["self"] = cycle
    try:
        fail(value)
    except ValueError:
        lines.problem("handler_failed", {"lane": "HIGH", "value": value, "of": cycle, "message_id": "m"})

    (line,) = written()
    assert (line["lane"], line["message_id"], line["exception_name"]) == ("HIGH", "m", "ValueError")


def test_half_a_surrogate_pair_can_be_written(lines, written):
    """JSON can carry it in an id, so a log line has to."""
    lines.event("message_handled", {"id": "\ud800 ü"})

    assert written()[0]["id"] == "\ud800 ü"


def test_every_text_and_number_is_read_as_it_was(lines, written):
    """Whatever a sender put into an id, in the form of JSON."""
    fields = {
        "id": 'a "b" \\ \n\t\x00\x7f ü 𝄞',
        "kind": "",
        "ok": True,
        "n": -7,
        "at": 1.5e-9,
        "of": {"x": [None]},
    }

    lines.event("message_handled", fields)

    (line,) = written()
    assert {key: line[key] for key in fields} == fields


def test_durations_are_told_to_the_microsecond(lines, written):
    """Which is what the clock tells; a wait may be less than nothing where two clocks differ."""
    lines.figures("PriorityLanes", "HIGH", {}, {"WaitTime": [0.00023841, 28123.59571, -1.5, 3]})

    assert written()[0]["WaitTime"] == [0.0, 28123.596, -1.5, 3.0]


def test_figures_are_the_object_of_powertools_metrics(service, lines, written):
    """Key by key, but for the time."""
    provider = AmazonCloudWatchEMFProvider(namespace="PriorityLanes", service=service)
    provider.clear_metrics()
    provider.add_dimension(name="lane", value="HIGH")
    provider.add_metric(name="HandledMessages", unit=MetricUnit.Count, value=3)
    for value in (12.5, 7):
        provider.add_metric(name="WaitTime", unit=MetricUnit.Milliseconds, value=value)
    theirs = json.loads(json.dumps(provider.serialize_metric_set()))
    provider.clear_metrics()

    lines.figures("PriorityLanes", "HIGH", {"HandledMessages": 3}, {"WaitTime": [12.5, 7]})

    (ours,) = written()
    assert abs(ours["_aws"].pop("Timestamp") - theirs["_aws"].pop("Timestamp")) < 60_000
    assert ours == theirs


class ClosedPipe(io.RawIOBase):
    """A stream that nobody reads any more."""

    def write(self, _text):
        raise BrokenPipeError


def test_a_closed_pipe_ends_nothing(monkeypatch):
    """Neither the function, a relay nor `lanes work` depends on its log."""
    LogLines({}, stream=ClosedPipe()).event("slot_started", {"slot": 1})

    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(ClosedPipe(), write_through=True))
    ConsoleTelemetry().count(RelayMetric.PUBLISHED, 2)
