"""Telemetry: JSON lines for the log in Powertools' form, and metrics in CloudWatch's embedded metric format."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import sys
import time
import traceback
from collections import defaultdict
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, BinaryIO

from lanes.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.metrics import Metric

TRACE = "_X_AMZN_TRACE_ID"
SERVICE = "POWERTOOLS_SERVICE_NAME"
LEVELS = ("POWERTOOLS_LOG_LEVEL", "LOG_LEVEL", "AWS_LAMBDA_LOG_LEVEL")
"""AWS: the last one is set by the function's log format JSON (Lambda developer guide, "Log-level filtering")."""


def _text(value: object) -> str:
    try:
        return str(value)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - a value of user code
        return f"a {type(value).__name__} without text"


_KEEPS_ON = contextlib.suppress(OSError)
_encode = json.JSONEncoder(default=_text, ensure_ascii=False, separators=(",", ":")).encode
_NAMES = {logging.INFO: "INFO", logging.WARNING: "WARNING", logging.ERROR: "ERROR"}
_FORMS: dict[type, Callable[[Any], str]] = {str: encode_basestring, int: repr, float: repr}


class LogLines:
    """
    Writes lines of JSON.

    Args:
        environ: the function's variables: the service, and the level.
        stream: takes the lines; by default the standard output that the process began with.

    Attributes:
        service: name of the service, on every line.
    """

    def __init__(self, environ: Mapping[str, str], *, stream: BinaryIO | None = None) -> None:
        self._stream = stream or _standard_output()
        level = next((environ[name] for name in LEVELS if environ.get(name)), "INFO").upper()
        self._level = logging.getLevelNamesMapping().get(level, logging.INFO)
        self.service = environ.get(SERVICE) or "service_undefined"
        self._service = _encode(self.service)
        self._before = self._after = ""
        self._second = 0
        self._stamp = ("", "")
        self.begin(None)

    def begin(self, request: str | None) -> None:
        """Add a request's id, and its X-Ray trace if it has one, to every line from now on."""
        trace = os.environ.get(TRACE)
        self._before = f'"service":{self._service}{_members({"correlation_id": request})}'
        self._after = _members({"xray_trace_id": trace.split(";")[0].replace("Root=", "")}) if trace else ""

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        """Write an event, without fields that are None."""
        self._line(logging.INFO, name, fields)

    def problem(self, name: str, fields: Mapping[str, Any]) -> None:
        """Write a problem with the traceback of the exception that is being handled, if there is one."""
        self.problem_of(sys.exception(), name, fields)

    def problem_of(self, error: BaseException | None, name: str, fields: Mapping[str, Any]) -> None:
        """Write a problem with the traceback of an exception, or without one."""
        # An alarm counts the one, the other is lost until you act: they are written at every level.
        is_error = name in (Event.BATCH_INTERRUPTED, Event.ENTRY_ABANDONED)
        self._line(logging.ERROR if is_error else logging.WARNING, name, {**fields, **_traced(error)})

    def _line(self, level: int, name: str, fields: Mapping[str, Any]) -> None:
        if level < min(self._level, logging.ERROR):
            return
        word, at = encode_basestring(name), self._timestamp(time.time())
        members = f'{self._before},"event":{word}{_members(fields)}{self._after}'
        self.write(f'{{"level":"{_NAMES[level]}","message":{word},"timestamp":"{at}",{members}}}\n')

    def figures(
        self, namespace: str, lane: str, counts: Mapping[str, float], durations: Mapping[str, Sequence[float]]
    ) -> None:
        """
        Write one metric object; durations are in milliseconds, to the thousandth.

        AWS: CloudWatch reads the metrics that `_aws` names (CloudWatch, "Specification: Embedded metric format").
        """
        directive = _directive(namespace, tuple(counts), tuple(durations))
        values = [f'"{name}":[{float(value)!r}]' for name, value in counts.items()]
        values += [f'"{name}":[{_thousandths(values)}]' for name, values in durations.items()]
        meaning = f'{{"Timestamp":{int(time.time() * 1000)},"CloudWatchMetrics":{directive}}}'
        self.write(
            f'{{"_aws":{meaning},"lane":{_encode(lane)},"service":{self._service},{",".join(values)}}}\n'
        )

    def write(self, line: str) -> None:
        """Write a line as it is, if the stream takes it."""
        # One write for text and line end, so that the lines of threads never mix. Half of a surrogate pair, which JSON
        # can have in an id and UTF-8 can't, is written as JSON escapes it. A closed pipe or full disk ends neither the
        # relay nor `lanes work`.
        with _KEEPS_ON:
            self._stream.write(line.encode("utf-8", "backslashreplace"))
            self._stream.flush()

    def _timestamp(self, now: float) -> str:
        second = int(now)
        if second != self._second:
            local = time.localtime(second)
            self._second = second
            self._stamp = time.strftime("%Y-%m-%d %H:%M:%S", local), time.strftime("%z", local)
        date, zone = self._stamp
        return f"{date},{int((now - second) * 1000):03d}{zone}"


