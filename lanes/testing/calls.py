"""The calls to AWS of a process in memory, which a test or a run counts, slows down and breaks."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
