"""The plan of a write: made and checked on the driver, then sent to the tasks; all forms of the writer share it."""

from __future__ import annotations

import json
import sys
import uuid
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lanes.errors import AwsError, ConfigurationError

from .manifest.run import CONTENTS, Claim, RunManifest, check_purpose, session_name
from .options import SOURCE, WriterOptions
from .pace import LaneBacklog, SendPace, Shared, SharedFile, tasks_at_once, tasks_of_executor
from .rows import RowReader
from .sending import RowCounts, SendingTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyarrow import RecordBatch
    from pyspark import TaskContext
    from pyspark.sql.types import StructType

    from lanes.aws.clients import Clients
    from lanes.config.deployment import Deployment
    from lanes.runs import Mark

    from .manifest.storage import Storage
    from .manifest.task import SentBefore, TaskManifest
    from .rows import UnreadableRow

    Row = Mapping[str, Any]


COUNTS = ("rows", "equal_rows")
# What earlier sessions have sent is the same for all tasks of a session, which a worker runs one after the other.
_before: dict[tuple[str, str | None], SentBefore] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """
    A checked write.

    Attributes:
        options: The options.
        deployment: The lanes.
        session: Name of this execution in the manifest; None without a manifest.
        earlier: Whether the run has earlier sessions.
        name: Unique name of this execution, for what its tasks share on an executor.
        tasks: Number of tasks that run at once; None to look it up in a task.
        executor_tasks: Number of tasks that an executor runs at once; None to look it up in a task.
        claim: The right of this execution to send the rows of its run; None without a manifest, and for a stream.
        contents: Counts of the table, for the summary.
        part: Folder in the run of the batch of a stream; None for the run itself, and in the plan of a stream, whose
            tasks know their batch.
        mark: Mark of the run that is followed; None for none.
        members: Number of the members of a run that an earlier session has sealed, so that no further row joins it.
    """

    options: WriterOptions
    deployment: Deployment
    session: str | None = None
    earlier: bool = False
    claim: Claim | None = None
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    tasks: int | None = None
    executor_tasks: int | None = None
    contents: Mapping[str, object] = field(default_factory=dict)
    part: str | None = None
    mark: Mark | None = None
    members: int | None = None

    @classmethod
    def make(
        cls,
        options: Mapping[str, object],
        schema: StructType | None,
        *,
        stream: bool = False,
        purpose: Mapping[str, object] | None = None,
        count: Callable[[], int] | None = None,
    ) -> WritePlan:
        """
        Check options and columns, find the lanes, begin the session in the manifest.

        Args:
            options: The options.
            schema: Schema of the table or stream; None for rows that have none.
            stream: Whether it is a stream; its checkpoint has one query at a time, so it takes no claim.
            purpose: The selection of a job, and the `contents` of its table.
            count: Gives about the number of messages of a run that is followed; None if they can't be counted.

        Raises:
            ConfigurationError: All problems at once.
            RunInUseError: Another session of the run has not ended.
            RunError: The run is to be followed, and is closed.
            AwsError: The lanes could not be found, or the manifest is unavailable for now.
        """
        read = WriterOptions.from_options(options)
        purpose = {
            **(purpose or {}),
            "kind": read.kind,
            "priority": read.priority,
            # A message without its mark can't be followed, and one with it always is.
            "follow": read.follow,
            "on_complete": read.on_complete,
        }
        if read.follow and (stream or count is None):
            problem = (
                "option follow is 'true', and the size of a run follows from its rows: a stream has no end, and "
                'format("lanes") can\'t count them; call write_partitions(table, options)'
            )
            raise ConfigurationError([problem], source=SOURCE)
        if schema is not None:
            from .columns import check_columns

            check_columns(schema, kind=read.kind)
            purpose["columns"] = schema.simpleString()
        contents: Any = purpose.get(CONTENTS, {})
        plan = cls(options=read, deployment=read.find_deployment(), contents=contents)
        if read.run_id is None:
            return plan
        run = _begin(plan.storage, read, stream=stream, purpose=purpose)
        plan = replace(plan, session=run.session, earlier=run.earlier, claim=run.claim)
        return _followed(plan, count) if count is not None and read.follow else plan

    @property
    def storage(self) -> Storage:
        """The folder of all manifests."""
        return self.options.storage()

    def writing(self, batches: Iterable[RecordBatch]) -> Iterator[RowCounts]:
        """Send the rows of one partition and give the counts of each chunk; runs in the task."""
        from pyspark import TaskContext

        from .arrow import rows_of_batches

        context = TaskContext.get()
        assert context is not None  # noqa: S101 - Spark calls this inside a task only
        return self.sending(rows_of_batches(batches), context)

    def sending(
        self, chunks: Iterable[Iterable[Row | UnreadableRow]], context: TaskContext
    ) -> Iterator[RowCounts]:
        """Send rows in chunks and give the counts of each."""
        from .sending import worker_calls

        rows = 0
        with worker_calls(self.options, self.deployment) as worker:
            for counts in self._task(context, worker.clients, worker.calls).sending(chunks):
                rows += counts.rows
                if self.mark is not None:
                    self.mark.check_room(rows)
                yield counts

    def seal(self) -> dict[str, int]:
        """
        Seal the run, if it is followed, and give the number of its members; runs on the driver, after success alone.

        Raises:
            LanesError: It can't be sealed; a rerun may.
        """
        run = self.manifest()
        if self.mark is None or self.part is not None or run is None:
            return {}
        if self.members is not None:
            return {"members": self.members}
        from .following import end

        return {"members": end(self.options, self.deployment, self.storage, self.mark, check=run.check)}

    def finish(self, counts: Iterable[RowCounts]) -> dict[str, Any]:
        """
        Seal a run that is followed, add up the counts of all tasks, write them to the manifest, and give them.

        It runs on the driver.

        Raises:
            LanesError: As `seal`; abandon the session then.
        """
        finished = list(counts)
        lanes = sum((one.lanes for one in finished), Counter[str]())
        summary: dict[str, Any] = {
            "event": "rows_sent",
            "messages": lanes.total(),
            "tasks": len(finished),
            "lanes": dict(lanes),
            "skipped": sum(one.skipped for one in finished),
            "quarantined": sum(one.quarantined for one in finished),
            **{name: self.contents[name] for name in COUNTS if name in self.contents},
            **self.seal(),
        }
        self.end(summary)
        sys.stderr.write(json.dumps(summary) + "\n")
        return summary

    def abandon(self, reason: str) -> dict[str, Any]:
        """
        End the session without success, so that a rerun may begin, and give its summary; runs on the driver.

        With a manifest the summary has the counts of the session, and the row that failed it.
        """
        summary: dict[str, Any] = {"event": "rows_not_all_sent", "reason": reason}
        run = self.manifest()
        if run is not None:
            summary |= run.of_session()
        self.end(summary)
        sys.stderr.write(json.dumps(summary) + "\n")
        return summary

    def end(self, summary: dict[str, Any]) -> None:
        """Write the summary of the session into the manifest, if there is one."""
        run = self.manifest()
        if run is not None:
            summary |= {"run": run.run_id, "session": run.session}
            run.finish(summary)

    def manifest(self, *, part: str | None = None) -> RunManifest | None:
        """
        Give the manifest of the run, or None.

        Args:
            part: Folder of a part of the run. No other part has its rows, so each part is a run of its own within the
                run.
        """
        if self.session is None or self.options.run_id is None:
            return None
        part = part or self.part
        return RunManifest(
            storage=self.storage,
            run_id=self.options.run_id if part is None else f"{self.options.run_id}/{part}",
            session=self.session,
            earlier=self.earlier if part is None else True,
            claim=self.claim,
        )

    def _task(self, context: TaskContext, clients: Clients, calls: Any) -> SendingTask:
        options = self.options
        record = self._record(context)
        return SendingTask(
            partition=context.partitionId(),
            reader=RowReader(
                kind=options.kind,
                priority=options.priority,
                source=options.source,
                mark=self.mark,
            ),
            deployment=self.deployment,
            calls=calls,
            pace=self._pace(clients, context.getLocalProperty),
            record=record,
            ordered=options.ordering == "group",
            quarantine=options.on_error == "quarantine",
            is_sealed=self.members is not None,
        )

    def _record(self, context: TaskContext) -> TaskManifest | None:
        batch = part_of_stream(context.getLocalProperty)
        run = self.manifest(part=batch)
        if run is None:
            return None
        key = self.name, batch or self.part
        if key not in _before:
            _before.clear()
            _before[key] = run.sent_before()
        return run.task(
            partition=context.partitionId(),
            attempt=context.taskAttemptId(),
            first=context.attemptNumber() == 0,
            before=_before[key],
        )

    def _pace(self, clients: Clients, setting: Callable[[str], str | None]) -> SendPace:
        options = self.options
        if options.max_send_rate is None and options.max_backlog is None:
            return SendPace()
        tasks = self.tasks or tasks_at_once(setting)
        together = min(self.executor_tasks or tasks_of_executor(setting) or 1, tasks)
        rates, backlogs = (shared(f"{name}-{self.name}", senders=together) for name in ("rate", "backlog"))
        # The tasks of an executor share its part; a task that shares nothing has its own.
        of_job = (together if rates.is_shared else 1) / tasks
        return SendPace(
            rate=None if options.max_send_rate is None else options.max_send_rate * of_job,
            schedule=rates,
            backlog=self._backlog(clients, backlogs, of_job),
        )

    def _backlog(self, clients: Clients, shared: Shared, share: float) -> LaneBacklog | None:
        if self.options.max_backlog is None:
            return None

        return LaneBacklog(
            sqs=clients.sqs(),
            queue_urls={name: queues.url for name, queues in self.deployment.queues.items()},
            max_messages=self.options.max_backlog,
            share=share,
            shared=shared,
            held=self._say_held,
        )

    def _say_held(self, lane: str, messages: int) -> None:
        line = {"event": "held_by_max_backlog", "lane": lane, "backlog": messages}
        sys.stderr.write(json.dumps(line | {"max_backlog": self.options.max_backlog}) + "\n")


