"""Calls beside the handler in virtual time: tasks that live as long as the process that started them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from greenlet import getcurrent

from lanes.errors import AwsError
from lanes.testing.calls import ProcessKilled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from greenlet import greenlet

    from lanes.consumer.engines import Pending

    from .scheduler import Scheduler

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
