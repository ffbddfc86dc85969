"""Writing for jobs, with progress and a summary."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .partitions import write_partitions
from .progress import Progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame


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
        `sent`, `seconds`, `messages_per_second`, and with a manifest `skipped`, `quarantined`, `run` and `session`.
    """
    started = time.monotonic()
    with Progress(table.sparkSession, options) as progress:
        written = write_partitions(table, options, accepted=progress.accepted, purpose=purpose)
    seconds = time.monotonic() - started
    of_run = ("skipped", "quarantined", "run", "session") if "run" in written else ()
    return {
        "sent": written["messages"],
        **{name: written[name] for name in of_run},
        "seconds": round(seconds, 2),
        "messages_per_second": round(written["messages"] / seconds, 1),
    }
