"""A table of statements that Spark sends and that are followed to their end, for docs/how-to/follow-a-run.md."""

from collections.abc import Mapping

from pyspark.sql import DataFrame


def send_table(customers: DataFrame, month: str, place: Mapping[str, str]) -> None:
    """Send a statement to each customer in the table; `place` has the options `stack` and `manifestPath`."""
    messages = customers.selectExpr("struct(customer) AS data", f"concat('{month}-', customer) AS id")
    writer = messages.write.format("lanes").mode("append").options(**place)
    writer = writer.option("kind", "statement").option("runId", f"statements-{month}")
    writer = writer.option("follow", "true").option("onComplete", "statements.sent")
    writer.option("expected", customers.count()).save()
