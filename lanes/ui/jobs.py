"""
Carry a change out: a plan with its preview, then once, in a thread, a job that any tab can follow and stop.

Owns the word plan (a change with its preview).
"""

from __future__ import annotations

import contextvars
import dataclasses
import logging
import secrets
import threading
import time
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from lanes.errors import ConfigurationError, LanesError
from lanes.message_filter import MessageFilter
from lanes.operate.move import Change as Request
from lanes.operate.redrive import Task
from lanes.outbox.operations import RETRIED
from lanes.overrides import Action
from lanes.ui.changes import (
    Change,
    DeadLetterWork,
    Moving,
    Preview,
    Progress,
    Retry,
    Stopped,
    Switch,
    Withdrawal,
)
from lanes.ui.fields import (
    conditions_of,
    dead_letters_of,
    entry_filter,
)
from lanes.ui.session import Fault, fault_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.ui.fields import Fields
    from lanes.ui.session import Session

# A plan keeps a sample of messages in memory; an operator has a handful open.
MAX_PLANS = 50
# Longer than a phone call about it, shorter than the state that it shows.
PLAN_LASTS = timedelta(minutes=15)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A change and its preview."""

    id: str
    change: Change
    preview: Preview
    until: float


class Plans:
    """
    Plans that are not carried out yet. Each can be carried out once, within fifteen minutes.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._plans: dict[str, Plan] = {}

    def keep(self, change: Change) -> Plan:
        """Preview a change and keep its plan."""
        plan = Plan(
            id=secrets.token_urlsafe(),
            change=change,
            preview=change.preview(),
            until=self._clock() + PLAN_LASTS.total_seconds(),
        )
        with self._lock:
            self._plans[plan.id] = plan
            while len(self._plans) > MAX_PLANS:
                del self._plans[next(iter(self._plans))]
        return plan

    def take(self, plan_id: str) -> Plan:
        """
        Remove a plan and return it.

        Raises:
            ConfigurationError: the plan was carried out already, or its preview is too old.
        """
        with self._lock:
            # Taken out first, so that two clicks can't make one change twice.
            plan = self._plans.pop(plan_id, None)
        if plan is None or plan.until < self._clock():
            raise ConfigurationError(
                ["this change was made already, or its preview is too old; preview it again"], source="plan"
            )
        return plan


RUNNING, DONE, FAILED, STOPPED = "running", "done", "failed", "stopped"
# The page runs for days; a tab asks for a job within seconds of its end.
MAX_FINISHED = 50

_logger = logging.getLogger(__name__)


class Job:
    """
    A running change.

    Args:
        plan: the plan to carry out.
        after: called at the end, even after an error.
    """

    def __init__(self, plan: Plan, *, after: Callable[[], None]) -> None:
        self.id = secrets.token_urlsafe()
        self.title = plan.preview.title
        self._plan = plan
        self._after = after
        self._progress = Progress()
        self._state = RUNNING
        self._result: Mapping[str, Any] = {}
        self._fault: Fault | None = None
        # A daemon: Ctrl-C ends the page after a grace even if a job hangs in a call.
        # In the context of the request, which has the name for the audit trail.
        run = partial(contextvars.copy_context().run, self._run)
        self.thread = threading.Thread(target=run, name=self.title, daemon=True)

    def stop(self) -> None:
        """Request the end of the job; finished items stay."""
        self._progress.stop()

    @property
    def is_running(self) -> bool:
        """Whether the job is running."""
        return self._state == RUNNING

    def document(self) -> dict[str, Any]:
        """Return the state of the job."""
        return {
            "id": self.id,
            "title": self.title,
            "state": self._state,
            "done": self._progress.done,
            "expected": self._progress.expected,
            "said": self._progress.said,
            "result": self._result,
            "fault": self._fault,
        }

    def _run(self) -> None:
        state = FAILED
        try:
            self._result = self._plan.change.make(self._progress)
            state = DONE
        except Stopped:
            state = STOPPED
        except LanesError as error:
            self._fault = fault_of(error)
        except Exception as error:
            # The boundary of a thread: the error would be lost.
            _logger.exception("%s failed", self.title)
            self._fault = Fault(status=500, title=f"lanes ui failed: {error!r}")
        finally:
            # Before the state changes: a tab that sees the end reads fresh numbers.
            self._after()
            self._state = state


