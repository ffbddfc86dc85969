"""Groups of customers are the same wherever they are worked out."""

from local.demo.plan import customer_id, group_of
from spark_jobs.customers import customer_table
from spark_jobs.loyalty_backfill import Faults, backfill_messages


def test_the_demo_finds_the_group_that_the_job_gave_a_customer(spark):
    """With one queue, the payments of a customer wait behind the backfill."""
    table = customer_table(spark, 50, seed=1)

    rows = backfill_messages(table, run="r", faults=Faults(poison=[], flaky=[]), groups=4).collect()

    assert {row.id: row.group for row in rows} == {
        f"r:{customer_id(number)}": group_of(customer_id(number), shards=4) for number in range(1, 51)
    }