def _standard_output() -> BinaryIO:
    """Open a stream to where Lambda reads: your code may put another in the place of `sys.stdout`."""
    # None if the process has none, and then its descriptor may be a connection.
    output: str | int = os.devnull if sys.__stdout__ is None else sys.__stdout__.fileno()
    return open(output, "wb", closefd=isinstance(output, str))


def _traced(error: BaseException | None) -> dict[str, str]:
    if error is None:
        return {}
    name = type(error).__name__
    try:
        text = "".join(traceback.format_exception(error)).strip()
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - an exception of user code may have arguments that can't be printed
        text = f"a {name} without text"
    return {"exception": text, "exception_name": name}


def _members(fields: Mapping[str, Any]) -> str:
    """Return members of a JSON object, a comma before each; keys are Python names and need no escape."""
    present = [(key, value) for key, value in fields.items() if value is not None]
    try:
        return "".join([f',"{key}":{_FORMS.get(value.__class__, _encode)(value)}' for key, value in present])
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - a value that JSON can't hold must not hide the others
        return "".join([f',"{key}":{encode_basestring(_text(value))}' for key, value in present])


def _thousandths(values: Sequence[float]) -> str:
    """Return the numbers of a JSON array; three digits take a third of the time of all, and the clock has no more."""
    return ",".join(["%.3f"] * len(values)) % tuple(values)


@functools.lru_cache(maxsize=64)
def _directive(namespace: str, counts: Sequence[str], durations: Sequence[str]) -> str:
    """Return the directive that names the metrics for CloudWatch; most invocations have the same."""
    metrics = [{"Name": name, "Unit": "Count"} for name in counts]
    metrics += [{"Name": name, "Unit": "Milliseconds"} for name in durations]
    return _encode([{"Namespace": namespace, "Dimensions": [["lane", "service"]], "Metrics": metrics}])


NAMESPACE = "PriorityLanes"
# AWS: one embedded metric object holds at most 100 values of a metric (CloudWatch embedded metric format). Powertools
# (in the relay's telemetry) prints and clears its object on reaching them, and refuses the empty one that is left.
MOST_VALUES = 99


class PowertoolsTelemetry:
    """
    Reports events as structured log lines, and figures as one metric object an invocation, or more if it is long.

    Both go to standard output, where Lambda picks them up: no call is made. The dimension is `lane`.

    Args:
        environ: the function's variables: service name and log level are those of Powertools.
        stream: takes the lines in place of standard output.
    """

    def __init__(self, *, environ: Mapping[str, str], stream: BinaryIO | None = None) -> None:
        self._lines = LogLines(environ, stream=stream)
        self._namespace = environ.get("POWERTOOLS_METRICS_NAMESPACE") or NAMESPACE
        self._counts: dict[str, float] = defaultdict(float)
        self._durations: dict[str, list[float]] = defaultdict(list)
        self._lane = ""

    def begin(self, lane: str, context: Any) -> None:
        """Start an invocation: its request id is on every line."""
        self._lane = lane
        self._counts.clear()
        self._durations.clear()
        self._lines.begin(getattr(context, "aws_request_id", None))

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        """Log something that happened."""
        self._lines.event(name, fields)

    def problem(self, name: str, /, **fields: Any) -> None:
        """Log something that went wrong, with the traceback of the exception being handled unless it only repeats."""
        self._lines.problem_of(None if "failures" in fields else sys.exception(), name, fields)

    def count(self, metric: Metric | str, value: float = 1) -> None:
        """Add to a count."""
        self._counts[metric] += value

    def milliseconds(self, metric: Metric, value: float) -> None:
        """Add a duration; a full metric object is written first."""
        if len(self._durations[metric]) == MOST_VALUES:
            self.end()
        self._durations[metric].append(value)

    def end(self) -> None:
        """Write the figures since the last ones."""
        if not self._counts and not self._durations:
            return
        self._lines.figures(self._namespace, self._lane, self._counts, self._durations)
        self._counts.clear()
        self._durations.clear()
