"""
The purpose of a run: its kind, selection and table, so that its name is not used for another one.

    <manifestPath>/<runId>/purpose.json    written by the first session
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .storage import Storage

CONTENTS = "contents"


def check_purpose(storage: Storage, *, run_id: str, purpose: Mapping[str, object]) -> None:
    """
    Record the purpose of a run in its first session, and compare it in later ones.

    Other contents are reported on standard error: rows that were added or changed since are sent too.

    Args:
        storage: The folder of all manifests.
        run_id: Name of the run.
        purpose: The purpose; `contents` has the counts of the table.

    Raises:
        ConfigurationError: The run has another purpose; both are named.
    """
    name = f"{run_id}/purpose.json"
    mine = json.loads(json.dumps(purpose))
    if storage.create(name, json.dumps(mine, indent=2).encode()):
        return
    known = json.loads(storage.read(name))
    # A file that is sent without Spark has no types, for example.
    different = [key for key in sorted({*known} & {*mine} - {CONTENTS}) if known[key] != mine[key]]
    if different:
        changes = "; ".join(f"{key} is {known[key]!r}, and now {mine[key]!r}" for key in different)
        problem = (
            f"run {run_id!r} is another run: {changes}. Give this one a name of its own, or repeat the first"
        )
        raise ConfigurationError([problem], source="name of the run")
    before, now = known.get(CONTENTS, {}), mine.get(CONTENTS, {})
    # A file that is sent without Spark has no checksum.
    if any(before[key] != now[key] for key in {*before} & {*now}):
        event = {"event": "table_changed", "run": run_id, "before": before, "now": now}
        sys.stderr.write(json.dumps(event) + "\n")
