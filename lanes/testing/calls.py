"""The calls to AWS of a process in memory, which a test counts, slows down and breaks, and calls beside handlers."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, TypeVar

from lanes.consumer.engines import Pending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")


class ProcessKilled(KeyboardInterrupt):
    """
    The process of the function ends here, as by Lambda's timeout or for want of memory; a handler may raise it.

    Not an `Exception`, so that a handler's own `except Exception` lets it pass.
    """


class Calls:
    """
    Count calls to AWS, let them take time, and break some of them.

    `takes` lets the time of a call pass, and others act in it. `break_if` refuses a call before its effect, `lose_if`
    loses the answer of one that took effect. Either may return `ProcessKilled`; from then on every call of the process
    raises it, until you reset `killed`.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.log: list[str] = []
        self.break_if: Callable[[str, int], BaseException | None] = lambda _operation, _position: None
        self.lose_if: Callable[[str, int], BaseException | None] = lambda _operation, _position: None
        self.takes: Callable[[str], None] = lambda _operation: None
        self.killed = False

    @contextmanager
    def make(self, operation: str) -> Iterator[None]:
        """Count one call and make it in the body; raise the errors of `break_if` and `lose_if`."""
        if self.killed:
            raise ProcessKilled
        position = len(self.log)
        self.log.append(operation)
        self.counts[operation] += 1
        self.takes(operation)
        self._raise(self.break_if(operation, position))
        yield
        self._raise(self.lose_if(operation, position))

    def crash(self) -> NoReturn:
        """Let the process die here."""
        self._raise(ProcessKilled())
        raise AssertionError

    def _raise(self, error: BaseException | None) -> None:
        if error is None:
            return
        self.killed = self.killed or isinstance(error, ProcessKilled)
        raise error


class InLine:
    """Makes the calls beside the handler one after the other: at once, or when their results are asked for."""

    def start(self, call: Callable[[], T], *, after: float = 0.0) -> Pending[T]:
        """Make a call now; one that is meant for later, when its result is asked for."""
        made = _Made(call)
        if not after:
            made.make()
        return made

    def wait(self, calls: Sequence[Pending[object]]) -> None:
        """Do nothing: the calls have ended."""


class _Made(Pending[T]):
    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._made: Future[T] = Future()

    def make(self) -> None:
        try:
            self._made.set_result(self._call())
        except Exception as error:  # noqa: BLE001 - it belongs to the one who asks for the result
            self._made.set_exception(error)

    def done(self) -> bool:
        return self._made.done()

    def cancel(self) -> bool:
        return self._made.cancel()

    def result(self) -> T:
        if not self._made.done():
            self.make()
        return self._made.result()
