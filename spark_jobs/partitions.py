"""
The writer without a data source, for Spark 3.5: a callable for `foreachPartition`.

    write = PartitionWriter.plan(table.schema, {"stack": "MyStack", "kind": "invoice.remind"})
    table.foreachPartition(write)

`write_partitions` does the same and gives the counts. Options, columns, checks, ids, manifest and errors are those of
`format("lanes")`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import SparkSession

from .parallelism import with_tasks
from .plan import WritePlan
from .rows.plain import PlainRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructType

    from .sending.record import RowCounts

CHUNK_ROWS = 1_000
CHUNK_CHARACTERS = 8_000_000


class PartitionWriter:
    """
    Sends the rows of a partition.

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
        return cls(WritePlan.make(options if spark is None else with_tasks(options, spark), schema), schema)

    def __call__(self, rows: Iterable[Row]) -> None:
        """Send the rows; for `foreachPartition`."""
        self.counted(rows)

    def counted(self, rows: Iterable[Row]) -> Iterator[RowCounts]:
        """Send the rows and give the counts; for `mapPartitions`."""
        context = TaskContext.get()
        assert context is not None  # noqa: S101 - Spark calls this inside a task only
        return iter([self.written.write(chunks_of_rows(rows, PlainRows(self._schema)), context)])


def write_partitions(table: DataFrame, options: Mapping[str, object]) -> dict[str, object]:
    """
    Send a table without the data source and give the counts.

    Args:
        table: Table with the columns of `LanesDataSource`.
        options: Options of `LanesDataSource`.

    Raises:
        ConfigurationError: All problems at once.
    """
    writer = PartitionWriter.plan(table.schema, options)
    counts: list[RowCounts] = table.rdd.mapPartitions(writer.counted).collect()
    return writer.written.finish(counts)


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
