"""The data source `lanes`: tables written as messages."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from lanes.errors import ConfigurationError

from .columns import check_columns
from .options import SOURCE, WriterOptions
from .pace import SendPace, tasks_at_once
from .rows import RowReader
from .sending import SendingTask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from lanes.deployment import Deployment


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
        maxSendRate: messages a second of the whole job, shared by the tasks that can run at once. Default: no
            limit.
        maxTasks: how many tasks share that rate. Default: what Spark's settings say.

    A wrong option, or a column that is missing, unknown or of the wrong type, fails on the driver with all
    problems in one error. A row that can't be sent fails the job and is named in the error. A task that runs
    again sends the same ids, which SQS drops within five minutes.

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
        options = WriterOptions.from_options(self.options)
        check_columns(schema, kind=options.kind)
        return LanesWriter(options=options, deployment=_deployment(options))


@dataclass(frozen=True)
class RowsSent(WriterCommitMessage):
    """What one task did."""

    partition: int
    lanes: Counter[str]


class LanesWriter(DataSourceArrowWriter):
    """Sends the rows of the tasks; a copy of it travels to each."""

    def __init__(self, *, options: WriterOptions, deployment: Deployment) -> None:
        self._options = options
        self._deployment = deployment

    def write(self, iterator: Iterator[RecordBatch]) -> RowsSent:
        """Send the rows of one partition, on the worker."""
        from lanes.producer import Producer

        context = TaskContext.get()
        assert context is not None  # noqa: S101 - Spark calls this inside a task only
        options = self._options
        task = SendingTask(
            partition=context.partitionId(),
            reader=RowReader(kind=options.kind, priority=options.priority, shards=options.shards),
            producer=Producer.from_deployment(
                self._deployment, region=options.region, endpoint_url=options.endpoint_url
            ),
            pace=SendPace(rate=_share(options, context)),
        )
        return RowsSent(partition=context.partitionId(), lanes=task.send(_rows(iterator)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Say what all tasks sent, as one JSON line on standard error."""
        tasks = [message for message in messages if isinstance(message, RowsSent)]
        lanes = sum((task.lanes for task in tasks), Counter[str]())
        summary = {"event": "rows_sent", "messages": lanes.total(), "tasks": len(tasks), "lanes": lanes}
        sys.stderr.write(json.dumps(summary) + "\n")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Take nothing back: what was sent is sent, and running again sends the same ids."""


def _deployment(options: WriterOptions) -> Deployment:
    if options.deployment is not None:
        return options.deployment
    from lanes.producer import Producer

    return Producer.from_stack(
        str(options.stack), region=options.region, endpoint_url=options.endpoint_url
    ).deployment


def _share(options: WriterOptions, context: TaskContext) -> float | None:
    if options.max_send_rate is None:
        return None
    return options.max_send_rate / (options.max_tasks or tasks_at_once(context.getLocalProperty))


def _rows(batches: Iterator[RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist(maps_as_pydicts="strict")
