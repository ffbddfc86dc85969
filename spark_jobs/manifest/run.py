"""
The manifest of a run: the ids of sent messages, written while the run is in progress.

    <manifestPath>/<runId>/begun/<session>.json                         when a session began
    <manifestPath>/<runId>/sent/<session>/p00003-a17-0001-1000.json     1,000 ids sent for partition 3, attempt 17
    <manifestPath>/<runId>/quarantine/<session>/p00003-a17-0001-2.jsonl    2 rows that cannot be sent, with reasons
    <manifestPath>/<runId>/sessions/<session>.json                      the summary of a finished session

A session is one execution of the job; each rerun of a run is another session. Files never change, so tasks need no
locks. File names contain the counts, so a listing gives the progress of a run.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from .sent_before import SentBefore
from .task import TaskManifest, read_ids

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .storage import Storage

SEGMENT = re.compile(r".*/p(?P<partition>\d+)-a(?P<attempt>\d+)-(?P<number>\d+)-(?P<rows>\d+)\.jsonl?")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunManifest:
    """
    The manifest of one run in one session.

    Attributes:
        storage: The folder of all manifests.
        run_id: Name of the run.
        session: Name of this execution of the job.
        earlier: Whether other sessions have sent messages.
    """

    storage: Storage
    run_id: str
    session: str
    earlier: bool = False

    @classmethod
    def open(cls, storage: Storage, *, run_id: str, now: datetime) -> RunManifest:
        """
        Begin a session and look for earlier ones, once, on the driver.

        The session is written before any message is sent, so a folder without write access fails here.
        """
        earlier = next(iter(storage.names(f"{run_id}/sent/")), None) is not None
        session = f"{now.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}"
        begun = {"begun": f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"}
        storage.write(f"{run_id}/begun/{session}.json", json.dumps(begun).encode())
        return cls(storage=storage, run_id=run_id, session=session, earlier=earlier)

    def task(self, *, partition: int, attempt: int, first: bool) -> TaskManifest:
        """
        Open the manifest in a task.

        Args:
            partition: Number of the partition.
            attempt: Number of this attempt, unique in the session.
            first: Whether this is the first attempt at the partition.
        """
        before = SentBefore()
        sent = f"{self.run_id}/sent/"
        if self.earlier or not first:
            # Other tasks of this session matter only after a failure, when rows may be in other partitions.
            names = self.storage.names(sent)
            own = f"/sent/{self.session}/"
            before.add_all(read_ids(self.storage, (name for name in names if not first or own not in name)))
        task = TaskManifest(
            self.storage,
            run_id=self.run_id,
            session=self.session,
            partition=partition,
            attempt=attempt,
            before=before,
        )
        task.refresh()
        return task

    def rows(self, kind: str = "sent") -> int:
        """Count the rows that all sessions have `sent`, or put into `quarantine`, from the file names alone."""
        return sum(rows_of(name) for name in self.storage.names(f"{self.run_id}/{kind}/"))

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the summary of the session."""
        content = json.dumps(summary, indent=2).encode()
        self.storage.write(f"{self.run_id}/sessions/{self.session}.json", content)


def rows_of(name: str) -> int:
    """Give the number of rows in a file of a manifest, from its name."""
    segment = SEGMENT.fullmatch(name)
    return int(segment["rows"]) if segment else 0
