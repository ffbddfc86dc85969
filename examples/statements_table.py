"""A table of statements that Spark sends and that are followed to their end, for docs/how-to/follow-a-run.md."""

from collections.abc import Mapping

from lanes_spark import write_partitions
from pyspark.sql import DataFrame


def send_table(customers: DataFrame, month: str, place: Mapping[str, str]) -> None:
    """Send a statement to each customer in the table; `place` has the options `stack` and `manifestPath`."""
    messages = customers.selectExpr("struct(customer) AS data", f"concat('{month}-', customer) AS id")
    of_run = {"kind": "statement", "runId": f"statements-{month}", "follow": "true"}
    write_partitions(messages, {**place, **of_run, "onComplete": "statements.sent"})
