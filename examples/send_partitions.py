"""
Bulk work from Spark 3.5 (EMR 7, Glue 5): the same writer, without a data source.

    spark-submit send_partitions.py TABLE DEPLOYMENT
"""

import sys

from lanes_spark import write_partitions
from pyspark.sql import SparkSession


def main(table: str, deployment: str) -> None:
    """Send a reminder to every customer in the table."""
    spark = SparkSession.builder.getOrCreate()
    messages = spark.read.parquet(table).selectExpr(
        "struct(customer_id, country) AS data",
        "concat('reminder-', customer_id) AS id",
    )
    done = write_partitions(messages, {"deployment": deployment, "kind": "customer.reminded"})
    print(done["messages"], "sent")  # noqa: T201 - a program


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
