"""Read metrics of CloudWatch in as few calls as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

# AWS: one GetMetricData call takes up to 500 queries (CloudWatch API reference).
MOST_QUERIES = 500


def metric_data(
    client: Any, queries: Sequence[dict[str, Any]], *, start: datetime, end: datetime
) -> Iterator[dict[str, Any]]:
    """
    Give the results of all queries; one query may have several, the latest times first.

    Args:
        client: of CloudWatch.
        queries: of GetMetricData, with ids of their own.
        start: from then on.
        end: before then.

    Raises:
        AwsError: a call failed.
    """
    paginator = client.get_paginator("get_metric_data")
    for first in range(0, len(queries), MOST_QUERIES):
        with aws_errors("GetMetricData"):
            pages = paginator.paginate(
                MetricDataQueries=queries[first : first + MOST_QUERIES],
                StartTime=start,
                EndTime=end,
                ScanBy="TimestampDescending",
            )
            for page in pages:
                yield from page["MetricDataResults"]