def _begin(
    storage: Storage, options: WriterOptions, *, stream: bool, purpose: Mapping[str, object]
) -> RunManifest:
    run_id, now = str(options.run_id), datetime.now(UTC)
    try:
        if stream:
            # A folder without write access fails here rather than in a task.
            storage.write(f"{run_id}/streams/{session_name(now)}.json", b"{}")
            return RunManifest.open(storage, run_id=run_id, now=now)
        check_purpose(storage, run_id=run_id, purpose=purpose)
        claim = Claim.take(
            storage, run_id=run_id, session=session_name(now), now=now, take_over=options.take_over
        )
        return replace(RunManifest.open(storage, run_id=run_id, now=now), claim=claim)
    except (OSError, AwsError) as error:
        if isinstance(error, AwsError) and error.retryable:
            raise
        problem = f"option manifestPath is {options.manifest_path!r}; it cannot be read and written: {error}"
        raise ConfigurationError([problem], source=SOURCE) from error


def _followed(plan: WritePlan, count: Callable[[], int]) -> WritePlan:
    from .following import begin

    try:
        mark, members = begin(plan.options, plan.deployment, plan.storage, count=count)
        return replace(plan, mark=mark, members=members)
    except BaseException as error:
        plan.abandon(f"{type(error).__name__}: {error}".splitlines()[0])
        raise


def shared(name: str, *, senders: int) -> Shared:
    """Open what the tasks of this executor share, in the folder that ends with it; without one a task is alone."""
    from pyspark import SparkFiles

    try:
        if senders > 1:
            return SharedFile(Path(SparkFiles.getRootDirectory()) / f"lanes-{name}")
    except (OSError, ImportError, AssertionError, TypeError):
        pass
    return Shared()


def part_of_stream(setting: Callable[[str], str | None]) -> str | None:
    """
    Give the folder of the batch of a stream that a task or a thread of the driver works on; None for a table.

    The numbers of batches restart with each checkpoint; the id of the query is that of its checkpoint.
    """
    batch = setting("streaming.sql.batchId")
    return None if batch is None else f"streams/{setting('sql.streaming.queryId')}/batch-{batch}"
