"""
The writer without a data source, for Spark 3.5: a callable for `foreachPartition`.

    with PartitionWriter.plan(table.schema, {"stack": "MyStack", "kind": "invoice.remind"}) as write:
        table.foreachPartition(write)

`write_partitions` does the same and gives the counts. Options, columns, checks, ids, manifest and errors are those of
`format("lanes")`.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.pandas import functions

from lanes.errors import ConfigurationError

from .failures import WriteFailedError
from .options import SOURCE
from .parallelism import tasks_at_once, tasks_of_executor
from .plan import WritePlan, part_of_stream
from .rows.plain import PlainRows
from .sending.task import RowCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark import Accumulator
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructType

DONE = "counts string"
DESCRIPTION = "spark.job.description"
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
    def plan(
        cls,
        schema: StructType,
        options: Mapping[str, object],
        *,
        purpose: Mapping[str, object] | None = None,
    ) -> PartitionWriter:
        """
        Check options and columns on the driver, before any task.

        Args:
            schema: Schema of the table.
            options: Options of `LanesDataSource`.
            purpose: The selection of a job, for the manifest.

        Raises:
            ConfigurationError: All problems at once.
        """
        spark = SparkSession.getActiveSession()
        if spark is None:
            return cls(WritePlan.make(options, schema, purpose=purpose), schema)
        context = spark.sparkContext
        part = part_of_stream(context.getLocalProperty)
        plan = WritePlan.make(options, schema, stream=part is not None, purpose=purpose)
        setting = context.getConf().get
        shares = plan.options.max_send_rate is not None or plan.options.max_backlog is not None
        tasks = tasks_at_once(setting) if shares else None
        return cls(replace(plan, tasks=tasks, executor_tasks=tasks_of_executor(setting), part=part), schema)

    def __enter__(self) -> Self:
        """Begin: the plan has begun the session."""
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """End the session."""
        if error is None:
            with self.abandoned_on_error():
                self.written.end({"event": "session_ended", **self.written.seal()})
        else:
            self.written.abandon(first_line(error))

    @contextmanager
    def abandoned_on_error(self) -> Iterator[None]:
        """End the session where the block fails; the plan's `finish` ends it otherwise."""
        try:
            # Tasks may share the seal.
            with python_errors():
                yield
        except BaseException as error:
            summary = self.written.abandon(first_line(error))
            if isinstance(error, WriteFailedError):
                error.summary = summary
            raise

    def __call__(self, rows: Iterable[Row]) -> None:
        """
        Send the rows; for `foreachPartition`.

        Raises:
            ConfigurationError: The option orderBy is set.
        """
        if self.written.options.order_by:
            problem = "foreachPartition gives rows one by one; sort the table: sortWithinPartitions(...)"
            raise ConfigurationError([f"option orderBy: {problem}"], source=SOURCE)
        for _ in self.written.writing(PlainRows(self._schema).chunks(rows), _task_context()):
            pass

    def part(self, part: str) -> PartitionWriter:
        """Give the writer of a part of the run, in the same session."""
        return PartitionWriter(self.written.of_part(part), self._schema)

    def send(self, table: DataFrame, accepted: Accumulator[int] | None = None) -> list[RowCounts]:
        """
        Send a table and give the counts of its tasks; see `write_partitions`.

        Raises:
            WriteFailedError: A task has failed.
        """
        lanes = self.written.options.stack or "a deployment"
        with python_errors(), described(table.sparkSession, f"Messages to the lanes of {lanes}"):
            done = map_in_arrow(table, lambda batches: self.done(batches, accepted), DONE)
            counted = done.where("counts IS NOT NULL").collect()
        return [RowCounts.from_json(counts) for (counts,) in counted]

    def done(
        self, batches: Iterable[pa.RecordBatch], accepted: Accumulator[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """
        Send the rows, give an empty row for each row done, and the counts of all at the end; for `mapInArrow`.

        Args:
            batches: The rows of a partition.
            accepted: Receives the number of messages that SQS has accepted.
        """
        total = RowCounts()
        for counts in self.written.writing(self.written.rows(batches), _task_context()):
            total += counts
            if accepted is not None:
                accepted.add(counts.lanes.total())
            yield _done([None] * counts.rows)
        yield _done([total.to_json()])


def write_partitions(
    table: DataFrame,
    options: Mapping[str, object],
    *,
    accepted: Accumulator[int] | None = None,
    purpose: Mapping[str, object] | None = None,
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
        purpose: The selection of a job, for the manifest.

    Raises:
        ConfigurationError: All problems at once.
    """
    writer = PartitionWriter.plan(table.schema, counted(table, options), purpose=purpose)
    with writer.abandoned_on_error():
        return writer.written.finish(writer.send(table, accepted))


def counted(table: DataFrame, options: Mapping[str, object]) -> Mapping[str, object]:
    """Add the number of rows to the options of a run that is followed: the size of its parts follows from it."""
    given = {name.lower(): value for name, value in options.items()}
    if given.get("expected") is not None or str(given.get("follow")).lower() != "true":
        return options
    return {**options, "expected": max(1, table.count())}


def map_in_arrow(
    table: DataFrame, function: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]], schema: str
) -> DataFrame:
    """Call `mapInArrow` without pandas: Spark asks for it, and neither batches of Arrow nor its workers need it."""
    check = functions.require_minimum_pandas_version  # type: ignore[attr-defined]
    functions.require_minimum_pandas_version = lambda: None  # type: ignore[attr-defined]
    try:
        return table.mapInArrow(function, schema)
    finally:
        functions.require_minimum_pandas_version = check  # type: ignore[attr-defined]


def _task_context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - Spark calls this inside a task only
    return context


def _done(counts: list[str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(counts, pa.string())], ["counts"])


@contextmanager
def python_errors() -> Iterator[None]:
    """Raise the reason of a failed task as an exception of Python, instead of Java's trace around it."""
    try:
        yield
    except (Py4JJavaError, PythonException) as error:
        report = error.java_exception if isinstance(error, Py4JJavaError) else error
        raise WriteFailedError(reason_of(str(report))) from error


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
