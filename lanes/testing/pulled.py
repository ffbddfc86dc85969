"""The lanes' queues in memory as slots receive from them, and the calls that slots make beside their handlers."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from lanes.bell import is_ring
from lanes.consumer.engines import Pending
from lanes.testing.memory import MemoryQueues

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.config import LanesConfig
    from lanes.consumer.records import RawRecord
    from lanes.testing.calls import Calls
    from lanes.testing.clock import FakeClock
    from lanes.testing.journal import Journal

T = TypeVar("T")

RECEIVE = 0.01
"""Seconds of a receive: an invocation ends also if its handlers take no time."""


class PulledQueues(MemoryQueues):
    """
    Queues whose receives take time.

    A long poll takes its part of the time for which all lanes are polled together.

    Args:
        config: the lanes.
        clock: moved by receives.
        calls: intercepts each call.
        native: maxReceiveCount.
        journal: records received and deleted messages.
        takes: seconds of a receive.

    """

    def __init__(
        self,
        config: LanesConfig,
        clock: FakeClock,
        calls: Calls,
        *,
        native: int | None,
        journal: Journal,
        takes: float = RECEIVE,
    ) -> None:
        super().__init__(config, clock, calls, native=native)
        self._fake_clock = clock
        self._journal = journal
        self._takes = takes

    def receive(self, lane: str, *, maximum: int, visibility: int, wait: int) -> list[RawRecord]:
        """Receive up to ten records; wait for one if there is none."""
        # Not by nothing: a test of pauses takes each advance of the clock for one.
        if self._takes:
            self._fake_clock.advance(self._takes)
        records = super().receive(lane, maximum=maximum, visibility=visibility, wait=wait)
        if wait and not records:
            self._fake_clock.advance(wait / len(self.live))
            records = self.taken(lane, maximum=maximum, visibility=visibility)
        for record in records:
            if is_ring(record.group, record.body):
                continue
            # Known already, unless the consumer itself sent it to this lane.
            self._journal.note_sent(lane, record.body, group=record.group, message_id=record.message_id)
        return records

    def delete(self, lane: str, records: Sequence[RawRecord]) -> list[str]:
        """Delete records; return the ids that were refused."""
        refused = super().delete(lane, records)
        for record in records:
            if record.message_id not in refused:
                self._journal.note_deleted(record.message_id)
        return refused


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
