"""Run changes as jobs in threads, follow them from any tab, and stop them on request."""

from __future__ import annotations

import contextvars
import logging
import secrets
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from lanes.errors import ConfigurationError, LanesError
from lanes.ui.changes.plans import Stopped
from lanes.ui.faults import Fault, fault_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.ui.changes.plans import Plan

RUNNING, DONE, FAILED, STOPPED = "running", "done", "failed", "stopped"
# The page runs for days; a tab asks for a job within seconds of its end.
MAX_FINISHED = 50

_logger = logging.getLogger(__name__)


class Job:
    """
    A running change; also the `Progress` of that change.

    Args:
        plan: the plan to carry out.
        after: called at the end, even after an error.
    """

    def __init__(self, plan: Plan, *, after: Callable[[], None]) -> None:
        self.id = secrets.token_urlsafe()
        self.title = plan.preview.title
        self._plan = plan
        self._after = after
        self._stop = threading.Event()
        self._state = RUNNING
        self._done = 0
        self._expected: int | None = None
        self._said = ""
        self._result: Mapping[str, Any] = {}
        self._fault: Fault | None = None
        # A daemon: Ctrl-C ends the page after a grace even if a job hangs in a call.
        # In the context of the request, which has the name for the audit trail.
        run = partial(contextvars.copy_context().run, self._run)
        self.thread = threading.Thread(target=run, name=self.title, daemon=True)

    def report(self, done: int, expected: int | None = None) -> None:
        """Store the number of finished items; raises `Stopped` on request."""
        self._done, self._expected = done, expected if expected is not None else self._expected
        self._check()

    def say(self, text: str) -> None:
        """Store the current step."""
        self._said = text

    def pause(self, seconds: float) -> None:
        """Wait; raises `Stopped` on request."""
        self._stop.wait(seconds)
        self._check()

    def stop(self) -> None:
        """Request the end of the job; finished items stay."""
        self._stop.set()

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
            "done": self._done,
            "expected": self._expected,
            "said": self._said,
            "result": self._result,
            "fault": self._fault,
        }

    def _check(self) -> None:
        if self._stop.is_set():
            raise Stopped

    def _run(self) -> None:
        state = FAILED
        try:
            self._result = self._plan.change.make(self)
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
