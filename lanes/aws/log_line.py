"""
The two lines that every invocation prints by the dozen: an event, and the figures.

Both look as Powertools' logger and metrics would print them, key by key; but those take 80 microseconds for a line,
more than all the rest that a message costs here, and these take a tenth of that.
"""

from __future__ import annotations

import json
import logging
import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aws_lambda_powertools import Logger

TRACE = "_X_AMZN_TRACE_ID"


class LogLines:
    """
    Writes lines of JSON to standard output.

    Args:
        logger: whose level, service and form the lines have.

    """

    def __init__(self, logger: Logger) -> None:
        self._level = logging.getLogger(logger.name)
        self._service = logger.service
        self._encode = json.JSONEncoder(default=str, ensure_ascii=False, separators=(",", ":")).encode
        self._request: str | None = None
        self._trace: str | None = None
        self._second = 0
        self._stamp = ("", "")

    def begin(self, request: str | None) -> None:
        """Put a request's id, and its trace where X-Ray has one, on every line from now on."""
        self._request = request
        trace = os.environ.get(TRACE)
        self._trace = trace.split(";")[0].replace("Root=", "") if trace else None

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        """Write an event, unless the logger's level leaves it out."""
        if not self._level.isEnabledFor(logging.INFO):
            return
        line = {
            "level": "INFO",
            "message": name,
            "timestamp": self._timestamp(time.time()),
            "service": self._service,
            "correlation_id": self._request,
            "event": name,
            **fields,
            "xray_trace_id": self._trace,
        }
        if None in line.values():
            line = {key: value for key, value in line.items() if value is not None}
        self._write(line)

    def figures(
        self, namespace: str, lane: str, counts: Mapping[str, float], durations: Mapping[str, Sequence[float]]
    ) -> None:
        """
        Write one metric object.

        AWS: what CloudWatch takes from it stands under `_aws` (CloudWatch, "Specification: Embedded metric format").
        """
        metrics = [{"Name": name, "Unit": "Count"} for name in counts]
        metrics += [{"Name": name, "Unit": "Milliseconds"} for name in durations]
        directive = {"Namespace": namespace, "Dimensions": [["lane", "service"]], "Metrics": metrics}
        self._write(
            {
                "_aws": {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [directive]},
                "lane": lane,
                "service": self._service,
                **{name: [float(value)] for name, value in counts.items()},
                **{name: [float(value) for value in values] for name, values in durations.items()},
            }
        )

    def _write(self, line: Mapping[str, Any]) -> None:
        # One write for text and line end, so that lines of threads never mix.
        try:
            print(self._encode(line) + "\n", end="")  # noqa: T201 - Lambda takes the log from standard output
        except UnicodeEncodeError:
            # Half of a surrogate pair, which JSON can carry in an id and UTF-8 can't.
            print(json.dumps(line, default=str) + "\n", end="")  # noqa: T201

    def _timestamp(self, now: float) -> str:
        second = int(now)
        if second != self._second:
            local = time.localtime(second)
            self._second = second
            self._stamp = time.strftime("%Y-%m-%d %H:%M:%S", local), time.strftime("%z", local)
        date, zone = self._stamp
        return f"{date},{int((now - second) * 1000):03d}{zone}"
