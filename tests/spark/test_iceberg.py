"""
Tables of Iceberg through the job's catalog path, on a Spark that has the jars.

PyPI has them for Spark 3.5 alone (pyspark==3.5.*, pyarrow, boto3, snowpark-connect-deps-iceberg), and without their own
Jackson, which another jar in that folder must bring. PYTHON_OF_SPARK_35 names the interpreter that has all of it.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PYTHON = os.environ.get("PYTHON_OF_SPARK_35")
TABLE = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").getOrCreate()
spark.sql("CREATE TABLE ice.db.orders (id STRING, n INT) USING iceberg TBLPROPERTIES "
          "('format-version' = '2', 'write.delete.mode' = 'merge-on-read')")
spark.sql("INSERT INTO ice.db.orders VALUES ('a', 1), ('b', 2), ('c', 3)")
first = spark.sql("SELECT snapshot_id FROM ice.db.orders.snapshots").first()[0]
spark.sql("DELETE FROM ice.db.orders WHERE id = 'b'")
spark.sql("ALTER TABLE ice.db.orders ADD COLUMN note STRING")
spark.sql("ALTER TABLE ice.db.orders RENAME COLUMN n TO amount")
spark.sql("INSERT INTO ice.db.orders VALUES ('d', 4, 'late')")
print(first)
"""


@pytest.mark.skipif(
    PYTHON is None, reason="PYTHON_OF_SPARK_35 names no Python with Spark 3.5 and Iceberg's jars"
)
def test_a_table_of_iceberg_is_sent_as_it_stands_and_as_it_was(lanes, tmp_path):
    """Without its deleted rows, with its columns of today; a snapshot by a query."""
    (runtime,) = Path(PYTHON).parents[1].rglob("iceberg-spark-runtime-3.5_2.12-*.jar")
    jars = [str(jar) for jar in runtime.parent.glob("*.jar") if "_2.13" not in jar.name]
    settings = {
        "spark.jars": ",".join(jars),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(tmp_path / "warehouse"),
    }
    given = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    environment = os.environ | {"PYSPARK_SUBMIT_ARGS": f"{given} pyspark-shell", "PYTHONPATH": str(ROOT)}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": PYTHON}

    def run(*command):
        done = subprocess.run(
            [PYTHON, *command], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    def sent(name, *source):
        where = ["--deployment", lanes.deployment.to_json(), "--endpoint-url", lanes.endpoint_url]
        job = [
            "-m",
            "spark_jobs.enqueue",
            *source,
            "--kind",
            "order",
            "--id",
            "id",
            "--source",
            name,
        ]
        assert json.loads(run(*job, *where))["sent"] == 3
        return {event["id"]: event["data"] for _, event in lanes.take("MAIN")}

    first = run("-c", TABLE)

    assert sent("now", "--format", "table", "--table", "ice.db.orders") == {
        "a": {"id": "a", "amount": 1, "note": None},
        "c": {"id": "c", "amount": 3, "note": None},
        "d": {"id": "d", "amount": 4, "note": "late"},
    }
    as_it_was = f"FROM ice.db.orders VERSION AS OF {first} SELECT id, n"
    assert sent("then", "--sql", as_it_was).keys() == {"a", "b", "c"}
