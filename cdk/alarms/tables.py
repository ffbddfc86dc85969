"""The alarm rule of a table: throttled writes, of the table and of its global indexes."""

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb

from .rule import PERIOD, AlarmRule, Page, Severity

THROTTLED = 10
"""Throttled writes in a period that are more than DynamoDB's growth with the load."""


def throttled_writes(table: dynamodb.Table, *, indexes: Sequence[str], first_step: str) -> AlarmRule:
    """
    Give the rule of one table.

    Args:
        table: The table to watch.
        indexes: The names of its global indexes: a hot key of an index throttles the writes of the table.
        first_step: The first thing to do.

    """
    index = "GlobalSecondaryIndexName"
    dimensions = [{"TableName": table.table_name}]
    dimensions += [{"TableName": table.table_name, index: name} for name in indexes]
    metrics = {
        f"writes{number}": cloudwatch.Metric(
            namespace="AWS/DynamoDB",
            metric_name="WriteThrottleEvents",
            dimensions_map=each,
            statistic="Sum",
            period=Duration.seconds(int(PERIOD.total_seconds())),
        )
        for number, each in enumerate(dimensions)
    }
    return AlarmRule(
        name="TableThrottles",
        severity=Severity.WARNING,
        metric=cloudwatch.MathExpression(
            expression=" + ".join(f"FILL({name}, 0)" for name in metrics),
            label="Throttled writes",
            period=Duration.seconds(int(PERIOD.total_seconds())),
            using_metrics=metrics,
        ),
        threshold=THROTTLED,
        periods=2,
        spare=1,
        description="DynamoDB throttles writes to the table or to one of its indexes.",
        first_step=first_step,
        page=Page.CALL_ERRORS,
    )
