"""The plan of a write: made and checked on the driver, carried to the tasks, the same for every form of the writer."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from lanes.errors import AwsError, ConfigurationError

from .backlog import LaneBacklog
from .columns import check_columns
from .manifest import RunManifest
from .options import SOURCE, WriterOptions
from .pace import SendPace, tasks_at_once
from .rows import RowReader
from .sending import NoRecord, RowCounts, SendingTask
from .storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql.types import StructType

    from lanes.aws.clients import Clients
    from lanes.deployment import Deployment

    from .sending import Record
    from .storage import Storage

    Row = Mapping[str, Any]


class Task(Protocol):
    """What a task knows of itself; Spark's TaskContext."""

    def partitionId(self) -> int:  # noqa: N802 - Spark's own name
        """Give the number of its partition."""

    def attemptNumber(self) -> int:  # noqa: N802 - Spark's own name
        """Give how often its partition was tried before."""

    def taskAttemptId(self) -> int:  # noqa: N802 - Spark's own name
        """Give a number that no other attempt has."""

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802 - Spark's own name
        """Give a setting of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """
    What is written where.

    Attributes:
        options: what was asked for.
        deployment: the lanes.
        session: this execution's name in the manifest; None without one.
        earlier: whether the run has earlier sessions.
    """

    options: WriterOptions
    deployment: Deployment
    session: str | None = None
    earlier: bool = False

    @classmethod
    def make(cls, options: Mapping[str, object], schema: StructType) -> WritePlan:
        """
        Check options and columns, find the lanes, look into the manifest.

        Raises:
            ConfigurationError: with what is wrong and what is allowed.
            AwsError: the lanes could not be looked up, or the manifest for now.
        """
        read = WriterOptions.from_options(options)
        check_columns(schema, kind=read.kind)
        plan = cls(options=read, deployment=_deployment(read))
        if read.run_id is None:
            return plan
        run = _begin(plan._storage(), read)
        return replace(plan, session=run.session, earlier=run.earlier)

    def write(self, chunks: Iterable[Iterable[Row]], context: Task) -> RowCounts:
        """
        Send the rows of one partition; runs in the task.

        Args:
            chunks: the rows, some at a time.
            context: of the task.
        """
        from lanes.aws.lean_calls import open_calls

        clients = self._clients()
        calls = open_calls(clients, concurrency=self.options.concurrency)
        try:
            return self._task(context, clients, calls).send(chunks)
        finally:
            calls.close()

    def finish(self, counts: Iterable[RowCounts]) -> dict[str, object]:
        """Add up what all tasks did, note it in the manifest, and give it; runs on the driver."""
        done = list(counts)
        lanes = sum((one.lanes for one in done), Counter[str]())
        summary: dict[str, object] = {
            "event": "rows_sent",
            "messages": lanes.total(),
            "tasks": len(done),
            "lanes": dict(lanes),
            "skipped": sum(one.skipped for one in done),
            "quarantined": sum(one.quarantined for one in done),
        }
        run = self.manifest()
        if run is not None:
            summary |= {"run": run.run_id, "session": run.session}
            run.finish(summary)
        sys.stderr.write(json.dumps(summary) + "\n")
        return summary

    def manifest(self, *, batch: str | None = None) -> RunManifest | None:
        """
        Give the manifest of the run, None where there is none.

        Args:
            batch: id of a batch of a stream. Its rows are the same whenever it is tried, and no other batch
                has them, so each batch is a run of its own within the run.
        """
        if self.session is None or self.options.run_id is None:
            return None
        run_id = self.options.run_id if batch is None else f"{self.options.run_id}/batch-{batch}"
        earlier = self.earlier if batch is None else True
        return RunManifest(storage=self._storage(), run_id=run_id, session=self.session, earlier=earlier)

    def _task(self, context: Task, clients: Clients, calls: Any) -> SendingTask:
        options = self.options
        return SendingTask(
            partition=context.partitionId(),
            reader=RowReader(kind=options.kind, priority=options.priority, shards=options.shards),
            deployment=self.deployment,
            calls=calls,
            pace=SendPace(rate=self._share(options.max_send_rate, context.getLocalProperty)),
            record=self._record(context),
            backlog=self._backlog(clients, context.getLocalProperty),
            ordered=options.ordering == "group",
            quarantine=options.on_error == "quarantine",
            concurrency=options.concurrency,
        )

    def _record(self, context: Task) -> Record:
        run = self.manifest(batch=context.getLocalProperty("streaming.sql.batchId"))
        if run is None:
            return NoRecord()
        return run.task(
            partition=context.partitionId(),
            attempt=context.taskAttemptId(),
            first=context.attemptNumber() == 0,
        )

    def _backlog(self, clients: Clients, setting: Callable[[str], str | None]) -> LaneBacklog | None:
        if self.options.max_backlog is None:
            return None
        return LaneBacklog(
            sqs=clients.sqs(),
            queue_urls={name: queues.url for name, queues in self.deployment.queues.items()},
            most=self.options.max_backlog,
            tasks=self._tasks(setting),
        )

    def _share(self, rate: float | None, setting: Callable[[str], str | None]) -> float | None:
        return None if rate is None else rate / self._tasks(setting)

    def _tasks(self, setting: Callable[[str], str | None]) -> int:
        return self.options.max_tasks or tasks_at_once(setting)

    def _clients(self) -> Clients:
        from lanes.aws.clients import Clients

        return Clients(region=self.options.region, endpoint_url=self.options.endpoint_url)

    def _storage(self) -> Any:
        options = self.options
        return open_storage(
            str(options.manifest_path), endpoint_url=options.endpoint_url, region=options.region
        )


def _begin(storage: Storage, options: WriterOptions) -> RunManifest:
    try:
        return RunManifest.open(storage, run_id=str(options.run_id), now=datetime.now(UTC))
    except (OSError, AwsError) as error:
        if isinstance(error, AwsError) and error.retryable:
            raise
        problem = f"option manifestPath is {options.manifest_path!r}; it can't be read and written: {error}"
        raise ConfigurationError([problem], source=SOURCE) from error


def _deployment(options: WriterOptions) -> Deployment:
    if options.deployment is not None:
        return options.deployment
    from lanes.aws.clients import Clients
    from lanes.aws.parameters import read_deployment

    clients = Clients(region=options.region, endpoint_url=options.endpoint_url)
    return read_deployment(clients.ssm(), str(options.stack))