class Jobs:
    """
    All jobs since the start of the page.

    Args:
        after: called at the end of each.
    """

    def __init__(self, *, after: Callable[[], None] = lambda: None) -> None:
        self._after = after
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}

    def start(self, plan: Plan) -> Job:
        """Start a change."""
        job = Job(plan, after=self._after)
        with self._lock:
            finished = [one for one in self._jobs.values() if not one.is_running]
            # A finished job stays for a while, so that its tab can read the result.
            for old in finished[: max(0, len(finished) - MAX_FINISHED)]:
                del self._jobs[old.id]
            self._jobs[job.id] = job
        job.thread.start()
        return job

    def get(self, job_id: str) -> Job:
        """
        Return a job.

        Raises:
            ConfigurationError: there is no such job, or it ended long ago.
        """
        try:
            return self._jobs[job_id]
        except KeyError:
            raise ConfigurationError(
                ["there is no such job; it may have ended long ago"], source="job"
            ) from None

    def running(self) -> list[Job]:
        """Return the running jobs, oldest first."""
        with self._lock:
            return [job for job in self._jobs.values() if job.is_running]

    def stop(self, *, within: float) -> list[str]:
        """Stop all jobs, wait for each up to so many seconds, and return the titles of those still running."""
        running = self.running()
        for job in running:
            job.stop()
        for job in running:
            job.thread.join(within)
        return [job.title for job in running if job.thread.is_alive()]


PLACES = ("lanes", "outbox", "both")


class ChangeRoutes:
    """
    Routes of plans and jobs; all raise `LanesError`.

    Args:
        session: the connection to the lanes.
        after: called at the end of each job.
    """

    def __init__(self, session: Session, *, after: Callable[[], None]) -> None:
        self._session = session
        self._plans = Plans()
        self.jobs = Jobs(after=after)
        self._changes: Mapping[str, Callable[[Fields], Change]] = {
            "pause": lambda fields: self._switch(fields, enabled=False),
            "resume": lambda fields: self._switch(fields, enabled=True),
            "redrive": lambda fields: self._dead_letters(fields, redrives=True),
            "delete": lambda fields: self._dead_letters(fields, redrives=False),
            "withdraw": self._withdrawal,
            "prioritize": lambda fields: self._moving(fields, Action.PRIORITIZE),
            "cancel": lambda fields: self._moving(fields, Action.CANCEL),
            "retry": lambda fields: Retry(
                session=self._session, wanted=entry_filter(fields, default=RETRIED)
            ),
        }

    @property
    def routes(self) -> dict[str, Callable[[Fields], Any]]:
        """The routes by name."""
        return {
            "plan": self.plan,
            "start": self.start,
            "job": self.job,
            "jobs": self.running,
            "stop": self.stop,
        }

    def plan(self, fields: Fields) -> dict[str, Any]:
        """Preview the change that `change` names."""
        change = self._changes[fields.choice("change", list(self._changes))](fields)
        plan = self._plans.keep(change)
        return {"plan": plan.id, "preview": plan.preview}

    def start(self, fields: Fields) -> dict[str, Any]:
        """Start the change of the plan with the id `plan`."""
        return self.jobs.start(self._plans.take(fields.required("plan"))).document()

    def job(self, fields: Fields) -> dict[str, Any]:
        """Return the state of a job."""
        return self.jobs.get(fields.required("id")).document()

    def running(self, _fields: Fields) -> dict[str, Any]:
        """Return the running jobs of all tabs."""
        return {"jobs": [job.document() for job in self.jobs.running()]}

    def stop(self, fields: Fields) -> dict[str, Any]:
        """Ask a job to stop."""
        job = self.jobs.get(fields.required("id"))
        job.stop()
        return job.document()

    def _lane(self, fields: Fields) -> str:
        return self._session.lane(fields.required("lane"))

    def _switch(self, fields: Fields, *, enabled: bool) -> Change:
        return Switch(session=self._session, lane=self._lane(fields), enabled=enabled)

    def _dead_letters(self, fields: Fields, *, redrives: bool) -> Change:
        wanted = dead_letters_of(fields)
        # The same rule as for the verb: nothing brings deleted messages back.
        if not redrives and wanted.chooses_all and not fields.flag("all"):
            raise ConfigurationError(
                ["no dead letters are selected; select some, or set a filter"], source="delete"
            )
        task = Task(lane=self._lane(fields), wanted=wanted, copies=redrives)
        return DeadLetterWork(session=self._session, task=task)

    def _withdrawal(self, fields: Fields) -> Change:
        return Withdrawal(session=self._session, override_id=fields.required("override"))

    def _moving(self, fields: Fields, action: Action) -> Change:
        run, place = fields.text("run"), fields.choice("in", PLACES)
        wanted = MessageFilter(ids=tuple(fields.texts("ids")), run=run, **conditions_of(fields))
        if wanted.chooses_all and not fields.flag("all"):
            raise ConfigurationError(
                ["no filter is set; give an id, a kind, a group, a source, a run or priorities"],
                source="move",
            )
        if run is not None and place == "outbox":
            raise ConfigurationError(
                ["entries of an outbox belong to no run; choose lanes, or leave out the run"], source="move"
            )
        priority = _priority(fields) if action is Action.PRIORITIZE else 0
        request = Request(action=action, wanted=wanted, priority=priority, why=fields.text("why") or "")
        return Moving(session=self._session, change=request, lanes=place != "outbox", outbox=place != "lanes")


def _priority(fields: Fields) -> int:
    priority = fields.integer("priority")
    if priority is None:
        raise ConfigurationError(["priority is missing; give a whole number"], source="request")
    return priority
