"""Bulk sending by Spark's tasks: the fixed cost of a task, and the mean of a limited rate."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

from benchmarks.senders import deployment_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import DataFrame, Row, SparkSession

PARTITIONS, ROWS_EACH = 200, 10
RATE = 500
RATED_PARTITIONS = (8, 40)


def spark_figures(url: str, repeats: int, *, rated_rows: int) -> dict[str, object]:
    """
    Give the figures.

    Args:
        url: The endpoint.
        repeats: Turns of the writer and of Spark's own tasks.
        rated_rows: Rows of the jobs with a limited rate.
    """
    from spark_jobs import LanesDataSource
    from spark_jobs.session import open_session

    spark = open_session("benchmark")
    try:
        spark.dataSource.register(LanesDataSource)
        return {**_fixed_cost(spark, url, repeats), **_rates(spark, url, rated_rows)}
    finally:
        spark.stop()


def _fixed_cost(spark: SparkSession, url: str, repeats: int) -> dict[str, object]:
    table = _table(spark, PARTITIONS * ROWS_EACH, PARTITIONS)
    turns: dict[str, Callable[[], None]] = {
        "lanes": lambda: _send(table, url),
        "empty": lambda: table.rdd.foreachPartition(_read),
    }
    seconds: dict[str, list[float]] = {name: [] for name in turns}
    for turn in turns.values():
        turn()
    for _ in range(repeats):
        for name, turn in turns.items():
            started = time.perf_counter()
            turn()
            seconds[name].append(time.perf_counter() - started)
    ratios = [ours / theirs for ours, theirs in zip(*seconds.values(), strict=True)]
    return {
        "tasks_ratio_to_empty": round(statistics.median(ratios), 2),
        "tasks_seconds": {name: round(statistics.median(found), 2) for name, found in seconds.items()},
    }


def _rates(spark: SparkSession, url: str, rows: int) -> dict[str, object]:
    means = {}
    for partitions in RATED_PARTITIONS:
        table = _table(spark, rows, partitions)
        started = time.perf_counter()
        _send(table, url, maxSendRate=str(RATE))
        means[partitions] = rows / (time.perf_counter() - started) / RATE
    return {
        "rate_least_mean": round(min(means.values()), 3),
        "rate_greatest_mean": round(max(means.values()), 3),
        "rate_mean_by_partitions": {count: round(mean, 3) for count, mean in means.items()},
    }


def _table(spark: SparkSession, rows: int, partitions: int) -> DataFrame:
    return spark.range(rows, numPartitions=partitions).selectExpr("struct(id AS n) AS data", "id")


def _send(table: DataFrame, url: str, **more: Any) -> None:
    options = {"deployment": deployment_document(), "region": "eu-central-1", "endpointUrl": url}
    table.write.format("lanes").mode("append").options(**options, kind="a.kind", **more).save()


def _read(rows: Iterable[Row]) -> None:
    for _ in rows:
        pass
