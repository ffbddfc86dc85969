"""
Engines: where records come from, when they give way, and how their outcomes reach the queue.

An engine receives Lambda's event, lets the corridor (`lanes.consumer.batch`) handle each batch, and answers. For each
batch it gives the corridor a `Turn`, which the corridor asks before every record.

*Mapped* (`mapped.py`): a mapping hands over batches of one lane, and a record yields to the backlog (`backlog.py`) that
a check (`check.py`) finds in a lane above. *Pull* (`pull.py`): an invocation holds a slot (`slot.py`), which receives
from the lanes itself (`looks.py`). `policy.py` has the decisions of a slot.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from concurrent import futures
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lanes.config.settings import LARGEST_BATCH
from lanes.consumer.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lanes.config import Lane
    from lanes.consumer.calls import Call
    from lanes.consumer.engines.policy import Reserve
    from lanes.consumer.outcome import Outcome, Outcomes
    from lanes.consumer.records import PartialBatchResponse, RawRecord

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_NOTHING = contextlib.nullcontext()


@value(frozen=True, slots=True, kw_only=True)
class Proceed:
    """
    The next record may start.

    Attributes:
        reserve: the account that its time is charged to, if it is overdue and served from the reserve.
        waited: seconds that it has had the slot before its start, which are charged as well.
        may_yield: whether its handler may yield at a checkpoint.
        most: how many records may start together, in one call of a batch handler; none if the resource of the first one
            was found away meanwhile.
        ages: whether the knowledge of the lanes above ages in calls before its handler, so that it is checked again.
        during: entered while its handler runs.

    """

    reserve: Reserve | None = None
    waited: float = 0.0
    may_yield: bool = True
    most: int = LARGEST_BATCH
    ages: bool = False
    during: contextlib.AbstractContextManager[None] = _NOTHING


class Turn(Protocol):
    """One batch's turn with a slot, from its acquisition to the last call for its records."""

    def hold(self, outcomes: Outcomes) -> Collection[str]:
        """Keep the records invisible while they are handled; return the ids of lost ones; raises `AwsError`."""

    def decide(
        self, rest: Sequence[RawRecord], call: Call, *, expected: float, has_worked: bool
    ) -> Proceed | Outcome:
        """
        Return whether a call with the first of the undecided records may start, or the outcome with which all yield.

        A record of the lane is likely to take `expected` seconds at most; `has_worked` after a finished one.
        """

    def checkpoint(self) -> Lane | None:
        """Return the lane that a handler at a checkpoint has to yield to, or None."""

    def yielded(self, rest: Sequence[RawRecord], *, to: Lane | None) -> Outcome:
        """Return the outcome of the rest after the handler of its first record yielded at a checkpoint."""

    def close(self, outcomes: Outcomes) -> None:
        """Release the slot, settle the outcomes and wake parked records: once a turn, also after an error."""


class Engine(Protocol):
    """One way to run a consumer."""

    def run(self, event: Mapping[str, Any], context: Any) -> PartialBatchResponse:
        """Handle one invocation; raises `ConfigurationError` for an event of no lane, of which all records stay."""

    def work(self, context: Any, *, slot: int) -> float:
        """Serve the lanes for one slot of a process; return the seconds until the next call, as `Consumer.work`."""


class Pending(Protocol[T_co]):
    """A call beside the handler."""

    def done(self) -> bool:
        """Whether it has ended."""

    def result(self) -> T_co:
        """Begin it now if it has not begun, wait for its end, and return its result or raise its error."""

    def cancel(self) -> bool:
        """Return whether it has not begun and never will."""


class Beside(Protocol):
    """Makes calls beside the handler: receives and deletions that take no slot time."""

    def start(self, call: Callable[[], T], *, after: float = 0.0) -> Pending[T]:
        """Make a call some seconds from now, or as soon as its result is asked for."""

    def wait(self, calls: Sequence[Pending[object]]) -> None:
        """Wait until one of the calls has ended."""


class Threads:
    """
    Makes up to `most` calls at once in threads of this process.

    AWS: Lambda freezes the process between invocations, so the caller waits for the end of each call before its answer
    (Lambda developer guide, "Execution environment lifecycle").
    """

    def __init__(self, most: int) -> None:
        self._pool = futures.ThreadPoolExecutor(most, thread_name_prefix="lanes-beside")

    def start(self, call: Callable[[], T], *, after: float = 0.0) -> Pending[T]:
        """Make a call in a thread."""
        if not after:
            return self._pool.submit(call)
        asked, begun = threading.Event(), threading.Lock()

        def timed() -> T:
            asked.wait(after)
            if not begun.acquire(blocking=False):
                raise futures.CancelledError
            return call()

        return _Timed(self._pool.submit(timed), asked, begun)

    def wait(self, calls: Sequence[Pending[object]]) -> None:
        """Wait until one of the calls has ended, all of them started here."""
        begun: list[Any] = [call.future if isinstance(call, _Timed) else call for call in calls]
        futures.wait(begun, return_when=futures.FIRST_COMPLETED)


@dataclasses.dataclass(frozen=True, slots=True)
class _Timed(Pending[T]):
    future: futures.Future[T]
    asked: threading.Event
    begun: threading.Lock

    def done(self) -> bool:
        return self.future.done()

    def result(self) -> T:
        self.asked.set()
        return self.future.result()

    def cancel(self) -> bool:
        # The one that gets the lock decides, and keeps it.
        is_mine = self.begun.acquire(blocking=False)
        if is_mine:
            self.asked.set()
        return is_mine
