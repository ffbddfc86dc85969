"""The backfill job makes its table, sends every customer as bulk work, and prints a summary."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.customers import customer_table
from spark_jobs.loyalty_backfill import parser, run

ROOT = Path(__file__).resolve().parents[2]


def test_every_customer_becomes_a_bulk_message(spark, lanes, tmp_path):
    """Each is a group of its own on MAIN, and the chosen few carry their fault."""
    arguments = [
        "--table",
        str(tmp_path / "customers"),
        "--customers",
        "200",
        "--poison",
        "3",
        "--flaky",
        "2",
    ]
    where = ["--deployment", lanes.deployment.to_json(), "--endpoint-url", lanes.endpoint_url]

    summary = run(spark, parser().parse_args([*arguments, *where, "--run", "spring"]))

    events = {event["id"]: (group, event) for group, event in lanes.take("MAIN")}
    faults = {identity: event["data"]["fault"] for identity, (_, event) in events.items()}
    assert summary["sent"] == len(events) == 200
    assert {"basic", "silver", "gold"} <= {event["data"]["tier"] for _, event in events.values()}
    assert {event["type"] for _, event in events.values()} == {"customer.loyalty_tier"}
    assert all(identity == f"spring:{group}" for identity, (group, _) in events.items())
    assert sorted(i for i, fault in faults.items() if fault == "always") == summary["poison_ids"]
    assert sorted(i for i, fault in faults.items() if fault == "once") == summary["flaky_ids"]


def test_without_lanes_only_the_table_is_made(spark, tmp_path):
    """Making the table and sending it can be two steps."""
    table = str(tmp_path / "customers")

    summary = run(spark, parser().parse_args(["--table", table, "--customers", "30"]))

    assert summary == {"table": table, "customers": 30}
    assert spark.read.parquet(table).count() == 30


def test_the_same_seed_makes_the_same_table(spark):
    """Values follow from seed and number alone, not from partitions."""
    table = customer_table(spark, 100, seed=1)

    assert table.exceptAll(customer_table(spark, 100, seed=1).repartition(3)).count() == 0
    assert table.exceptAll(customer_table(spark, 100, seed=2)).count() > 90


@pytest.mark.deep
def test_the_job_runs_by_spark_submit(lanes, tmp_path):
    """As on a cluster: started by spark-submit with arguments, the last line of its output is the summary."""
    environment = os.environ | {
        "JAVA_HOME": str(Path(sys.prefix) / "java"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    settings = ["--master", "local[1]", "--conf", "spark.ui.enabled=false"]
    job = ["spark_jobs/submit.py", "loyalty_backfill", "--table", str(tmp_path / "customers")]
    where = ["--deployment", lanes.deployment.to_json(), "--endpoint-url", lanes.endpoint_url]

    done = subprocess.run(
        [Path(sys.prefix) / "bin" / "spark-submit", *settings, *job, "--customers", "20", *where],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["sent"] == 20
    assert lanes.waiting() == 20
