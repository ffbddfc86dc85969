"""
Dead letters joined with their table: the customers without a reminder, each with the reason.

    python examples/unreminded_customers.py TABLE STACK OUTPUT
"""

import sys

from lanes_spark import LanesDataSource
from pyspark.sql import SparkSession


def main(table: str, stack: str, output: str) -> None:
    """Write the customers without a reminder, each with the reason."""
    spark = SparkSession.builder.getOrCreate()
    spark.dataSource.register(LanesDataSource)
    dead = spark.read.format("lanes").option("stack", stack).option("lane", "MAIN").load()
    reminders = dead.where("kind = 'customer.reminded'").selectExpr(
        "get_json_object(data, '$.customer_id') AS customer_id", "reason", "error", "attempts"
    )
    spark.read.parquet(table).join(reminders, "customer_id").write.mode("overwrite").parquet(output)


if __name__ == "__main__":
    main(*sys.argv[1:4])
