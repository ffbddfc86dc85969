"""
The function's log in CloudWatch Logs.

AWS: FilterLogEvents costs nothing but allows 5 to 25 calls a second in an account and region; Logs Insights is charged
by the gigabyte that it scans, StartLiveTail by the minute, and it leaves out lines beyond 500 a second (CloudWatch Logs
user guide, quotas; CloudWatch pricing).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.operate.events import LogLine

if TYPE_CHECKING:
    from collections.abc import Iterator

# AWS: a term in quotation marks is looked for as it stands, capitals and all (filter pattern syntax). What would have
# to be escaped in it, there or in JSON, is left out: who asks looks closer at what comes.
_PLAIN = re.compile(r'[^"\\\x00-\x1f\x7f-\U0010ffff]+')


class LogCalls:
    """
    Reads one log group; every method raises `AwsError`.

    Args:
        client: of CloudWatch Logs.
        group: name of the log group.
    """

    def __init__(self, *, client: Any, group: str) -> None:
        self._client = client
        self.group = group

    def lines(self, *, since: float, until: float | None = None, containing: str = "") -> Iterator[LogLine]:
        """Return the lines of a time by streams; where a text is given, at least those that contain it."""
        request: dict[str, Any] = {"logGroupName": self.group, "startTime": max(0, int(since * 1000))}
        if until is not None:
            request["endTime"] = int(until * 1000) + 1
        if term := max(_PLAIN.findall(containing), key=len, default=""):
            request["filterPattern"] = f'"{term}"'
        with aws_errors("FilterLogEvents"):
            # AWS: pages may be empty and yet not the last (FilterLogEvents); the paginator goes on.
            for page in self._client.get_paginator("filter_log_events").paginate(**request):
                for event in page["events"]:
                    yield LogLine(id=event["eventId"], at=event["timestamp"] / 1000, text=event["message"])
