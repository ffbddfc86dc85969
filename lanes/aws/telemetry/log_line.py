"""
Write the most frequent log lines: events, and metric objects.

The lines have the keys and the order of Powertools' logger and metrics. Those take 80 microseconds a line, more than
the rest of a message's time here; these take a fifteenth of that. So a line is assembled as text; the JSON library
writes only values other than text and numbers.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
import time
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aws_lambda_powertools import Logger

TRACE = "_X_AMZN_TRACE_ID"

_encode = json.JSONEncoder(default=str, ensure_ascii=False, separators=(",", ":")).encode
_FORMS: dict[type, Callable[[Any], str]] = {str: encode_basestring, int: repr, float: repr}


class LogLines:
    """
    Writes lines of JSON to standard output.

    Args:
        logger: has the level, service and form of the lines.

    """

    def __init__(self, logger: Logger) -> None:
        self._level = logging.getLogger(logger.name)
        self._service = _encode(logger.service)
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
        """Write an event if the logger's level allows it, without fields that are None."""
        if not self._level.isEnabledFor(logging.INFO):
            return
        word, at = encode_basestring(name), self._timestamp(time.time())
        members = f'{self._before},"event":{word}{_members(fields)}{self._after}'
        _write(f'{{"level":"INFO","message":{word},"timestamp":"{at}",{members}}}\n')

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
        _write(f'{{"_aws":{meaning},"lane":{_encode(lane)},"service":{self._service},{",".join(values)}}}\n')

    def _timestamp(self, now: float) -> str:
        second = int(now)
        if second != self._second:
            local = time.localtime(second)
            self._second = second
            self._stamp = time.strftime("%Y-%m-%d %H:%M:%S", local), time.strftime("%z", local)
        date, zone = self._stamp
        return f"{date},{int((now - second) * 1000):03d}{zone}"


def _members(fields: Mapping[str, Any]) -> str:
    """Return members of a JSON object, a comma before each; keys are Python names and need no escape."""
    return "".join(
        [
            f',"{key}":{_FORMS.get(value.__class__, _encode)(value)}'
            for key, value in fields.items()
            if value is not None
        ]
    )


def _thousandths(values: Sequence[float]) -> str:
    """Return the numbers of a JSON array; three digits take a third of the time of all, and the clock has no more."""
    return ",".join(["%.3f"] * len(values)) % tuple(values)


@functools.lru_cache(maxsize=64)
def _directive(namespace: str, counts: Sequence[str], durations: Sequence[str]) -> str:
    """Return the directive that names the metrics for CloudWatch; most invocations have the same."""
    metrics = [{"Name": name, "Unit": "Count"} for name in counts]
    metrics += [{"Name": name, "Unit": "Milliseconds"} for name in durations]
    return _encode([{"Namespace": namespace, "Dimensions": [["lane", "service"]], "Metrics": metrics}])


def _write(line: str) -> None:
    # One write for text and line end, so that the lines of threads never mix. Lambda reads standard output.
    try:
        sys.stdout.write(line)
    except UnicodeEncodeError:
        # Half of a surrogate pair, which JSON can have in an id and UTF-8 can't.
        sys.stdout.write(json.dumps(json.loads(line)) + "\n")
