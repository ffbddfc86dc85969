"""Writing for jobs, with progress and a summary."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from lanes.errors import AwsError

from .manifest.run import RunManifest
from .manifest.storage import open_storage
from .options import WriterOptions
from .partitions import PartitionWriter, write_partitions
from .ranges import is_complete
from .sending.pace import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from .ranges import Ranges
    from .sending.task import RowCounts
EVERY_SECONDS = 5.0


def write_table(
    table: DataFrame, options: Mapping[str, str], *, purpose: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """
    Send a table and give a summary.

    Args:
        table: Table with the columns of `LanesDataSource`.
        options: Options of `LanesDataSource`.
        purpose: The selection of the job, for the manifest.

    Returns:
        `sent`, `seconds`, `messages_per_second`, with a manifest `skipped`, `quarantined`, `run` and `session`, and of
        a run that is followed its `members`.
    """
    started = time.monotonic()
    with Progress(table.sparkSession, options) as progress:
        written = write_partitions(table, options, accepted=progress.accepted, purpose=purpose)
    return _summary(written, started)


def write_parts(
    table: DataFrame,
    options: Mapping[str, str],
    ranges: Ranges,
    *,
    arranged: Callable[[DataFrame], DataFrame],
    purpose: Mapping[str, object],
) -> dict[str, Any]:
    """
    Send the ranges of a table one after the other, in one session, and give a summary; complete ones are left out.

    Args:
        table: Table with the columns of `arranged` and of the key.
        options: Options of `LanesDataSource`, with a manifest.
        ranges: The ranges.
        arranged: Makes the columns of `LanesDataSource` from those of the table.
        purpose: The selection of the job, for the manifest.

    Returns:
        As `write_table`, with the number of `parts`, and of those that earlier sessions have completed.
    """
    started = time.monotonic()
    counts: list[RowCounts] = []
    parts = list(ranges.parts())
    complete = 0
    writer = PartitionWriter.plan(arranged(table).schema, options, purpose=purpose)
    storage = writer.written.storage
    with writer.abandoned_on_error():
        ranges.record(storage, options["runId"])
        for part, condition in parts:
            if is_complete(storage, options["runId"], part):
                complete += 1
                continue
            of_part = writer.part(part)
            with Progress(table.sparkSession, options, part=part) as progress:
                sent = of_part.send(arranged(table.where(condition)), progress.accepted)
            of_part.written.finish(sent)
            counts += sent
    written = _summary(writer.written.finish(counts), started)
    return written | {"parts": len(parts), "parts_sent_before": complete}


def _summary(written: Mapping[str, Any], started: float) -> dict[str, Any]:
    seconds = time.monotonic() - started
    of_run = ("skipped", "quarantined", "run", "session") if "run" in written else ()
    return {
        "sent": written["messages"],
        **{name: written[name] for name in (*of_run, *({"members"} & written.keys()))},
        "seconds": round(seconds, 2),
        "messages_per_second": round(written["messages"] / seconds, 1),
    }


class Progress:
    """
    Reports progress inside its `with` block: tasks and messages.

    With a manifest it counts the messages recorded by running tasks too, without one those of `accepted`.

    Attributes:
        accepted: Tasks add the messages that SQS has accepted; Spark passes them on when a task ends.

    Args:
        spark: The session.
        options: Options of the writer.
        part: The part of the run that is being sent; None for all of it.
        every: Seconds between two reports.
        write: Writes a line.
    """

    def __init__(
        self,
        spark: SparkSession,
        options: Mapping[str, str],
        *,
        part: str | None = None,
        every: float = EVERY_SECONDS,
        write: Callable[[str], object] = sys.stderr.write,
    ) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._part = {} if part is None else {"part": part}
        self._manifest = manifest_of(options, part=part)
        self._held = backlog_of(options)
        self.accepted = spark.sparkContext.accumulator(0)
        self._every = every
        self._write = write
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._report, name="progress", daemon=True)
        self._started = time.monotonic()
        self._before = 0

    def __enter__(self) -> Self:
        self._before = self._manifest.counts().sent if self._manifest else 0
        self._thread.start()
        return self

    def __exit__(self, *_details: object) -> None:
        self._ended.set()
        self._thread.join()

    def _report(self) -> None:
        while not self._ended.wait(self._every):
            self._write(json.dumps(self._state()) + "\n")

    def _state(self) -> dict[str, object]:
        seconds = time.monotonic() - self._started
        stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
        running = [stage for stage in stages if stage is not None]
        state: dict[str, object] = {
            "event": "progress",
            **self._part,
            "seconds": round(seconds, 1),
            "tasks": sum(stage.numTasks for stage in running),
            "tasks_ended": sum(stage.numCompletedTasks for stage in running),
        }
        counts = None if self._manifest is None else self._manifest.counts()
        sent = self.accepted.value if counts is None else counts.sent - self._before
        state |= {"messages": sent, "messages_per_second": round(sent / seconds, 1)}
        if self._held is not None:
            state |= self._held()
        if counts is not None:
            state |= {"sent_by_earlier_sessions": self._before, "quarantined": counts.quarantined}
        return state


def backlog_of(options: Mapping[str, str]) -> Callable[[], Mapping[str, object]] | None:
    """Give a function that says which lanes hold the job back by `maxBacklog`; None without that limit."""
    if "maxBacklog" not in options:
        return None
    read = WriterOptions.from_options(options)
    deployment, sqs = read.find_deployment(), read.clients().sqs()

    def held() -> Mapping[str, object]:
        try:
            counts = {name: visible(sqs, queues.url) for name, queues in deployment.queues.items()}
        except AwsError:
            return {}
        full = {name: count for name, count in counts.items() if count >= (read.max_backlog or 0)}
        return {"held_by_max_backlog": full, "max_backlog": read.max_backlog} if full else {}

    return held


def manifest_of(options: Mapping[str, str], *, part: str | None = None) -> RunManifest | None:
    """Give the manifest of these writer options for reading, or that of a part of the run; None without one."""
    if "manifestPath" not in options:
        return None
    storage = open_storage(
        options["manifestPath"], endpoint_url=options.get("endpointUrl"), region=options.get("region")
    )
    run_id = options["runId"] if part is None else f"{options['runId']}/{part}"
    return RunManifest(storage=storage, run_id=run_id, session="")
