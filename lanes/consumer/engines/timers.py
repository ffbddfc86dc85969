"""The timers of a slot beside a handler, and its rings for other slots."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Protocol

from lanes.bell import COALESCING, others
from lanes.consumer import telemetry as report
from lanes.consumer.engines.pace import FRESH
from lanes.errors import AwsError
from lanes.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from lanes.config import LanesConfig
    from lanes.consumer.engines import Beside, Pending
    from lanes.consumer.engines.looks import Looking


RINGS_AGAIN = 5
"""Seconds after a ring for the messages of a lane until others are rung for."""

TICK = 0.25
"""Seconds between two looks at the record that runs."""


class Timer:
    """
    Calls a function beside the work, again and again, each time after the seconds that it has returned.

    Args:
        beside: makes the calls.
        fire: the function; None ends the calls.
    """

    def __init__(self, beside: Beside, fire: Callable[[], float | None]) -> None:
        self._beside = beside
        self._fire = fire
        self._pending: list[Pending[None]] = []

    def start(self, after: float) -> None:
        """Make the first call after some seconds."""
        self._pending.append(self._beside.start(self._call, after=after))

    def stop(self) -> None:
        """Make no further call, and wait for the end of one that has begun."""
        while self._pending:
            pending = self._pending.pop()
            if not pending.cancel():
                pending.result()

    @contextlib.contextmanager
    def stopped(self, start: Callable[[], None]) -> Iterator[None]:
        """Make no call meanwhile, and start again afterwards."""
        self.stop()
        try:
            yield
        finally:
            start()

    def _call(self) -> None:
        if (after := self._fire()) is not None:
            self.start(after)


class Bell(Protocol):
    """The bell; each call raises `AwsError`."""

    def ring(self, slots: Collection[int]) -> None:
        """Ring for some slots."""

    def has_rings(self) -> bool:
        """Whether rings wait, also those behind one of their group that an invocation has."""

    def return_after(self, receipt_handle: str, seconds: int) -> None:
        """Make a received ring visible after some seconds."""


class Waker:
    """
    Rings for the other slots.

    A send rings for as many slots as it has messages. No invocation starts for the rings of a group while its slot is
    running, and SQS drops those of the second in which it began. So a slot rings for others where a lane has more than
    it takes, and, as long as one record takes long, each second while rings wait.

    Args:
        bell: the bell; None rings nothing.
        slot: number of the slot.
        config: the lanes.
        looking: how the environment looks at its lanes.
    """

    def __init__(
        self,
        bell: Bell | None,
        *,
        slot: int,
        config: LanesConfig,
        looking: Looking,
    ) -> None:
        self._slots = config.consumer.reserved_concurrency
        self._bell = bell if self._slots > 1 else None
        self._slot = slot
        self._first = range(min(lane.maximum_concurrency for lane in config.lanes))
        self._looking = looking
        self._asks_at = 0.0
        self._asked: Pending[AwsError | None] | None = None
        self._due_at = float("inf")
        self._turn = self._unsure = 0
        self._hides = False
        self._timer = Timer(looking.beside, self._watch)

    def start(self) -> None:
        """Begin to watch the records that run."""
        if self._bell is not None:
            self._timer.start(min(TICK, max(FRESH, self._due_at - self._looking.clock())))

    def stop(self) -> None:
        """Make no further call, and wait for the end of those that have begun."""
        self._timer.stop()
        self.land()

    def ring(self) -> None:
        """Ring for all other slots: one that is free has to look now."""
        self._ring(others(self._slot, self._slots, slots=self._slots))

    def ring_first(self) -> None:
        """Ring for the slots that serve all lanes."""
        self._ring(self._first)

    def wake_for(self, lanes: Collection[str]) -> None:
        """Ring, beside the work, for as many other slots as messages wait in lanes that had more than was asked for."""
        now = self._looking.clock()
        if not lanes:
            self._unsure = 0
        elif self._bell is not None and now >= self._asks_at:
            self.land()
            self._asks_at = now + COALESCING
            call = partial(self._wake, self._bell, sorted(lanes), at_least=self._unsure)
            self._asked = self._looking.beside.start(call)
            self._unsure += 1

    def land(self) -> None:
        """Wait for the ring that was begun beside the work."""
        asked, self._asked = self._asked, None
        if asked is not None and (error := asked.result()) is not None:
            report.failed_beside(self._looking.telemetry, Event.BELL_NOT_RUNG, error)

    @contextlib.contextmanager
    def beside_handler(self, *, hides: bool, more: bool) -> Iterator[None]:
        """
        Watch a record, from when it has taken nearly a second.

        Args:
            hides: whether SQS may have dropped a ring for messages that wait.
            more: whether a lane may have more than this slot takes.
        """
        now, self._turn = self._looking.clock(), 0
        # Where counts said how many wait, that many slots have their ring.
        self._hides = hides or (more and now + COALESCING >= self._asks_at)
        self._due_at = now + COALESCING - TICK
        try:
            yield
        finally:
            self._due_at = float("inf")

    def _wake(self, bell: Bell, lanes: Collection[str], *, at_least: int) -> AwsError | None:
        """Ring for so many slots. Runs beside the handler, so it reports nothing."""
        try:
            # AWS: counts may be a minute old, so again and again more than asked for is known better.
            waiting = max(at_least, *(self._looking.queues.depth(lane).backlog for lane in lanes))
            if waiting:
                # Rings for all of them, at each look of each slot, would cost more than the work.
                self._asks_at = self._looking.clock() + RINGS_AGAIN
                bell.ring(others(self._slot, waiting, slots=self._slots))
        except AwsError as error:
            return error
        return None

    def outside(self) -> contextlib.AbstractContextManager[None]:
        """Stop the watch for a checkpoint."""
        return self._timer.stopped(self.start)

    def _watch(self) -> float:
        if self._looking.clock() >= self._due_at:
            try:
                self._watch_rings()
            except Exception:  # noqa: BLE001 - the record that runs beside it has its own outcome
                report.failed_call(self._looking.telemetry, Event.BELL_NOT_RUNG)
        return TICK

    def _watch_rings(self) -> None:
        self._due_at = self._looking.clock() + COALESCING - TICK
        hides, self._hides = self._hides, False
        if self._bell is not None and (hides or self._bell.has_rings()):
            # Of the slots that are busy for long each rings for the next one, so the first that is free has its ring.
            self._bell.ring(others(self._slot, 1, slots=self._slots, after=self._turn))
            self._turn += 1

    def _ring(self, slots: Collection[int]) -> None:
        if self._bell is not None:
            report.tried(self._looking.telemetry, Event.BELL_NOT_RUNG, partial(self._bell.ring, slots))
