"""The data source `lanes`: tables and streams written as messages, and dead letters read as a table."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from lanes.errors import ConfigurationError, LanesError
from lanes.operate.dead_letters import LARGEST_RECEIVE, DeadLetterFilter, details_of, list_dead_letters

from .options import SOURCE, ReaderOptions
from .plan import WritePlan
from .sending import RowCounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from lanes.config.deployment import Deployment
    from lanes.operate.dead_letters import DeadLetteredMessage

SCHEMA = (
    "lane string, id string, kind string, group string, data string, reason string, error string, attempts int, "
    "sent_at timestamp, first_received_at timestamp, dead_lettered_at timestamp, message_id string, body string"
)
# If a task is killed, its dead letters stay hidden for so long. A read of 10,000 is a thousand calls.
HOLD = timedelta(minutes=5)
# Each brings at most ten within some 20 ms, and one after the other they would not end 100,000 within the hold.
RECEIVES = 16


class DeadLettersHiddenError(LanesError):
    """A read misses dead letters, though none is behind ten others of its group."""

    def __init__(self, lane: str, *, read: int, missing: int) -> None:
        super().__init__(
            f"{read:,} dead letters of {lane} were read, and about {missing:,} more are hidden: another reader has "
            f"received them, or this one took longer than {HOLD}. Read again, alone"
        )


class DeadLetterReader(DataSourceReader):
    """
    Reads the dead-letter queues, one partition for each lane; Spark copies it to the tasks.

    Args:
        options: The options.
        deployment: The lanes.
    """

    def __init__(self, options: ReaderOptions, deployment: Deployment) -> None:
        self._options = options
        self._deployment = deployment

    @classmethod
    def open(cls, options: Mapping[str, object]) -> DeadLetterReader:
        """
        Check the options and find the lanes.

        Raises:
            ConfigurationError: All problems at once.
            AwsError: The lanes could not be found.
        """
        read = ReaderOptions.from_options(options)
        deployment = read.find_deployment()
        if read.lane is not None and read.lane not in deployment.queues:
            names = ", ".join(deployment.queues)
            problem = f"option lane is {read.lane!r}; one of {names} is needed"
            raise ConfigurationError([problem], source=SOURCE)
        return cls(read, deployment)

    def partitions(self) -> list[InputPartition]:
        """Give a partition for each lane: a queue with several readers hides messages from each of them."""
        lanes = self._deployment.queues if self._options.lane is None else [self._options.lane]
        return [InputPartition(lane) for lane in lanes]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Give the dead letters of a lane, on the worker."""
        from lanes.aws.dead_letters import DeadLetterQueueCalls

        listing = list_dead_letters(
            DeadLetterQueueCalls(deployment=self._deployment, client=self._options.clients().sqs()),
            partition.value,
            DeadLetterFilter(),
            limit=self._options.limit,
            hold=HOLD,
            at_once=RECEIVES,
        )
        of_group = Counter(letter.group for letter in listing.letters)
        is_cut = len(listing.letters) >= self._options.limit
        may_be_behind = max(of_group.values(), default=0) >= LARGEST_RECEIVE
        if listing.beyond and listing.is_hidden and not is_cut and not may_be_behind:
            raise DeadLettersHiddenError(partition.value, read=len(listing.letters), missing=listing.beyond)
        missing = listing.received - len(listing.letters) + listing.beyond
        if missing:
            line = {"event": "dead_letters_not_read", "lane": partition.value, "about": missing}
            sys.stderr.write(json.dumps(line) + "\n")
        return map(row_of, listing.letters)


def row_of(letter: DeadLetteredMessage) -> tuple[Any, ...]:
    """Give the columns of `SCHEMA`."""
    details = details_of(letter)
    return (
        letter.lane,
        letter.event_id or None,
        letter.kind or None,
        letter.group,
        _data(letter.body) if letter.kind else None,
        letter.reason,
        letter.error or None,
        details["attempts"],
        details["sent_at"],
        details["first_received_at"],
        details["given_up_at"],
        letter.message_id,
        letter.body,
    )


def _data(body: str) -> str:
    return json.dumps(json.loads(body).get("data"), ensure_ascii=False)


# Spark 4.0 has no Arrow batches for streams.
StreamWriter: Any = getattr(datasource, "DataSourceStreamArrowWriter", object)
# Spark passes the options of the query itself to its sink.
QUERY_OPTIONS = ("checkpointlocation", "queryname")


