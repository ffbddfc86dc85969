"""Jobs: changes that run in threads of their own, that pages follow and that can be stopped."""

from __future__ import annotations

import logging
import secrets
import threading
from typing import TYPE_CHECKING, Any

from lanes.errors import ConfigurationError, LanesError
from lanes.ui.changes import Stopped
from lanes.ui.troubles import Trouble, trouble_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.ui.changes import Plan

RUNNING, DONE, FAILED, STOPPED = "running", "done", "failed", "stopped"
MOST_FINISHED = 50

_logger = logging.getLogger(__name__)


class Job:
    """
    One change on its way; it is the change's `Course`.

    Args:
        plan: what to do.
        after: called at its end, however it ended.
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
        self._trouble: Trouble | None = None
        self.thread = threading.Thread(target=self._run, name=self.title, daemon=True)

    def report(self, done: int, expected: int | None = None) -> None:
        """Note how much is done; raises `Stopped` if that was asked for."""
        self._done, self._expected = done, expected if expected is not None else self._expected
        self._check()

    def say(self, text: str) -> None:
        """Note what happens."""
        self._said = text

    def pause(self, seconds: float) -> None:
        """Wait; raises `Stopped` if that is asked for."""
        self._stop.wait(seconds)
        self._check()

    def stop(self) -> None:
        """Ask for the end; what was done stays done."""
        self._stop.set()

    @property
    def is_running(self) -> bool:
        """Whether it goes on."""
        return self._state == RUNNING

    def document(self) -> dict[str, Any]:
        """Tell how it stands."""
        return {
            "id": self.id,
            "title": self.title,
            "state": self._state,
            "done": self._done,
            "expected": self._expected,
            "said": self._said,
            "result": self._result,
            "trouble": self._trouble,
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
            self._trouble = trouble_of(error)
        except Exception as error:
            # The border of a thread: nobody else would hear of it.
            _logger.exception("%s failed", self.title)
            self._trouble = Trouble(status=500, title=f"lanes ui failed: {error!r}")
        finally:
            self._after()
            self._state = state


class Jobs:
    """
    All jobs of a run of the page.

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
            for old in finished[: max(0, len(finished) - MOST_FINISHED)]:
                del self._jobs[old.id]
            self._jobs[job.id] = job
        job.thread.start()
        return job

    def get(self, job_id: str) -> Job:
        """
        Return a job.

        Raises:
            ConfigurationError: there is none, or it ended long ago.
        """
        try:
            return self._jobs[job_id]
        except KeyError:
            raise ConfigurationError(["there is no such job"], source="job") from None

    def running(self) -> list[Job]:
        """Return those that go on, the first started first."""
        with self._lock:
            return [job for job in self._jobs.values() if job.is_running]

    def stop(self, *, within: float) -> list[str]:
        """Stop all jobs and wait for their ends; return what goes on after so many seconds each."""
        running = self.running()
        for job in running:
            job.stop()
        for job in running:
            job.thread.join(within)
        return [job.title for job in running if job.thread.is_alive()]
