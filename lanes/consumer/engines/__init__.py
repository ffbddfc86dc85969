"""
Engines: where records come from, when they give way, and how their outcomes reach the queue.

An engine receives Lambda's event, lets the corridor (`lanes.consumer.batch`) handle each batch, and answers. For each
batch it gives the corridor a `Turn`, which the corridor asks before every record.

*Mapped* (`mapped.py`): a mapping hands over batches of one lane, and a record yields to the backlog (`backlog.py`) that
a check (`check.py`) finds in a lane above. *Pull* (`starters.py`): an invocation holds a slot (`slot.py`), which
receives from the lanes itself (`looks.py`), asks a batch's turn (`turn.py`) before each record, and returns waiting
records for other slots (`hand_back.py`). `order.py` and `pace.py` have the decisions.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from concurrent.futures import CancelledError
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lanes.config.settings import LARGEST_BATCH
from lanes.consumer.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lanes.config import Lane
    from lanes.consumer.calls import Call
    from lanes.consumer.engines.order import Reserve
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
        self, rest: Sequence[RawRecord], call: Call, *, expected: float, has_worked: bool, goes_ahead: bool
    ) -> Proceed | Outcome:
        """
        Return whether a call with the first of the undecided records may start, or the outcome with which all yield.

        A record of the lane is likely to take `expected` seconds at most; `has_worked` after a finished one. It
        `goes_ahead` of lanes above if those leave it the try of a resource that is away.
        """

    def checkpoint(self) -> Lane | None:
        """Return the lane that a handler at a checkpoint has to yield to, or None."""

    def yielded(self, rest: Sequence[RawRecord], *, to: Lane | None) -> Outcome:
        """Return the outcome of the rest after the handler of its first record yielded at a checkpoint."""

    def close(self, outcomes: Outcomes) -> None:
        """Release the slot, settle the outcomes and wake parked records: once a turn, even after an error."""


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

    # An executor of the standard library takes nine times the instructions to hand over a call and its result.
    def __init__(self, most: int) -> None:
        self._most = most
        self._calls: SimpleQueue[_Call[Any] | None] = SimpleQueue()
        self._idle: SimpleQueue[None] = SimpleQueue()
        self._lock = threading.Lock()
        self._begun = 0
        weakref.finalize(self, self._calls.put, None)

    def start(self, call: Callable[[], T], *, after: float = 0.0) -> Pending[T]:
        """Make a call in a thread."""
        made = _Call(call, after)
        self._calls.put(made)
        try:
            self._idle.get_nowait()
        except Empty:
            self._begin_thread()
        return made

    def wait(self, calls: Sequence[Pending[object]]) -> None:
        """Wait until one of the calls has ended, all of them started here."""
        ended: SimpleQueue[None] = SimpleQueue()
        for call in calls:
            assert isinstance(call, _Call)  # noqa: S101 - see above
            call.tell(ended)
        ended.get()

    def _begin_thread(self) -> None:
        with self._lock:
            if self._begun < self._most:
                self._begun += 1
                work = threading.Thread(
                    target=_work, args=(self._calls, self._idle), name="lanes-beside", daemon=True
                )
                work.start()


def _work(calls: SimpleQueue[_Call[Any] | None], idle: SimpleQueue[None]) -> None:
    """Make calls, one after the other, until there is a None."""
    while (call := calls.get()) is not None:
        call.make()
        del call  # its result is not kept until the next one comes
        idle.put(None)
    calls.put(None)  # for the other threads


class _Call(Pending[T]):
    """A call for a thread; whoever gets the lock `begun`, to make it or to cancel it, keeps it."""

    def __init__(self, call: Callable[[], T], after: float) -> None:
        self._call = call
        self._after = after
        self._begun, self._asked, self._ended = threading.Lock(), threading.Lock(), threading.Lock()
        self._asked.acquire()
        self._ended.acquire()
        self._is_done = False
        self._told: SimpleQueue[None] | None = None
        self._error: BaseException | None = None

    def make(self) -> None:
        """Make the call after its time, or as soon as it is asked for."""
        if self._after:
            self._asked.acquire(timeout=self._after)
        if not self._begun.acquire(blocking=False):
            return
        try:
            self._result = self._call()
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            self._error = error
        self._end()

    def done(self) -> bool:
        return self._is_done

    def result(self) -> T:
        self._ask()
        with self._ended:
            if self._error is not None:
                raise self._error
            return self._result

    def cancel(self) -> bool:
        is_mine = self._begun.acquire(blocking=False)
        if is_mine:
            self._error = CancelledError()
            self._end()
            self._ask()
        return is_mine

    def tell(self, ended: SimpleQueue[None]) -> None:
        """Put something into a queue at the end of the call."""
        self._told = ended
        if self._is_done:
            ended.put(None)

    def _ask(self) -> None:
        with contextlib.suppress(RuntimeError):  # asked before
            self._asked.release()

    def _end(self) -> None:
        self._is_done = True
        self._ended.release()
        if self._told is not None:
            self._told.put(None)
