"""A made-up customer table with last year's purchases, the same for the same seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MOST_CUSTOMERS = 10_000_000
ORDERS_AT_MOST = 60
MEAN_ORDER_CENTS = 4_500


def customer_table(spark: SparkSession, customers: int, *, seed: int) -> DataFrame:
    """
    Make the table; every value follows from the seed and the customer's number alone.

    Columns: customer_id ("c-0000001" and so on), country, orders and spent_cents of the last year.

    Args:
        spark: the session.
        customers: number of rows.
        seed: other seeds give other purchases.
    """
    from pyspark.sql import functions as f

    def draw(what: str, below: int) -> Column:
        return f.pmod(f.xxhash64(f.lit(seed), f.lit(what), f.col("id")), f.lit(below))

    orders = draw("orders", ORDERS_AT_MOST + 1)
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
    """Give the id of the customer with this number, counted from 1."""
    return f"c-{number:07d}"
