"""
The writer without a data source, for Spark 3.5: a callable for `foreachPartition`.

    with PartitionWriter.plan(table.schema, {"stack": "MyStack", "kind": "invoice.remind"}) as write:
        table.foreachPartition(write)

`write_partitions` does the same and gives the counts. Options, columns, checks, ids, manifest and errors are those of
`format("lanes")`.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, Self

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.sql import SparkSession

from lanes.errors import LanesError

from .parallelism import tasks_of_executor, with_tasks
from .plan import WritePlan, stream_batch
from .rows.plain import PlainRows
from .sending.record import RowCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark import Accumulator
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructType

Done = tuple[dict[str, int] | None, int | None, int | None]
DONE = "lanes map<string, bigint>, skipped bigint, quarantined bigint"
ROW_DONE: Done = (None, None, None)
DESCRIPTION = "spark.job.description"
CHUNK_ROWS = 1_000
CHUNK_CHARACTERS = 8_000_000
# The lines after a traceback, up to Java's own.
PYTHON_ERROR = re.compile(
    r"^(?:.*: )?Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)+?(\S.*(?:\n(?!\tat |The above |During ).*)*)",
    re.MULTILINE,
)


class PartitionWriter:
    """
    Sends the rows of a partition; the `with` block is the session of its run.

    Args:
        plan: The plan, checked on the driver.
        schema: Schema of the rows.
    """

    def __init__(self, plan: WritePlan, schema: StructType) -> None:
        self.written = plan
        self._schema = schema

    @classmethod
    def plan(cls, schema: StructType, options: Mapping[str, object]) -> PartitionWriter:
        """
        Check options and columns on the driver, before any task.

        Args:
            schema: Schema of the table.
            options: Options of `LanesDataSource`.

        Raises:
            ConfigurationError: All problems at once.
        """
        spark = SparkSession.getActiveSession()
        if spark is None:
            return cls(WritePlan.make(options, schema), schema)
        context = spark.sparkContext
        in_stream = stream_batch(context.getLocalProperty) is not None
        plan = WritePlan.make(with_tasks(options, spark), schema, stream=in_stream)
        return cls(replace(plan, executor_tasks=tasks_of_executor(context.getConf().get)), schema)

    def __enter__(self) -> Self:
        """Begin: the plan has begun the session."""
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """End the session."""
        if error is None:
            self.written.end({"event": "session_ended"})
        else:
            self.written.abandon(first_line(error))

    @contextmanager
    def abandoned_on_error(self) -> Iterator[None]:
        """End the session where the block fails; the plan's `finish` ends it otherwise."""
        try:
            yield
        except BaseException as error:
            self.written.abandon(first_line(error))
            raise

    def __call__(self, rows: Iterable[Row]) -> None:
        """Send the rows; for `foreachPartition`."""
        for _ in self.done(rows):
            pass

    def done(self, rows: Iterable[Row], accepted: Accumulator[int] | None = None) -> Iterator[Done]:
        """
        Send the rows, give an empty row for each row done, and the counts of all at the end; for `mapPartitions`.

        Args:
            rows: The rows of a partition.
            accepted: Receives the number of messages that SQS has accepted.
        """
        context = TaskContext.get()
        assert context is not None  # noqa: S101 - Spark calls this inside a task only
        total = RowCounts()
        for counts in self.written.writing(chunks_of_rows(rows, PlainRows(self._schema)), context):
            total += counts
            if accepted is not None:
                accepted.add(counts.lanes.total())
            yield from repeat(ROW_DONE, counts.rows)
        yield dict(total.lanes), total.skipped, total.quarantined


def write_partitions(
    table: DataFrame, options: Mapping[str, object], *, accepted: Accumulator[int] | None = None
) -> dict[str, Any]:
    """
    Send a table without the data source and give the counts.

    It runs as a query that gives a row for each row done. Spark counts the rows of a query while its tasks run, so its
    own page shows how many are done; it has no such count for the writer of a Python data source, and Python
    accumulators have no name there. The query has no shuffle: Spark would run tasks that ended again, if the executor
    with their part of the shuffle were lost.

    Args:
        table: Table with the columns of `LanesDataSource`.
        options: Options of `LanesDataSource`.
        accepted: Receives the number of messages that SQS has accepted, at the end of each task.

    Raises:
        ConfigurationError: All problems at once.
    """
    writer = PartitionWriter.plan(table.schema, options)
    spark = table.sparkSession
    with (
        writer.abandoned_on_error(),
        python_errors(),
        described(spark, f"Messages to the lanes of {writer.written.options.stack or 'a deployment'}"),
    ):
        done = spark.createDataFrame(table.rdd.mapPartitions(lambda rows: writer.done(rows, accepted)), DONE)
        counted = done.where("lanes IS NOT NULL").collect()
    return writer.written.finish(
        RowCounts(lanes=Counter(lanes), skipped=skipped, quarantined=quarantined)
        for lanes, skipped, quarantined in counted
    )


class WriteFailedError(LanesError):
    """The query that sends has failed; the message is the reason of the task, its cause the error of Spark."""


@contextmanager
def python_errors() -> Iterator[None]:
    """Raise the reason of a failed task as an exception of Python, instead of Java's trace around it."""
    try:
        yield
    except Py4JJavaError as error:
        raise WriteFailedError(reason_of(str(error.java_exception))) from error


def reason_of(report: str) -> str:
    """Give the last error of Python in a report of Spark, or its first line if there is none."""
    found = PYTHON_ERROR.findall(report)
    return found[-1].strip() if found else report.splitlines()[0]


def first_line(error: BaseException) -> str:
    """Give the first line of an error; those of Spark have a hundred."""
    return f"{type(error).__name__}: {error}".splitlines()[0]


@contextmanager
def described(spark: SparkSession, description: str) -> Iterator[None]:
    """Describe the jobs of this thread on Spark's page, unless your program does."""
    context = spark.sparkContext
    if context.getLocalProperty(DESCRIPTION) is not None:
        yield
        return
    context.setJobDescription(description)
    try:
        yield
    finally:
        # None removes a property (SparkContext.setLocalProperty of Scala); the stub allows text alone.
        context.setLocalProperty(DESCRIPTION, None)  # type: ignore[arg-type]


def chunks_of_rows(rows: Iterable[Row], plain: PlainRows) -> Iterator[list[dict[str, Any]]]:
    """
    Give rows in chunks, smaller ones if rows are large.

    Args:
        rows: Rows of a partition.
        plain: Converts a row.
    """
    chunk: list[dict[str, Any]] = []
    characters = 0
    for row in rows:
        chunk.append(plain(row))
        characters += _characters(chunk[-1])
        if len(chunk) >= CHUNK_ROWS or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _characters(value: object) -> int:
    """Count the characters of all strings in a value; they make a row large."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_characters, value.values()))
    return sum(map(_characters, value)) if isinstance(value, list) else 0
