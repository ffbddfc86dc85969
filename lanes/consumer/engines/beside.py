"""Calls beside the handler: receives and deletions that take no slot time."""

from __future__ import annotations

import concurrent.futures
import threading
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Pending(Protocol[T_co]):
    """A call beside the handler."""

    def done(self) -> bool:
        """Whether it has ended."""

    def result(self) -> T_co:
        """Begin it now if it has not begun, wait for its end, and return its result or raise its error."""


class Beside(Protocol):
    """Makes calls beside the handler."""

    def start(self, call: Callable[[], T], *, after: float = 0.0) -> Pending[T]:
        """Make a call some seconds from now, or as soon as its result is asked for."""

    def wait(self, calls: Sequence[Pending[object]]) -> None:
        """Wait until one of the calls has ended."""


class Threads:
    """
    Makes the calls in threads of this process.

    AWS: Lambda freezes the process between invocations, so the caller waits for the end of each call before its answer
    (Lambda developer guide, "Execution environment lifecycle").

    Args:
        most: the largest number of calls at once.

    """

    def __init__(self, most: int) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(most, thread_name_prefix="lanes-beside")

    def start(self, call: Callable[[], T], *, after: float = 0.0) -> Pending[T]:
        """Make a call in a thread."""
        if not after:
            return _InThread(self._pool.submit(call))
        asked = threading.Event()

        def run() -> T:
            asked.wait(after)
            return call()

        return _InThread(self._pool.submit(run), asked)

    def wait(self, calls: Sequence[Pending[object]]) -> None:
        """Wait until one of the calls has ended, all of them started here."""
        futures = [call.future for call in calls if isinstance(call, _InThread)]
        concurrent.futures.wait(futures, return_when=concurrent.futures.FIRST_COMPLETED)


class _InThread(Pending[T]):
    def __init__(self, future: concurrent.futures.Future[T], asked: threading.Event | None = None) -> None:
        self.future = future
        self._asked = asked

    def done(self) -> bool:
        return self.future.done()

    def result(self) -> T:
        if self._asked is not None:
            self._asked.set()
        return self.future.result()
