"""The writer: a table sent by a query, for Spark 3.5 to 4, and the failure of a write."""

from __future__ import annotations

import json
import re
import sys
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PythonException
from pyspark.sql.pandas import functions

from lanes.errors import LanesError

from .pace import tasks_at_once, tasks_of_executor
from .plan import WritePlan, part_of_stream
from .sending import RowCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame


class WriteFailedError(LanesError):
    """
    The write has failed; the message is the reason of the task, the cause its error.

    Attributes:
        summary: Summary of the session: its counts and the row that failed it, if it has a manifest.
    """

    def __init__(self, reason: str, summary: Mapping[str, Any] | None = None) -> None:
        self.summary = summary
        super().__init__(reason)


def report(error: Exception) -> int:
    """Write the reason to standard error, and the summary of a failed session as the last line; give the exit code."""
    sys.stderr.write(f"error: {error}\n")
    if isinstance(error, WriteFailedError) and error.summary is not None:
        sys.stdout.write(json.dumps(error.summary) + "\n")
    return 1


DONE = "counts string"
# The lines after a traceback, up to Java's own.
PYTHON_ERROR = re.compile(
    r"^(?:.*: )?Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)+?(\S.*(?:\n(?!\tat |The above |During ).*)*)",
    re.MULTILINE,
)


def write_partitions(
    table: DataFrame,
    options: Mapping[str, object],
    *,
    count: int | None = None,
    purpose: Mapping[str, object] | None = None,
) -> dict[str, Any]:
    """
    Send a table without the data source, also on Spark 3.5, and give the counts.

    It runs as a query that gives a row for each row done. Spark counts the rows of a query while its tasks run, so its
    own page shows how many are done; it has no such count for the writer of a Python data source. The query has no
    shuffle: Spark would run tasks that ended again, if the executor with their part of the shuffle were lost.

    Args:
        table: Table with the columns of `LanesDataSource`.
        options: Options of `LanesDataSource`.
        count: Number of its rows, if you know it; those of a run that is followed are counted otherwise.
        purpose: The selection of a job, for the manifest.

    Raises:
        ConfigurationError: All problems at once.
        WriteFailedError: A task has failed.
    """
    context = table.sparkSession.sparkContext
    part, setting = part_of_stream(context.getLocalProperty), context.getConf().get
    plan = WritePlan.make(
        options,
        table.schema,
        stream=part is not None,
        purpose=purpose,
        count=table.count if count is None else lambda: count,
    )
    shares = plan.options.max_send_rate is not None or plan.options.max_backlog is not None
    tasks = tasks_at_once(setting) if shares else None
    plan = replace(plan, tasks=tasks, executor_tasks=tasks_of_executor(setting), part=part)
    try:
        with python_errors():
            done = map_in_arrow(table, partial(_done, plan), DONE).where("counts IS NOT NULL").collect()
            return plan.finish(RowCounts.from_json(counts) for (counts,) in done)
    except BaseException as error:
        summary = plan.abandon(first_line(error))
        if isinstance(error, WriteFailedError):
            error.summary = summary
        raise


def _done(plan: WritePlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Send the rows of a partition; give an empty row for each row done, and the counts of all at the end."""
    total = RowCounts()
    for counts in plan.writing(batches):
        total += counts
        yield _column([None] * counts.rows)
    yield _column([total.to_json()])


def _column(counts: list[str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(counts, pa.string())], ["counts"])


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
