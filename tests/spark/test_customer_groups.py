"""Groups of customers are the same wherever they are worked out."""

from local.demo import plan
from spark_jobs.customers import customer_table
from spark_jobs.loyalty_backfill import Faults, backfill_messages


def test_the_demo_knows_the_ids_and_groups_of_the_jobs_messages(spark):
    """With one queue, the payments of a customer wait behind the backfill."""
    table = customer_table(spark, 50, seed=1)
    faults = Faults(poison=[], flaky=[])

    rows = backfill_messages(table, run=plan.RUN, faults=faults, groups=plan.GROUPS).collect()

    groups = {message.group for message in plan.episodes(100)[0].messages if "customer" in message.group}
    assert sorted(row.id for row in rows) == plan.backfill_ids(50)
    assert {row.group for row in rows} == groups
