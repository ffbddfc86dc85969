"""The producer's interface to queues in memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lanes.message import CLAIMED_AT, RUN
from lanes.producer.outgoing import Accepted, Refused, SendEntry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.config.deployment import Deployment
    from lanes.testing.bell import MemoryBell
    from lanes.testing.fifo.queue import FifoQueue
    from lanes.testing.journal import Journal


class MemorySender:
    """
    Accepts batches as SQS does, repeats within five minutes included, and adds new messages to the journal.

    Args:
        deployment: the lanes.
        queues: those of the lanes, by name.
        journal: records the messages.
        bell: rung for them; None in the mapped engine.

    """

    def __init__(
        self,
        deployment: Deployment,
        queues: Mapping[str, FifoQueue],
        journal: Journal,
        bell: MemoryBell | None,
    ) -> None:
        self._lanes = {deployment.queues[name].url: name for name in queues}
        self._queues = queues
        self._journal = journal
        self._bell = bell

    def send_batch(self, queue_url: str, entries: Sequence[SendEntry]) -> dict[str, Accepted | Refused]:
        """Accept up to ten entries; none is refused."""
        lane = self._lanes[queue_url]
        return {entry.entry_id: self.take_in(lane, entry) for entry in entries}

    def take_in(self, lane: str, entry: SendEntry) -> Accepted:
        """Put one entry into a lane's queue."""
        sent = self._queues[lane].send(
            entry.body,
            group=entry.message_group_id,
            deduplication_id=entry.message_deduplication_id,
            attributes=marks(entry) or None,
        )
        self._journal.note_sent(lane, entry.body, group=entry.message_group_id, message_id=sent.message_id)
        if self._bell is not None:
            self._bell.ring_for(lane)
        return Accepted(message_id=sent.message_id, sequence_number=str(sent.sequence_number))


def marks(entry: SendEntry) -> dict[str, dict[str, str]]:
    """Return the marks of a relay and of a run in the form of Lambda's event."""
    run = {RUN: {"dataType": "String", "stringValue": entry.run}} if entry.run else {}
    if entry.claimed_at is None:
        return run
    return {CLAIMED_AT: {"dataType": "Number", "stringValue": str(math.floor(entry.claimed_at * 1000))}} | run
