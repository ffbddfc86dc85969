"""Writing for jobs: through the data source if Spark supports it, with progress lines and a summary."""

from __future__ import annotations

import json
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .parallelism import with_tasks
from .partitions import write_partitions
from .progress import Progress, manifest_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame


def write_table(table: DataFrame, options: Mapping[str, str]) -> dict[str, Any]:
    """
    Send a table and give a summary.

    Args:
        table: Table with the columns of `LanesDataSource`.
        options: Options of `LanesDataSource`.

    Returns:
        `sent`, `seconds`, `messages_per_second`, and with a manifest `skipped` and `quarantined`.
    """
    options = with_tasks(options, table.sparkSession)
    started = time.monotonic()
    with Progress(table.sparkSession, options):
        sent = _write(table, options)
    seconds = time.monotonic() - started
    summary: dict[str, Any] = {"sent": sent}
    manifest = manifest_of(options)
    if manifest is not None:
        *_, last = manifest.storage.names(f"{manifest.run_id}/sessions/")
        session = json.loads(manifest.storage.read(last))
        summary = {
            "sent": session["messages"],
            **{name: session[name] for name in ("skipped", "quarantined")},
        }
        summary |= {"run": manifest.run_id, "session": session["session"]}
    return summary | {
        "seconds": round(seconds, 2),
        "messages_per_second": round(summary["sent"] / seconds, 1),
    }


def _write(table: DataFrame, options: Mapping[str, str]) -> int:
    if any(find_spec(name) is None for name in ("pyspark.sql.datasource", "pyarrow")):
        messages = write_partitions(table, options)["messages"]
        assert isinstance(messages, int)  # noqa: S101 - a count
        return messages
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    from .source import LanesDataSource

    table.sparkSession.dataSource.register(LanesDataSource)
    rows = Observation()
    counted = table.observe(rows, f.count(f.lit(1)).alias("rows"))
    counted.write.format("lanes").mode("append").options(**options).save()
    return int(rows.get["rows"])
