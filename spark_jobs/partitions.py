"""
The writer without a data source, for Spark 3.5: a function for `foreachPartition`.

    write = PartitionWriter.plan(table.schema, {"stack": "MyStack", "kind": "invoice.remind"})
    table.foreachPartition(write)

`write_partitions` does the same and gives what was done. Options, columns, checks, ids, manifest and errors are those
of `format("lanes")`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import SparkSession

from .pace import with_tasks
from .plain_rows import PlainRows
from .plan import WritePlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructType

    from .sending import RowCounts

CHUNK_ROWS = 1_000
CHUNK_CHARACTERS = 8_000_000


class PartitionWriter:
    """
    Sends the rows of the partition that it is called with.

    Args:
        plan: checked on the driver.
        schema: of the rows.
    """

    def __init__(self, plan: WritePlan, schema: StructType) -> None:
        self.written = plan
        self._schema = schema

    @classmethod
    def plan(cls, schema: StructType, options: Mapping[str, object]) -> PartitionWriter:
        """
        Check options and columns on the driver, before any task.

        Args:
            schema: of the table.
            options: those of `LanesDataSource`.

        Raises:
            ConfigurationError: with what is wrong and what is allowed.
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
    Send a table without the data source and give what was done.

    Args:
        table: with the columns of `LanesDataSource`.
        options: of `LanesDataSource`.

    Raises:
        ConfigurationError: with what is wrong and what is allowed.
    """
    writer = PartitionWriter.plan(table.schema, options)
    counts: list[RowCounts] = table.rdd.mapPartitions(writer.counted).collect()
    return writer.written.finish(counts)


def chunks_of_rows(rows: Iterable[Row], plain: PlainRows) -> Iterator[list[dict[str, Any]]]:
    """
    Give rows some at a time, fewer of large ones.

    Args:
        rows: of a partition.
        plain: reads a row.
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
    """Count those of all texts in a value: what large rows are made of."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_characters, value.values()))
    return sum(map(_characters, value)) if isinstance(value, list) else 0
