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
from lanes.operate.log import LogLine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# AWS: a term in quotation marks is searched for literally, including its case (filter pattern syntax). Characters that
# need an escape, there or in JSON, are left out of it: the caller filters the lines again.
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

    def lines(
        self, *, since: float, until: float | None = None, containing: Sequence[str] = ()
    ) -> Iterator[LogLine]:
        """Return the lines of a period by streams; if texts are given, at least those that contain one of them."""
        request: dict[str, Any] = {"logGroupName": self.group, "startTime": max(0, int(since * 1000))}
        if until is not None:
            request["endTime"] = int(until * 1000) + 1
        if pattern := _pattern(containing):
            request["filterPattern"] = pattern
        with aws_errors("FilterLogEvents"):
            # AWS: pages may be empty and yet not the last (FilterLogEvents); the paginator goes on.
            for page in self._client.get_paginator("filter_log_events").paginate(**request):
                for event in page["events"]:
                    yield LogLine(
                        id=_id_of(event),
                        at=event["timestamp"] / 1000,
                        text=event["message"],
                        stream=event.get("logStreamName", ""),
                    )


def _id_of(event: Mapping[str, Any]) -> str:
    # Emulations of CloudWatch leave eventId out, which AWS does not require in an answer (FilteredLogEvent).
    return event.get("eventId") or f"{event.get('logStreamName')} {event['timestamp']} {event['message']}"


def _pattern(texts: Sequence[str]) -> str:
    """Return the filter pattern of the lines that contain one of the texts; none if a text has no plain part."""
    terms = [max(_PLAIN.findall(text), key=len, default="") for text in texts]
    if not all(terms):
        return ""
    # AWS: a question mark before each term makes one of them enough (filter pattern syntax).
    return f'"{terms[0]}"' if len(terms) == 1 else " ".join(f'?"{term}"' for term in terms)
