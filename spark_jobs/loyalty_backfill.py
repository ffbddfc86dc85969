"""
A backfill of loyalty tiers: one bulk message for each row of a customer table.

    python -m spark_jobs.loyalty_backfill --customers 5000 --table build/customers
    python -m spark_jobs.loyalty_backfill --table build/customers --stack MyStack

The first command makes a table and the second sends it; with all arguments one command does both. The last line on
standard output is a JSON object, the summary of the run.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lanes.errors import LanesError

from .arguments import expected, in_arguments, writer_options
from .arguments import loyalty_parser as parser
from .customers import customer_id, customer_table
from .failures import report
from .session import job_session
from .writing import write_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

KIND = "customer.loyalty_tier"
# Tiers by the amount spent in a year, in cents, highest first.
TIERS = {"platinum": 250_000, "gold": 120_000, "silver": 40_000}
LOWEST_TIER = "basic"
DEFAULT_RUN = "loyalty-tiers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """
    Customers with a message that fails in the handler of the sample application.

    Attributes:
        poison: Ids of customers with a message that fails at every attempt.
        flaky: Ids of customers with a message that fails at the first attempt.
    """

    poison: Sequence[str]
    flaky: Sequence[str]

    @classmethod
    def draw(cls, *, customers: int, poison: int, flaky: int, seed: int) -> Faults:
        """
        Choose them at random; the same seed chooses the same customers.

        Raises:
            ValueError: There are too few customers.
        """
        if poison + flaky > customers:
            raise ValueError(
                f"{poison} poison and {flaky} flaky messages need more than {customers} customers"
            )
        numbers = random.Random(seed).sample(range(1, customers + 1), poison + flaky)  # noqa: S311 - a demo
        ids = [customer_id(number) for number in numbers]
        return cls(poison=sorted(ids[:poison]), flaky=sorted(ids[poison:]))


def backfill_messages(table: DataFrame, *, run: str, faults: Faults, groups: int | None = None) -> DataFrame:
    """
    Make the columns that `format("lanes")` writes.

    Args:
        table: Table with customer_id, orders and spent_cents.
        run: Part of every id: a rerun under the same name sends the same messages.
        faults: Customers with a message that fails.
        groups: Number of groups to spread the customers over, by the CRC-32 of their id, so that any other sender
            can find the group. By default each customer is a group. Either way the messages of one customer stay in
            order.
    """
    from pyspark.sql import functions as f

    tier = f.lit(LOWEST_TIER)
    for name, cents in reversed(TIERS.items()):
        tier = f.when(f.col("spent_cents") >= cents, name).otherwise(tier)
    fault = f.when(f.col("customer_id").isin(*faults.poison), "always").when(
        f.col("customer_id").isin(*faults.flaky), "once"
    )
    group = f.col("customer_id")
    if groups is not None:
        group = f.concat(f.lit("customers-"), f.pmod(f.crc32("customer_id"), f.lit(groups)))
    return table.select(
        f.struct("customer_id", tier.alias("tier"), "orders", "spent_cents", fault.alias("fault")).alias(
            "data"
        ),
        group.alias("group"),
        f.concat(f.lit(f"{run}:"), "customer_id").alias("id"),
    )


def run(spark: SparkSession, options: argparse.Namespace) -> dict[str, object]:
    """Run the job and give its summary."""
    if options.customers is not None:
        made = customer_table(spark, options.customers, seed=options.seed)
        made.write.mode("overwrite").parquet(options.table)
    table = spark.read.parquet(options.table)
    customers = table.count()
    summary: dict[str, object] = {"table": options.table, "customers": customers}
    if options.stack is None and options.deployment is None:
        return summary
    faults = Faults.draw(customers=customers, poison=options.poison, flaky=options.flaky, seed=options.seed)
    messages = backfill_messages(table, run=options.run, faults=faults, groups=options.groups)
    writer = {"kind": KIND, "priority": "BULK"} | writer_options(options) | expected(options, customers)
    if options.shards is not None:
        # Each customer has one row, so there is no order to keep, and a batch may hold several rows of a group.
        writer.setdefault("ordering", "none")
    summary |= {"kind": KIND, **write_table(messages, writer)}
    return summary | {
        "poison_ids": [f"{options.run}:{customer}" for customer in faults.poison],
        "flaky_ids": [f"{options.run}:{customer}" for customer in faults.flaky],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job."""
    options = parser().parse_args(argv)
    options.run = options.run or DEFAULT_RUN
    try:
        with job_session("loyalty backfill", options) as spark:
            summary = run(spark, options)
    except LanesError as error:
        return report(in_arguments(error))
    sys.stdout.write(json.dumps(summary) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
