"""Virtual time: events in their order, tasks that run blocking code without real waits, and calls beside them."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, Generic, TypeVar

from greenlet import getcurrent, greenlet

from lanes.errors import AwsError
from lanes.testing.calls import ProcessKilled
from lanes.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.consumer.engines import Pending


_NEVER = float("inf")
_ENDED = float("-inf")


class Task(greenlet):  # type: ignore[misc] # greenlet comes without types
    """
    One sequence of blocking code in virtual time; it is killed when time reaches `ends_at`.

    A task that another one started, like a thread of its process, is killed with its `owner`.
    """

    ends_at: float = _NEVER
    owner: Task | None = None
    paused: object = None


class Scheduler:
    """
    Run events one at a time, by time, and those of one time in the order they were added.

    Consumer code blocks: it calls AWS and runs handlers. Here each invocation is a task, a coroutine without keywords;
    `sleep` inside it runs the other tasks until its time has passed.

    Attributes:
        now: epoch seconds.
        events: number of events run so far.

    """

    def __init__(self) -> None:
        self.now = START
        self.events = 0
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._hub: greenlet | None = None

    def clock(self) -> float:
        """Return the time in epoch seconds; pass this method as a clock."""
        return self.now

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        """Run an action after some seconds."""
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), action))

    def spawn(self, action: Callable[[], object], *, owner: Task | None = None) -> None:
        """Start a task now; it runs until it sleeps or ends. It dies with its owner."""
        task = Task(action, parent=self._hub)
        task.owner = owner
        task.switch()

    def sleep(self, seconds: float) -> None:
        """
        Let time pass in the calling task; only tasks can sleep.

        Raises:
            ProcessKilled: the task's end came first. If it sleeps again, this is raised again.

        """
        task = getcurrent()
        ends_at = _end_of(task)
        if self.now + seconds >= ends_at:
            self._pass(task, ends_at - self.now)
            self.die()
        self._pass(task, seconds)
        if _end_of(task) is not ends_at:
            self._check_alive(task)

    def pause(self) -> None:
        """
        Let time pass in the calling task until `resume` is called for it.

        Raises:
            ProcessKilled: the task's end came first.

        """
        task, ends_at = getcurrent(), _end_of(getcurrent())
        task.paused = token = object()
        if ends_at < _NEVER:
            self.after(
                max(0.0, ends_at - self.now), lambda: self.resume(task) if task.paused is token else None
            )
        assert self._hub is not None  # noqa: S101 - tasks run inside of `run`
        self._hub.switch()
        self._check_alive(task)

    def resume(self, task: greenlet) -> None:
        """Continue a paused task; one that is not paused is left alone."""
        if task.paused is not None:
            task.paused = None
            self.after(0.0, task.switch)

    def _check_alive(self, task: greenlet) -> None:
        if self.now >= _end_of(task):
            self.die()

    def die(self) -> None:
        """
        End the calling task like a killed process: its clean-up code may run, but none of its calls succeeds.

        Raises:
            ProcessKilled: always.

        """
        getcurrent().ends_at = _ENDED
        raise ProcessKilled

    def ends_at(self, moment: float) -> None:
        """Kill the calling task at that time if it still runs."""
        getcurrent().ends_at = moment

    def run(self, *, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass; return whether `until`, checked after every event and at the end, became true."""
        self._hub = getcurrent()
        end = self.now + seconds
        events = self._events
        while events and events[0][0] <= end:
            moment, _, action = heapq.heappop(events)
            self.now = max(self.now, moment)
            self.events += 1
            action()
            if until is not None and until():
                return True
        self.now = max(self.now, end) if until is None else self.now
        return until is not None and until()

    def _pass(self, task: greenlet, seconds: float) -> None:
        if seconds <= 0:
            return
        self.after(seconds, task.switch)
        assert self._hub is not None  # noqa: S101 - tasks run inside of `run`
        self._hub.switch()


def _end_of(task: greenlet) -> float:
    """Return when a task is killed, or its owner."""
    ends_at: float = getattr(task, "ends_at", _NEVER)
    owner = getattr(task, "owner", None)
    return ends_at if owner is None else min(ends_at, _end_of(owner))


T = TypeVar("T")


class SimulatedCall(Generic[T]):
    """A call that begins at a time, or as soon as its result is asked for."""

    def __init__(self, scheduler: Scheduler, call: Callable[[], T], *, after: float) -> None:
        self._scheduler = scheduler
        self._call = call
        self._owner = getcurrent()
        self._has_begun = False
        self._results: list[T] = []
        self._error: AwsError | None = None
        self.waiting: list[greenlet] = []
        scheduler.after(after, self._begin)

    def done(self) -> bool:
        """Whether it has ended."""
        return bool(self._results) or self._error is not None

    def result(self) -> T:
        """Begin now if it has not begun, wait for the end, and return the result or raise the error."""
        if not self._has_begun:
            self._scheduler.after(0.0, self._begin)
        while not self.done():
            self.waiting.append(getcurrent())
            self._scheduler.pause()
        if self._error is not None:
            raise self._error
        return self._results[0]

    def cancel(self) -> bool:
        """Return whether it has not begun and never will."""
        is_mine = not self._has_begun
        self._has_begun = True
        return is_mine

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._scheduler.spawn(self._run, owner=self._owner)

    def _run(self) -> None:
        try:
            self._results.append(self._call())
        except AwsError as error:
            self._error = error
        except ProcessKilled:
            return
        for task in self.waiting:
            self._scheduler.resume(task)


class SimulatedBeside:
    """Makes the calls in tasks."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def start(self, call: Callable[[], T], *, after: float = 0.0) -> Pending[T]:
        """Make a call some seconds from now, or as soon as its result is asked for."""
        return SimulatedCall(self._scheduler, call, after=after)

    def wait(self, calls: Sequence[Pending[object]]) -> None:
        """Wait until one of the calls has ended."""
        while not any(call.done() for call in calls):
            for call in calls:
                if isinstance(call, SimulatedCall):
                    call.waiting.append(getcurrent())
            self._scheduler.pause()
