"""
The manifest of a run: the ids of sent messages, written while the run is in progress.

    <manifestPath>/<runId>/begun/0001.json                              name and start of the first session
    <manifestPath>/<runId>/sent/<session>/p00003-a17-0001-1000.json     1,000 ids sent for partition 3, attempt 17
    <manifestPath>/<runId>/quarantine/<session>/p00003-a17-0001-2.jsonl    2 rows that cannot be sent, with reasons
    <manifestPath>/<runId>/ended/<session>/p00003-a17.json              rows skipped, or the failure with its row
    <manifestPath>/<runId>/streams/<query>/batch-7/sent/...             the same for a batch of a stream
    <manifestPath>/<runId>/sessions/<session>.json                      the summary of a session that has ended

A session is one execution of the job; each rerun of a run is another session, and `sessions` lets one at a time work.
Files never change, so tasks need no locks. File names contain the counts, so a listing gives the progress of a run.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lanes.aws.bulk import OF_TASK, ManifestCounts, counts_of, last_attempts, task_of

from .sent_before import SentBefore
from .task import TaskManifest, read_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .sessions import Claim
    from .storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class RunManifest:
    """
    The manifest of one run in one session.

    Attributes:
        storage: The folder of all manifests.
        run_id: Name of the run.
        session: Name of this execution of the job.
        earlier: Whether other sessions have sent messages.
        claim: The session's right to send; None for the batches of a stream, which have one sender by their checkpoint.
        clock: Monotonic seconds.
    """

    storage: Storage
    run_id: str
    session: str
    earlier: bool = False
    claim: Claim | None = None
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def open(
        cls, storage: Storage, *, run_id: str, now: datetime, clock: Callable[[], float] = time.monotonic
    ) -> RunManifest:
        """
        Name a session and look for messages of earlier ones, once, on the driver.

        The caller takes its `Claim` before.
        """
        earlier = next(iter(storage.names(f"{run_id}/sent/")), None) is not None
        return cls(storage=storage, run_id=run_id, session=session_name(now), earlier=earlier, clock=clock)

    def sent_before(self) -> SentBefore:
        """Read what earlier sessions have sent."""
        before = SentBefore()
        if self.earlier:
            own = f"{self.run_id}/sent/{self.session}/"
            names = self.storage.names(f"{self.run_id}/sent/")
            before.add_all(read_ids(self.storage, (name for name in names if not name.startswith(own))))
        return before

    def task(
        self, *, partition: int, attempt: int, first: bool, before: SentBefore | None = None
    ) -> TaskManifest:
        """
        Open the manifest in a task.

        Args:
            partition: Number of the partition.
            attempt: Number of this attempt, unique in the session.
            first: Whether this is the first attempt at the partition.
            before: What earlier sessions have sent, if it is known already.
        """
        self.check()
        now = SentBefore()
        if not first:
            # Other tasks of this session matter only after a failure, when rows may be in other partitions.
            now.add_all(read_ids(self.storage, self.storage.names(f"{self.run_id}/sent/{self.session}/")))
        task = TaskManifest(
            self.storage,
            run_id=self.run_id,
            session=self.session,
            partition=partition,
            attempt=attempt,
            before=self.sent_before() if before is None else before,
            now=now,
            clock=self.clock,
            check=self.check,
        )
        task.refresh()
        return task

    def check(self) -> None:
        """
        Check that the run is still this session's.

        Raises:
            TakenOverError: Another session has taken it over.
        """
        if self.claim is not None:
            self.claim.check(self.storage)

    def counts(self) -> ManifestCounts:
        """Count the messages of all sessions, and the rows that the last one has set aside."""
        return counts_of(self.storage.names(f"{self.run_id}/"))

    def of_session(self) -> dict[str, Any]:
        """
        Give the counts of this session so far, and its first row that cannot be sent, if one has ended a task.

        They are in the files of its tasks: the driver knows no counts of tasks that have failed.
        """
        names: dict[str, list[str]] = defaultdict(list)
        for name in self.storage.names(f"{self.run_id}/"):
            if (found := OF_TASK.fullmatch(name)) and found["session"] == self.session:
                names[found["kind"]].append(name)
        ends = [json.loads(self.storage.read(name)) for name in last_attempts(names["ended"])]
        bad = [end["bad_row"] for end in ends if "bad_row" in end]
        return {
            "messages": self._distinct(names["sent"]),
            "skipped": sum(end["skipped"] for end in ends),
            "quarantined": counts_of(names["quarantine"]).quarantined,
            **({"bad_row": bad[0]} if bad else {}),
        }

    def _distinct(self, names: list[str]) -> int:
        """Count messages; attempts at one partition that ran at the same time may both have sent one."""
        attempts: dict[str, set[str]] = defaultdict(set)
        for name in names:
            partition, attempt = task_of(name)
            attempts[partition].add(attempt)
        shared = [name for name in names if len(attempts[task_of(name)[0]]) > 1]
        ids = {one for some in read_ids(self.storage, shared) for one in some}
        return counts_of(set(names) - set(shared)).sent + len(ids)

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the summary of the session, which ends it."""
        content = json.dumps(summary, indent=2).encode()
        self.storage.write(f"{self.run_id}/sessions/{self.session}.json", content)


def session_name(now: datetime) -> str:
    """Name a session by its start."""
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}"
