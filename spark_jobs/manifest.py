"""
The manifest of a run: which messages were sent, written down while the run goes on.

    <manifestPath>/<runId>/begun/<session>.json                         when a session began
    <manifestPath>/<runId>/sent/<session>/p00003-a17-0001-5000.json     5,000 ids sent for partition 3, attempt 17
    <manifestPath>/<runId>/quarantine/<session>/p00003-a17-0001-2.jsonl    2 rows that can't be sent, with reasons
    <manifestPath>/<runId>/sessions/<session>.json                      what a finished session came to

A session is one execution of the job; reruns of a run are further sessions. Nothing is ever changed or deleted, so
tasks need no locks. The counts are in the names, so that a listing shows how far a run has come.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from .sent_before import SentBefore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .outgoing_rows import OutgoingRow
    from .storage import Storage

    Row = Mapping[str, Any]

SEGMENT = re.compile(r".*/p(?P<partition>\d+)-a(?P<attempt>\d+)-(?P<number>\d+)-(?P<rows>\d+)\.jsonl?")
SEGMENT_ROWS = 10_000
QUARANTINE_BYTES = 4 * 1024 * 1024
# What is sent and not yet written down is sent again after a crash. SQS drops such repeats for five minutes, so
# this must be far below that.
FLUSH_SECONDS = 5.0
# A speculative copy of a task may have run ahead; its rows must be known within the same five minutes.
LOOK_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunManifest:
    """
    The manifest of one run, seen from one session.

    Attributes:
        storage: the folder of all manifests.
        run_id: names the run.
        session: names this execution of the job.
        earlier: whether other sessions have sent something.
    """

    storage: Storage
    run_id: str
    session: str
    earlier: bool = False

    @classmethod
    def open(cls, storage: Storage, *, run_id: str, now: datetime) -> RunManifest:
        """
        Begin a session and look for earlier ones; done once, on the driver.

        It is written down before anything is sent, so that a place which can't be written to is known by then.
        """
        earlier = next(iter(storage.names(f"{run_id}/sent/")), None) is not None
        session = f"{now.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}"
        begun = {"begun": f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"}
        storage.write(f"{run_id}/begun/{session}.json", json.dumps(begun).encode())
        return cls(storage=storage, run_id=run_id, session=session, earlier=earlier)

    def task(self, *, partition: int, attempt: int, first: bool) -> TaskManifest:
        """
        Open it for a task.

        Args:
            partition: number of the partition.
            attempt: names this attempt among all of the session.
            first: whether this is the first attempt at the partition.
        """
        before = SentBefore()
        sent = f"{self.run_id}/sent/"
        own = f"{sent}{self.session}/p{partition:05d}-"
        if self.earlier or not first:
            before.add_all(
                self._ids(name) for name in self.storage.names(sent) if self._counts(name, first=first)
            )
        task = TaskManifest(self, partition=partition, attempt=attempt, before=before, own=own)
        task.look()
        return task

    def rows(self, kind: str = "sent") -> int:
        """Count what all sessions have sent, or put into `quarantine`; from the names alone."""
        return sum(rows_of(name) for name in self.storage.names(f"{self.run_id}/{kind}/"))

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write down what the session came to."""
        content = json.dumps(summary, indent=2).encode()
        self.storage.write(f"{self.run_id}/sessions/{self.session}.json", content)

    def _counts(self, name: str, *, first: bool) -> bool:
        # What other tasks of this session sent concerns a task only when rows may have moved between them.
        return not first or f"/sent/{self.session}/" not in name

    def _ids(self, name: str) -> list[str]:
        ids: list[str] = json.loads(self.storage.read(name))["ids"]
        return ids


class TaskManifest:
    """What one task knows and writes of the manifest of its run; see `RunManifest.task`."""

    def __init__(
        self,
        run: RunManifest,
        *,
        partition: int,
        attempt: int,
        before: SentBefore,
        own: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._name = f"p{partition:05d}-a{attempt}"
        self._before = before
        self._own = own
        self._clock = clock
        self._segments = 0
        self._read: set[str] = set()
        self._looked_at = self._flushed_at = clock()
        self._ids: list[str] = []
        self._lanes: dict[str, int] = {}
        self._rows: list[str] = []
        self._rows_bytes = 0

    def has(self, identity: str) -> bool:
        """Tell whether the message of this id was sent before."""
        return self._before.has(identity)

    def look(self) -> None:
        """Take in what other attempts at the same partition have sent meanwhile."""
        self._looked_at = self._clock()
        names = [name for name in self._run.storage.names(self._own) if name not in self._read]
        self._read.update(names)
        self._before.add_all(
            self._run._ids(name)  # noqa: SLF001 - two halves of one record
            for name in names
            if f"/{self._name}-" not in name
        )

    def sent(self, lane: str, items: Iterable[OutgoingRow]) -> None:
        """Note messages that are in the queue; every few seconds the notes are written."""
        before = len(self._ids)
        self._ids.extend([item.id for item in items])
        self._lanes[lane] = self._lanes.get(lane, 0) + len(self._ids) - before
        now = self._clock()
        if len(self._ids) >= SEGMENT_ROWS or now - self._flushed_at >= FLUSH_SECONDS:
            self.flush()
        if now - self._looked_at >= LOOK_SECONDS:
            self.look()

    def quarantined(self, *, position: int, row: Row, reason: str) -> None:
        """Put a row aside, as it is and with the reason."""
        line = json.dumps({"position": position, "reason": reason, "row": row}, default=_in_words)
        self._rows.append(line)
        self._rows_bytes += len(line)
        if self._rows_bytes >= QUARANTINE_BYTES or len(self._rows) >= SEGMENT_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write down what was noted."""
        self._flushed_at = self._clock()
        if self._ids:
            noted = {
                "written": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
                "lanes": self._lanes,
                "ids": self._ids,
            }
            self._write("sent", len(self._ids), json.dumps(noted).encode(), "json")
            self._ids, self._lanes = [], {}
        if self._rows:
            self._write(
                "quarantine", len(self._rows), "".join(f"{row}\n" for row in self._rows).encode(), "jsonl"
            )
            self._rows, self._rows_bytes = [], 0

    def _write(self, kind: str, rows: int, content: bytes, ending: str) -> None:
        self._segments += 1
        file = f"{self._name}-{self._segments:04d}-{rows}.{ending}"
        self._run.storage.write(f"{self._run.run_id}/{kind}/{self._run.session}/{file}", content)


def rows_of(name: str) -> int:
    """Give the number of rows in a file of a manifest, from its name."""
    segment = SEGMENT.fullmatch(name)
    return int(segment["rows"]) if segment else 0


def _in_words(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)
