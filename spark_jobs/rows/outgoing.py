"""Rows that are being sent: body, ids and attempts of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from lanes.producer.outgoing import SendEntry

if TYPE_CHECKING:
    from collections.abc import Mapping

    Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """
    A row with a value that Python cannot hold.

    Attributes:
        row: The row; such values are text.
        reason: The columns that cannot be read, and why.
    """

    row: Row
    reason: str


Rows: TypeAlias = "list[dict[str, Any] | UnreadableRow]"


@dataclass(slots=True)
class OutgoingRow:
    """
    A row that can be sent.

    Attributes:
        row: The row of the table.
        index: Position in the partition, starting at 1.
        identity: Identity of the message, by which a rerun knows it.
        priority: Priority of the message.
        body: Body of the message.
        message_group_id: Message group at SQS.
        message_deduplication_id: Deduplication id at SQS.
        size_bytes: Size of the body and the mark.
        run: Mark of the run that is followed; empty for none.
        attempts: Number of calls that included it and were not throttled.
        first_tried_at: Start of the first of them.
        alone: Sent in a call of its own, after one that was refused for one of its rows.
    """

    row: Row
    index: int
    identity: str
    priority: int
    body: str
    message_group_id: str
    message_deduplication_id: str
    size_bytes: int
    run: str = ""
    attempts: int = 0
    first_tried_at: float = 0.0
    alone: bool = False

    def entry(self, entry_id: str) -> SendEntry:
        """Give it as boto3's client takes it."""
        return SendEntry(
            entry_id=entry_id,
            body=self.body,
            message_group_id=self.message_group_id,
            message_deduplication_id=self.message_deduplication_id,
            run=self.run,
        )
