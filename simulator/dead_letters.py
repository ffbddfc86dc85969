"""The dead letters of queues in memory, as an operator reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.operate.dead_letters import DeadLetteredMessage

if TYPE_CHECKING:
    from lanes.testing.fifo.message import ReceivedMessage


def letter_of(lane: str, message: ReceivedMessage) -> DeadLetteredMessage:
    """Return a received message of a dead-letter queue as a dead letter; its attributes are the consumer's note."""
    return DeadLetteredMessage(
        lane=lane,
        message_id=message.message_id,
        receipt_handle=message.receipt_handle,
        body=message.body,
        group=message.group,
        sent_at=message.sent_at,
        receive_count=message.receive_count,
        attributes={},
        note=message.attributes if isinstance(message.attributes, dict) else {},
        moved_by_sqs=message.dead_letter_source is not None,
    )