class LanesDataSource(DataSource):
    """
    Sends each row of a table as a message to the lanes of a deployment, and reads dead letters. You need Spark 4.

    Columns of a table to write:
        data (string, struct or map; required): The data for your handler. A string must be a JSON document.
        kind (string): Selects the handler; required if you do not set the option kind.
        group (string or whole number): Rows of one group are handled in the order of their partition, so keep a
            group in one partition and sort it: `repartition("group").sortWithinPartitions("data.seq")`. A repartition
            alone keeps no order of a table of several files. Default: each row is its own group.
        id (string or whole number): Id of the message. By default it is derived from kind, group and data: the same
            row has the same id in every run, and equal rows are one message. A kind has its own ids.
        priority (whole number): Overrides the option.
        traceparent (string): W3C trace context of the message.
        resend_of (string): The message_id of the dead letter that the row replaces. SQS would drop its repeat for five
            minutes; with this it is another message for SQS, and the same one for everything else.

    Options of a write (names are case-insensitive):
        stack: Name of the CloudFormation stack with the lanes, read on the driver.
        deployment: The deployment document of the lanes, instead of stack: JSON, its base64 form, or a file with it.
        region: AWS region of the lanes. Default: that of the environment.
        endpointUrl: Endpoint of AWS, if it is local. Default: that of the environment.
        kind: Kind of rows without one.
        source: CloudEvents source of the messages, a part of their identity. Default: spark.
        priority: A number or BULK, LOW, NORMAL, HIGH, CRITICAL. Default: BULK.
        ordering: `group` keeps the order of the partition within a group: one row of a group is in flight at a time.
            `none` treats rows as independent: a batch of ten may hold several of one group, so few groups do not slow
            the job down. Default: group.
        maxSendRate: Messages a second of the whole job, shared by the tasks that run at once. Default: no limit.
        maxBacklog: The job pauses while more messages than this wait in the lane. Default: no limit.
        runId: Name of the run. A rerun under the same name sends only the missing rows.
        manifestPath: Folder (local, or s3://bucket/folder) where the run records the ids it has sent; requires runId.
            All tasks must share a local folder.
        onError: `fail` fails the job at a row that cannot be a message, `quarantine` writes such rows beside the
            manifest, with reasons. Default: fail.
        takeOver: `true` begins although an earlier session of the run has not ended, after a crash. Default: false.
        follow: `true` follows the messages to their end under the name of the run: `lanes runs watch NAME`. Requires
            runId and manifestPath; for `write_partitions` of tables alone. Default: false.
        onComplete: Kind of a message that is sent, with the priority of the job, when all have ended. Default: none.

    A wrong option, or a column that is missing, unknown or of the wrong type, fails on the driver with all problems in
    one error. A row that cannot be sent fails the job with an error that names the row. A task that runs again sends
    the same ids, which SQS drops within five minutes; with a manifest it sends only the rows that are not recorded as
    sent, at any time.

    Streams take the same options, and need Spark 4.1. Each batch of a stream has its own part of the manifest.

    Columns of dead letters: lane, id, kind, group, data (JSON), reason, error, attempts, sent_at, first_received_at,
    dead_lettered_at, message_id, body. id, kind and data are null if the body is not an event of this library;
    attempts and first_received_at are null if SQS moved the message by itself.

    Options of a read:
        stack, deployment, region, endpointUrl: As above.
        lane: The only lane to read. Default: all.
        limit: Maximum number of dead letters of each lane, 1 to 100,000. Default: 10,000.

    A read consumes nothing: each lane is one partition, a task receives its dead letters, hides them while it reads
    and makes them visible again. SQS delivers at most ten of a group at once, so further ones of a group are missing;
    a task that misses dead letters writes their number to standard error. Two reads at the same time hide dead letters
    from each other, and each action of Spark reads again: save the table before you work with it.

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

    def schema(self) -> str:
        """Give the columns of a read."""
        return SCHEMA

    def reader(self, schema: StructType) -> DeadLetterReader:  # noqa: ARG002 - Spark's own form
        """
        Check the options and find the lanes; Spark calls it when a read is planned.

        Raises:
            ConfigurationError: All problems at once.
        """
        return DeadLetterReader.open(self.options)

    def writer(self, schema: StructType, overwrite: bool) -> LanesWriter:  # noqa: FBT001 - Spark's own form
        """
        Check options and columns and find the lanes; Spark calls it once, before any task.

        Raises:
            ConfigurationError: All problems at once.
        """
        if overwrite:
            raise ConfigurationError(['messages can only be appended; use mode("append")'], source=SOURCE)
        return LanesWriter(WritePlan.make(self.options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> LanesStreamWriter:  # noqa: FBT001, N802
        """
        Check options and columns and find the lanes; Spark calls it when a query starts.

        Raises:
            ConfigurationError: All problems at once.
        """
        if overwrite:
            raise ConfigurationError(
                ['messages can only be appended; use outputMode("append")'], source=SOURCE
            )
        if StreamWriter is object:
            problem = "a stream needs Spark 4.1; in foreachBatch call write_partitions(batch, options)"
            raise ConfigurationError([problem], source=SOURCE)
        options = {name: value for name, value in self.options.items() if name.lower() not in QUERY_OPTIONS}
        return LanesStreamWriter(WritePlan.make(options, schema, stream=True))


@dataclass(frozen=True)
class RowsSent(WriterCommitMessage):
    """The counts of one task."""

    counts: RowCounts


class LanesWriter(DataSourceArrowWriter):
    """Sends the rows of the tasks; Spark copies it to each."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[RecordBatch]) -> RowsSent:
        """Send the rows of one partition, on the worker."""
        return RowsSent(sum(self._plan.writing(iterator), RowCounts()))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Seal a run that is followed, and write the counts of all tasks to standard error and the manifest."""
        self._plan.finish(message.counts for message in messages if isinstance(message, RowsSent))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """End the session and report it: sent messages stay sent, and a rerun sends the same ids."""
        failed = messages.count(None)
        reason = f"{failed} of {len(messages)} tasks have failed or were stopped"
        self._plan.abandon(reason if failed else "all tasks have ended, and their commit has failed")


class LanesStreamWriter(StreamWriter):  # type: ignore[misc]
    """Sends the rows of the batches of a stream; Spark copies it to each task."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[RecordBatch]) -> RowsSent:
        """Send the rows of one partition of a batch, on the worker."""
        return RowsSent(sum(self._plan.writing(iterator), RowCounts()))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: Spark records the batch as done."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: Spark retries the batch, which sends the same ids."""
