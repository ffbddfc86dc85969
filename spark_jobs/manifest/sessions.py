"""
The sessions of a run, one at a time, and its purpose, so that its name is not used for another one.

    <manifestPath>/<runId>/begun/0002.json    the second session: its name, and when it began
    <manifestPath>/<runId>/sessions/<session>.json    it has ended
    <manifestPath>/<runId>/purpose.json    kind, selection and table, written by the first session

The storage creates the file of a number once, so of two sessions that begin at the same time one is refused.
"""

from __future__ import annotations

import json
import sys
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lanes.errors import ConfigurationError, LanesError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

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
