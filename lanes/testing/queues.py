"""The queues in memory as a process uses them: those of the lanes, after the documented model, and the bell's."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from lanes.bell import BODY, RETENTION, VISIBILITY_MARGIN, Ring, Ringer, is_ring
from lanes.consumer.records import RawRecord
from lanes.depth import LaneDepth
from lanes.errors import AwsError
from lanes.testing.fifo.message import FifoQueueError, FifoSettings
from lanes.testing.fifo.queue import FifoQueue, random_message_id
from lanes.testing.function import event_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.config import LanesConfig
    from lanes.consumer.settlement import DeadLetterNote, VisibilityChange
    from lanes.testing.assertions import Journal
    from lanes.testing.calls import Calls
    from lanes.testing.clock import FakeClock


class MemoryQueues:
    """
    The lanes' queues and dead-letter queues.

    Attributes:
        on_visible: called with a lane's name when the process may have made a message of it visible.

    """

    def __init__(
        self,
        config: LanesConfig,
        clock: Callable[[], float],
        calls: Calls,
        *,
        native: int | None,
        new_message_id: Callable[[], str] = random_message_id,
    ) -> None:
        self.calls = calls
        self.dead: dict[str, FifoQueue] = {}
        self.live: dict[str, FifoQueue] = {}
        self.notes: dict[str, DeadLetterNote] = {}
        self.on_visible: Callable[[str], None] = lambda _lane: None
        for lane in config.lanes:
            dead = FifoQueue(
                clock, name=f"{lane.name}-dead", settings=FifoSettings(retention=timedelta(days=14))
            )
            self.dead[lane.name] = dead
            self.live[lane.name] = FifoQueue(
                clock,
                name=lane.name,
                handle_prefix=lane.name,
                dead_letter_queue=dead,
                new_message_id=new_message_id,
                settings=FifoSettings(
                    visibility_timeout=lane.visibility_timeout,
                    retention=timedelta(days=14),
                    deduplicate_by_group=True,
                    max_receive_count=native,
                ),
            )

    def depth(self, lane: str) -> LaneDepth:
        """Return exact counts."""
        with self.calls.make("GetQueueAttributes"):
            counts = self.live[lane].counts()
            return LaneDepth(backlog=counts.visible, in_flight=counts.not_visible)

    def receive(self, lane: str, *, maximum: int, visibility: int, wait: int) -> list[RawRecord]:  # noqa: ARG002
        """Receive up to ten records that are here now; a long poll ends at once too, since time is the caller's."""
        with self.calls.make("ReceiveMessage"):
            return self.taken(lane, maximum=maximum, visibility=visibility)

    def taken(self, lane: str, *, maximum: int, visibility: int) -> list[RawRecord]:
        """Take records out of a lane's queue."""
        received = self.live[lane].receive(maximum, visibility_timeout=timedelta(seconds=visibility))
        return [RawRecord.from_event(event_entry(lane, message)) for message in received]

    def delete(self, lane: str, records: Sequence[RawRecord]) -> list[str]:
        """Delete records; return the ids that were refused."""
        refused = []
        for start in range(0, len(records), 10):
            with self.calls.make("DeleteMessageBatch"):
                for record in records[start : start + 10]:
                    try:
                        self.live[lane].delete(record.receipt_handle)
                    except FifoQueueError:
                        refused.append(record.message_id)
        self.on_visible(lane)
        return refused

    def change_visibility(self, lane: str, changes: Sequence[VisibilityChange]) -> list[str]:
        """Change visibilities; return the ids that were refused."""
        refused = []
        for start in range(0, len(changes), 10):
            with self.calls.make("ChangeMessageVisibilityBatch"):
                for change in changes[start : start + 10]:
                    try:
                        self.live[lane].change_visibility(
                            change.receipt_handle, timedelta(seconds=change.seconds)
                        )
                    except FifoQueueError:
                        refused.append(change.message_id)
        self.on_visible(lane)
        return refused

    def dead_letter(self, lane: str, record: RawRecord, note: DeadLetterNote) -> None:
        """Put the body into the dead-letter queue."""
        with self.calls.make("SendMessage"):
            sent = self.dead[lane].send(
                record.body,
                group=record.group,
                deduplication_id=f"{record.message_id}-{record.first_received_at}",
                attributes={
                    **dataclasses.asdict(note),
                    "message_id": record.message_id,
                    "deduplication_id": record.deduplication_id,
                },
            )
            if not sent.is_duplicate:
                self.notes[record.message_id] = note

    def remove(self, lane: str, record: RawRecord) -> None:
        """Take a record out of its lane."""
        with suppress(FifoQueueError), self.calls.make("DeleteMessage"):
            self.live[lane].delete(record.receipt_handle)

    def ring(self, lane: str, rings: Sequence[Ring]) -> None:
        """Send rings to a lane's own queue."""
        with self.calls.make("SendMessageBatch"):
            for ring in rings:
                self.live[lane].send(BODY, group=ring.group, deduplication_id=ring.deduplication_id)
        self.on_visible(lane)

    def forward(self, lane: str, record: RawRecord, *, body: str, deduplication_id: str) -> None:
        """Send a record's body to a lane."""
        with self.calls.make("SendMessage"):
            self.live[lane].send(
                body,
                group=record.group,
                deduplication_id=deduplication_id,
                attributes=dict(record.message_attributes),
            )
        self.on_visible(lane)


