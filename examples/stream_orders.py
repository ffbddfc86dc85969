"""
Send each new row of a folder as a message, as long as the program runs.

    spark-submit stream_orders.py FOLDER CHECKPOINT STACK RUNS
"""

import sys

from lanes_spark import LanesDataSource
from pyspark.sql import SparkSession


def main(folder: str, checkpoint: str, stack: str, runs: str) -> None:
    """Send the orders that are there and have not been sent."""
    spark = SparkSession.builder.getOrCreate()
    spark.dataSource.register(LanesDataSource)
    orders = spark.readStream.schema("order_id STRING, amount_cents INT").json(folder)
    messages = orders.selectExpr("struct(*) AS data", "order_id AS id")
    writer = messages.writeStream.format("lanes").option("checkpointLocation", checkpoint)
    writer = writer.option("stack", stack).option("kind", "order.placed")
    writer = writer.option("runId", "orders").option("manifestPath", runs)
    # Without this trigger, the query waits for further files.
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:5])
