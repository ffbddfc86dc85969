"""Rows on their way: each with the body and the ids that it has at SQS, and what has happened to it so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    Row = Mapping[str, Any]


@dataclass(slots=True)
class OutgoingRow:
    """
    A row that can be sent.

    Attributes:
        row: as the table has it.
        position: its place in the partition, counted from 1.
        id: of its message.
        priority: of its message.
        body: of its message.
        message_group_id: the group at SQS.
        message_deduplication_id: what SQS knows a repeat by.
        size_bytes: of the body.
        attempts: calls that it has taken part in.
        first_tried_at: when the first of them began.
    """

    row: Row
    position: int
    id: str
    priority: int
    body: str
    message_group_id: str
    message_deduplication_id: str
    size_bytes: int
    attempts: int = 0
    first_tried_at: float = 0.0
