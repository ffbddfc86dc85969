"""Writing for jobs, with progress and a summary."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .partitions import PartitionWriter, write_partitions
from .progress import Progress
from .ranges import is_complete

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from .ranges import Ranges
    from .sending.record import RowCounts


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
