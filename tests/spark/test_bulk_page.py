"""The commands on the page about bulk work do what it says."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from lanes.cli.main import app
from spark_jobs.enqueue import parser, run
from tests.docs.pages import ROOT, blocks

JOB = "python -m spark_jobs.enqueue "
PAGE = ROOT / "docs" / "how-to" / "bulk.md"


def commands():
    """Give the commands of the page."""
    return [line for block in blocks(PAGE, "sh") for line in block.splitlines()]


def customers(spark, count, path):
    """Write a table of customers."""
    columns = (
        "concat('c-', id) AS customer_id",
        "concat('country-', id % 6) AS country",
        "id * 7 AS spent_cents",
    )
    spark.range(count).selectExpr(*columns).write.parquet(path)


@pytest.mark.deep
def test_the_jobs_of_the_page_run(spark, lanes, tmp_path):
    """Word for word but for the places; the dry run first, then the run."""
    table = str(tmp_path / "customers")
    customers(spark, 120, table)
    places = {
        "build/customers": table,
        "build/runs": str(tmp_path / "runs"),
        "--stack PriorityLanes": f"--stack {lanes.stack} --endpoint-url {lanes.endpoint_url}",
    }
    jobs = [line.removeprefix(JOB) for line in commands() if line.startswith(JOB)]
    for there, here in places.items():
        jobs = [job.replace(there, here) for job in jobs]

    dry, sent = (run(spark, parser().parse_args(shlex.split(job))) for job in jobs)

    assert (dry["rows"], dry["groups"], dry["equal_rows"], dry["refused"]) == (120, 6, 0, 0)
    assert (sent["sent"], sent["skipped"], sent["quarantined"]) == (120, 0, 0)
    assert lanes.waiting() == 120


def test_the_verbs_of_the_page_exist():
    """With the options that are shown; others are those of the job."""
    bulk = typer.main.get_command(app).commands["bulk"].commands
    shown = [shlex.split(line)[2:] for line in commands() if line.startswith("lanes bulk ")]

    assert {words[0] for words in shown} == bulk.keys()
    for verb, *words in shown:
        bulk[verb].make_context(verb, list(words))


@pytest.mark.deep
def test_the_example_for_older_sparks_sends_its_table(spark, lanes, tmp_path):
    """As a program of its own, started by spark-submit."""
    table = str(tmp_path / "customers")
    customers(spark, 30, table)
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "lanes_spark").symlink_to(ROOT / "spark_jobs")
    environment = os.environ | {
        "JAVA_HOME": str(Path(sys.prefix) / "java"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "AWS_ENDPOINT_URL": lanes.endpoint_url,
        "PYTHONPATH": os.pathsep.join([str(packages), str(ROOT)]),
    }
    program = [str(ROOT / "examples" / "send_partitions.py"), table, lanes.deployment.to_json()]

    done = subprocess.run(
        [Path(sys.prefix) / "bin" / "spark-submit", "--master", "local[1]", *program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "30 sent"
    assert lanes.waiting() == 30
