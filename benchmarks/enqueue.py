"""
The speed of bulk sending: messages per second of one core's time, compared with boto3 and the tutorials' loop.

    python -m benchmarks.enqueue --json

All three send the same rows over plain HTTP to an endpoint that answers at once, in its own process. The figures are
CPU time of the sending process, so they include neither the endpoint nor other load. The three take turns, and
medians are compared. Each reads its rows from the same Arrow batches. The peak memory is that of a process that
only sends one partition, like a Python worker of Spark.

Two comparisons are by the clock: the endpoint answers after 10 ms, and takes all calls, or 60 a second and throttles
the others. The writer and boto3 with eight threads and its default retries take turns with the same rows, and the ratio
is the median of those of each turn; a batch that boto3 gives up is sent again.

In Spark, 200 partitions of ten rows take turns with 200 of Spark's own Python tasks that read their rows, and 8 and 40
partitions send at a limited rate. Both are times on the clock, from the start of the job to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks import senders
from benchmarks.senders import deployment, record_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, Row, SparkSession

# About half a second of CPU each.
TURNS: dict[str, tuple[Callable[[Iterable[pa.RecordBatch], str], int], int]] = {
    "lanes_writer": (senders.lanes_writer, 20_000),
    "boto3_batch": (senders.boto3_batch, 4_000),
    "tutorial_loop": (senders.tutorial_loop, 500),
}
WORKER_ROWS = (20_000, 200_000)
# Calls a second, and repeats and rows: a turn of 10 s is longer than the pauses of its retries.
THROTTLED_AT = 60
THROTTLED, THROTTLED_QUICK = (5, 6_000), (1, 600)
UNLIMITED = 1_000_000
CLOCKED, CLOCKED_QUICK = (5, 40_000), (1, 8_000)
# Rows at a rate of 500 a second: Spark's start of a job, about a second, counts too.
RATED, RATED_QUICK = 10_000, 1_000
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIDBENCHMARK", "AWS_SECRET_ACCESS_KEY": "x" * 40}
PARTITIONS, ROWS_EACH = 200, 10
RATE = 500
RATED_PARTITIONS = (8, 40)


def on_the_clock(limit: float, repeats: int, rows: int) -> dict[str, float]:
    """Give the rates of the writer and of boto3 with eight threads, at so many calls a second, and their ratio."""
    turns = {"lanes_writer": senders.lanes_writer, "boto3_8_threads": senders.boto3_threads}
    rates: dict[str, list[float]] = {name: [] for name in turns}
    table = list(record_batches(rows))
    with endpoint(limit) as url:
        for _ in range(repeats):
            for name, send in turns.items():
                started = time.perf_counter()
                sent = send(table, url)
                rates[name].append(sent / (time.perf_counter() - started))
    ratios = [ours / theirs for ours, theirs in zip(*rates.values(), strict=True)]
    medians = {name: float(round(statistics.median(found))) for name, found in rates.items()}
    return {"ratio": round(statistics.median(ratios), 2), **medians}


def measure(repeats: int) -> dict[str, object]:
    """Take all turns and give the figures."""
    rates: dict[str, list[float]] = {name: [] for name in TURNS}
    with endpoint() as url:
        for send, _ in TURNS.values():
            send(record_batches(100), url)
        for _ in range(repeats):
            for name, (send, rows) in TURNS.items():
                table = list(record_batches(rows))
                started = time.process_time()
                sent = send(table, url)
                rates[name].append(sent / (time.process_time() - started))
        peaks = [worker_peak_mb(rows, url) for rows in WORKER_ROWS]
    medians = {name: statistics.median(found) for name, found in rates.items()}
    ours = medians["lanes_writer"]
    return {
        "messages_per_second_per_core": round(ours),
        "ratio_to_boto3_batch": round(ours / medians["boto3_batch"], 2),
        "ratio_to_tutorial_loop": round(ours / medians["tutorial_loop"], 1),
        "worker_peak_mb": max(peaks),
        "worker_peak_mb_by_rows": dict(zip(WORKER_ROWS, peaks, strict=True)),
        "medians": {name: round(rate) for name, rate in medians.items()},
        "repeats": repeats,
        "at_10_ms": on_the_clock(UNLIMITED, *(CLOCKED if repeats > 1 else CLOCKED_QUICK)),
        "throttled": on_the_clock(THROTTLED_AT, *(THROTTLED if repeats > 1 else THROTTLED_QUICK)),
        **by_spark(repeats),
    }


def by_spark(repeats: int) -> dict[str, object]:
    """Give the figures of tasks in Spark."""
    with endpoint() as url:
        return spark_figures(url, repeats, rated_rows=RATED if repeats > 1 else RATED_QUICK)


@contextmanager
def endpoint(limit: float | None = None) -> Iterator[str]:
    """Run the endpoint in a process of its own, at most for so many calls a second."""
    command = [sys.executable, "-m", "benchmarks.endpoint", *([] if limit is None else [str(limit)])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - asked for above
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def worker_peak_mb(rows: int, url: str) -> float:
    """Give the peak memory of a process that sends one partition of so many rows."""
    command = [sys.executable, "-m", "benchmarks.enqueue", "--worker", str(rows), "--endpoint", url]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(prog="benchmarks.enqueue")
    arguments.add_argument("--json", action="store_true", help="nothing but the JSON object")
    arguments.add_argument("--quick", action="store_true", help="one turn, to see that it runs")
    arguments.add_argument("--repeats", type=int, default=7, help="turns of each sender (default 7)")
    arguments.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    arguments.add_argument("--endpoint", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    os.environ.update(CREDENTIALS)
    if options.worker is not None:
        senders.lanes_writer(record_batches(options.worker), options.endpoint)
        # Linux counts in KiB, macOS in bytes.
        unit = 2**20 if sys.platform == "darwin" else 2**10
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
        sys.stdout.write(f"{peak:.1f}\n")
        return
    figures = measure(1 if options.quick else options.repeats)
    if not options.json:
        for name, figure in figures.items():
            sys.stdout.write(f"{name}: {figure}\n")
    sys.stdout.write(json.dumps(figures) + "\n")


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
    options = {"deployment": deployment().to_json(), "region": "eu-central-1", "endpointUrl": url}
    table.write.format("lanes").mode("append").options(**options, kind="a.kind", **more).save()


def _read(rows: Iterable[Row]) -> None:
    for _ in rows:
        pass


if __name__ == "__main__":
    main()
