"""
The manifest of a run: the ids of sent messages, written while the run is in progress.

    <manifestPath>/<runId>/begun/0001.json                              name and start of the first session
    <manifestPath>/<runId>/sent/<session>/p00003-a17-0001-1000.json     1,000 ids sent for partition 3, attempt 17
    <manifestPath>/<runId>/quarantine/<session>/p00003-a17-0001-2.jsonl    2 rows that cannot be sent, with reasons
    <manifestPath>/<runId>/ended/<session>/p00003-a17.json              rows skipped, or the failure with its row
    <manifestPath>/<runId>/streams/<query>/batch-7/sent/...             the same for a batch of a stream
    <manifestPath>/<runId>/sessions/<session>.json                      the summary of a session that has ended
    <manifestPath>/<runId>/purpose.json                                 kind, selection and table, of the first session

A session is one execution of the job; each rerun of a run is another session, and one at a time works: the storage
creates the file of a number once, so of two sessions that begin at the same time one is refused.
Files never change, so tasks need no locks. File names contain the counts, so a listing gives the progress of a run.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lanes.aws.bulk import OF_TASK, ManifestCounts, counts_of, last_attempts, task_of
from lanes.errors import ConfigurationError, LanesError

from .task import SentBefore, TaskManifest, read_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .storage import Storage

NUMBER_DIGITS = 4
CONTENTS = "contents"


class RunInUseError(LanesError):
    """Another session of the run has begun and has not ended; nothing was sent."""

    def __init__(self, *, run_id: str, session: str, begun: str) -> None:
        self.run_id = run_id
        self.session = session
        self.begun = begun
        super().__init__(
            f"run {run_id!r} has a session that began at {begun} and has not ended; wait for its end, or stop it. If "
            f"it has crashed, take its run over: --take-over, or the option takeOver=true"
        )


class TakenOverError(LanesError):
    """Another session has taken the run over while this one ran; it sends the remaining rows."""

    def __init__(self, *, run_id: str, session: str, by: str, begun: str) -> None:
        super().__init__(
            f"session {by}, which began at {begun}, has taken over run {run_id!r}; session {session} sends no more rows"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """
    The right of a session to send the rows of its run.

    Attributes:
        run_id: Name of the run.
        session: Name of the session.
        number: Its number in the run, from 1.
    """

    run_id: str
    session: str
    number: int

    @classmethod
    def take(cls, storage: Storage, *, run_id: str, session: str, now: datetime, take_over: bool) -> Claim:
        """
        Begin a session.

        Args:
            storage: The folder of all manifests.
            run_id: Name of the run.
            session: Name of the session.
            now: Its start.
            take_over: Begin although an earlier session has not ended.

        Raises:
            RunInUseError: A session has not ended, or another one begins at this moment.
        """
        last = last_number(storage, run_id)
        found = _open(storage, run_id, last) if last and not take_over else None
        if found is not None:
            raise RunInUseError(run_id=run_id, session=found[0], begun=found[1])
        claim = cls(run_id=run_id, session=session, number=last + 1)
        mine = {"session": session, "begun": f"{now:%Y-%m-%dT%H:%M:%SZ}", "token": uuid.uuid4().hex}
        if not storage.create(_name(run_id, claim.number), json.dumps(mine).encode()):
            theirs = json.loads(storage.read(_name(run_id, claim.number)))
            # A client repeats a request with a lost answer, and finds its own file.
            if theirs["token"] != mine["token"]:
                raise RunInUseError(run_id=run_id, session=theirs["session"], begun=theirs["begun"])
        return claim

    def check(self, storage: Storage) -> None:
        """
        Check that no other session has taken the run over.

        Raises:
            TakenOverError: One has.
        """
        last = last_number(storage, self.run_id)
        if last > self.number:
            by = json.loads(storage.read(_name(self.run_id, last)))
            raise TakenOverError(
                run_id=self.run_id, session=self.session, by=by["session"], begun=by["begun"]
            )


def last_number(storage: Storage, run_id: str) -> int:
    """Give the number of the last session of a run; 0 if there is none."""
    names = [name.rpartition("/")[2] for name in storage.names(f"{run_id}/begun/")]
    return max((int(name.removesuffix(".json")) for name in names), default=0)


def _open(storage: Storage, run_id: str, number: int) -> tuple[str, str] | None:
    begun = json.loads(storage.read(_name(run_id, number)))
    name = f"{run_id}/sessions/{begun['session']}.json"
    return None if name in storage.names(name) else (begun["session"], begun["begun"])


def _name(run_id: str, number: int) -> str:
    return f"{run_id}/begun/{number:0{NUMBER_DIGITS}d}.json"


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
    # The data source knows less of its purpose than a job.
    different = [key for key in sorted({*known} & {*mine} - {CONTENTS}) if known[key] != mine[key]]
    if different:
        changes = "; ".join(f"{key} is {known[key]!r}, and now {mine[key]!r}" for key in different)
        problem = (
            f"run {run_id!r} is another run: {changes}. Give this one a name of its own, or repeat the first"
        )
        raise ConfigurationError([problem], source="name of the run")
    before, now = known.get(CONTENTS, {}), mine.get(CONTENTS, {})
    if any(before[key] != now[key] for key in {*before} & {*now}):
        event = {"event": "table_changed", "run": run_id, "before": before, "now": now}
        sys.stderr.write(json.dumps(event) + "\n")


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
