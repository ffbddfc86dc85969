"""A generated customer table with the purchases of last year, reproducible by its seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MAX_CUSTOMERS = 10_000_000
MAX_ORDERS = 60
MEAN_ORDER_CENTS = 4_500


def customer_table(spark: SparkSession, customers: int, *, seed: int) -> DataFrame:
    """
    Make the table; every value follows from the seed and the number of the customer.

    Columns: customer_id ("c-0000001" and so on), country, orders and spent_cents of the last year.

    Args:
        spark: The session.
        customers: Number of rows.
        seed: Other seeds give other purchases.
    """
    from pyspark.sql import functions as f

    def draw(column: str, below: int) -> Column:
        return f.pmod(f.xxhash64(f.lit(seed), f.lit(column), f.col("id")), f.lit(below))

    orders = draw("orders", MAX_ORDERS + 1)
    order_cents = draw("cents", MEAN_ORDER_CENTS) + MEAN_ORDER_CENTS // 2
    countries = f.array(*(f.lit(code) for code in ("DE", "FR", "GB", "NL", "PL", "SE")))
    numbered = spark.range(1, customers + 1)
    return numbered.select(
        f.format_string("c-%07d", "id").alias("customer_id"),
        f.element_at(countries, (draw("country", 6) + 1).cast("int")).alias("country"),
        orders.alias("orders"),
        (orders * order_cents).alias("spent_cents"),
    )


def customer_id(number: int) -> str:
    """Give the id of a customer by number, starting at 1."""
    return f"c-{number:07d}"