RECEIVE = 0.01
"""Seconds of a receive: an invocation ends also if its handlers take no time."""


class JournaledQueues(MemoryQueues):
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


BELL = "bell"
"""The name of its queue."""


def bell_queue(
    config: LanesConfig,
    clock: Callable[[], float],
    *,
    new_message_id: Callable[[], str] = random_message_id,
) -> FifoQueue:
    """Return an empty bell queue with the attributes that the stack gives it."""
    return FifoQueue(
        clock,
        name=BELL,
        handle_prefix=BELL,
        new_message_id=new_message_id,
        settings=FifoSettings(
            visibility_timeout=config.consumer.function_timeout + timedelta(seconds=VISIBILITY_MARGIN),
            retention=timedelta(seconds=RETENTION),
            content_based_deduplication=True,
        ),
    )


class MemoryBell(Ringer):
    """
    The bell as one process uses it.

    Args:
        queue: shared by all processes.
        config: the lanes.
        clock: returns the time in epoch seconds.
        calls: intercepts each call.
        on_visible: called when a ring may have become visible.
    """

    def __init__(
        self,
        queue: FifoQueue,
        config: LanesConfig,
        clock: Callable[[], float],
        calls: Calls,
        *,
        on_visible: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config, clock)
        self.queue = queue
        self._calls = calls
        self._on_visible = on_visible

    def has_rings(self) -> bool:
        """Whether rings wait, also those behind one of their group."""
        with self._calls.make("GetQueueAttributes"):
            return self.queue.counts().visible > 0

    def _send(self, wanted: Sequence[Ring]) -> None:
        with self._calls.make("SendMessageBatch"):
            for ring in wanted:
                self.queue.send(BODY, group=ring.group, deduplication_id=ring.deduplication_id)
        self._on_visible()

    def return_after(self, receipt_handle: str, seconds: int) -> None:
        """
        Let a received bell become visible again after some seconds.

        Raises:
            AwsError: the bell was received again since, or is gone.
        """
        with self._calls.make("ChangeMessageVisibility"):
            try:
                self.queue.change_visibility(receipt_handle, timedelta(seconds=seconds))
            except FifoQueueError as error:
                raise AwsError(
                    operation="ChangeMessageVisibility",
                    code=type(error).__name__,
                    message=str(error),
                    retryable=False,
                ) from error
        self._on_visible()
