"""The data source `lanes`: tables and streams written as messages."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from lanes.errors import ConfigurationError

from .options import SOURCE
from .plain_rows import PlainRows
from .plan import WritePlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from .sending import RowCounts

# Spark 4.0 has no Arrow batches for streams.
StreamWriter: Any = (
    getattr(datasource, "DataSourceStreamArrowWriter", None) or datasource.DataSourceStreamWriter
)
# Spark hands a stream's own options to its sink.
OF_THE_QUERY = ("checkpointlocation", "queryname")
# Rows become Python objects so many at a time, or so many bytes, whatever the size of Spark's batches.
SLICE_ROWS = 500
SLICE_BYTES = 8 * 1024 * 1024


class LanesDataSource(DataSource):
    """
    Sends each row of a table as a message to the lanes of a deployment; needs Spark 4.

    Columns:
        data (string, struct or map; required): what the handler gets. A string holds a JSON document.
        kind (string): chooses the handler; needed where the option kind is not set.
        group (string or whole number): rows of one group are handled in the order in which their partition
            holds them, so keep a group in one partition (`repartition("group")`).
        id (string or whole number): identity of the message. Without one it is derived from kind, group and
            data: the same row has the same id in every run, and rows that are equal are one message.
        priority (whole number): instead of the option.

    Options (names in any case):
        stack: name of the CloudFormation stack whose lanes are meant; read on the driver.
        deployment: instead of stack, the deployment document of the lanes itself, as JSON.
        region: AWS region of the lanes. Default: the environment's.
        endpointUrl: address of AWS, for a local one. Default: the environment's.
        kind: kind of rows that name none.
        priority: a number or BULK, LOW, NORMAL, HIGH, CRITICAL. Default: BULK.
        shards: number of groups over which rows without a group are spread by their id. Default: every such
            row is a group of its own.
        ordering: `group` keeps the order within a group as a partition holds it: one row of a group is on its
            way at a time. `none` takes rows as independent: a batch of ten may hold several of one group, so
            few groups do not slow the job down. Default: group.
        concurrency: most calls on their way for each task and lane, 1 to 64. Default: 8.
        maxSendRate: messages a second of the whole job, shared by the tasks that can run at once. Default: no
            limit.
        maxBacklog: the job holds back while more messages than this wait in the lane. Default: no limit.
        maxTasks: how many tasks share rate and backlog. Default: what Spark's settings say.
        runId: names the run: one that is started again under its name sends only what is missing.
        manifestPath: folder (local, or s3://bucket/folder) in which the run writes down what it has sent;
            goes with runId. Local folders must be the same for all tasks.
        onError: `fail` ends the job at a row that can't be a message, `quarantine` puts such rows beside the
            manifest, with reasons. Default: fail.

    A wrong option, or a column that is missing, unknown or of the wrong type, fails on the driver with all
    problems in one error. A row that can't be sent fails the job and is named in the error. A task that runs
    again sends the same ids, which SQS drops within five minutes; with a manifest it sends only what is not
    written down as sent, whenever that is.

    Streams take the same options. Each batch of a stream has its own part of the manifest.

    Example:
        spark.dataSource.register(LanesDataSource)
        (
            invoices.selectExpr("struct(*) AS data", "customer_id AS group", "invoice_id AS id")
            .write.format("lanes").option("stack", "MyStack").option("kind", "invoice.remind")
            .mode("append").save()
        )
    """

    @classmethod
    def name(cls) -> str:
        """Give the name for `format(...)`."""
        return "lanes"

    def writer(self, schema: StructType, overwrite: bool) -> LanesWriter:  # noqa: FBT001 - Spark's own form
        """
        Check options and columns, find the lanes; Spark calls it once, before any task.

        Raises:
            ConfigurationError: with what is wrong and what is allowed.
        """
        if overwrite:
            raise ConfigurationError(['messages can only be added; use mode("append")'], source=SOURCE)
        return LanesWriter(WritePlan.make(self.options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> LanesStreamWriter:  # noqa: FBT001, N802
        """
        Check options and columns, find the lanes; Spark calls it when a query starts.

        Raises:
            ConfigurationError: with what is wrong and what is allowed.
        """
        if overwrite:
            raise ConfigurationError(['messages can only be added; use outputMode("append")'], source=SOURCE)
        given = {name: value for name, value in self.options.items() if name.lower() not in OF_THE_QUERY}
        return LanesStreamWriter(WritePlan.make(given, schema), schema)


@dataclass(frozen=True)
class RowsSent(WriterCommitMessage):
    """What one task did."""

    counts: RowCounts


class LanesWriter(DataSourceArrowWriter):
    """Sends the rows of the tasks; a copy of it travels to each."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[RecordBatch]) -> RowsSent:
        """Send the rows of one partition, on the worker."""
        return _write(self._plan, rows_of_batches(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Say what all tasks sent, as one JSON line on standard error and in the manifest."""
        self._plan.finish(message.counts for message in messages if isinstance(message, RowsSent))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Take nothing back: what was sent is sent, and running again sends the same ids."""
        ended = sum(message is not None for message in messages)
        sys.stderr.write(json.dumps({"event": "rows_not_all_sent", "tasks_ended": ended}) + "\n")


class LanesStreamWriter(StreamWriter):  # type: ignore[misc]
    """Sends the rows of a stream's batches; a copy of it travels to each task."""

    def __init__(self, plan: WritePlan, schema: StructType) -> None:
        self._plan = plan
        self._schema = schema

    def write(self, iterator: Iterator[Any]) -> RowsSent:
        """Send the rows of one partition of a batch, on the worker."""
        return _write(self._plan, rows_of_batches(iterator, PlainRows(self._schema)))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Have nothing to do: what was sent is sent, and Spark notes the batch as done."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Take nothing back: the batch is tried again and sends the same ids."""


def _write(plan: WritePlan, rows: Iterator[list[dict[str, Any]]]) -> RowsSent:
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - Spark calls this inside a task only
    return RowsSent(counts=plan.write(rows, context))


def rows_of_batches(batches: Iterator[Any], plain: PlainRows | None = None) -> Iterator[list[dict[str, Any]]]:
    """
    Give the rows of Arrow batches some at a time.

    Args:
        batches: Arrow batches, or single rows where Spark gives those.
        plain: reads single rows.
    """
    for batch in batches:
        if plain is not None and not hasattr(batch, "to_pylist"):
            yield [plain(batch)]
            continue
        size = max(1, min(SLICE_ROWS, SLICE_BYTES * batch.num_rows // max(batch.nbytes, 1)))
        for start in range(0, batch.num_rows, size):
            yield batch.slice(start, size).to_pylist(maps_as_pydicts="strict")
