"""
Bulk work from Spark: one message for each row of a table.

    python examples/remind_customers.py TABLE STACK
"""

import sys

from lanes_spark import LanesDataSource
from pyspark.sql import SparkSession


def main(table: str, stack: str) -> None:
    """Send a reminder to every customer in the table."""
    spark = SparkSession.builder.getOrCreate()
    spark.dataSource.register(LanesDataSource)
    customers = spark.read.parquet(table)
    messages = customers.selectExpr(
        "struct(customer_id, country) AS data",
        "concat('reminder-', customer_id) AS id",
    )
    writer = messages.write.format("lanes").mode("append")
    writer = writer.option("stack", stack).option("kind", "customer.reminded")
    writer.option("maxSendRate", 500).save()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
