"""Receipt handles of one queue: made new at each receive, good for that receive alone."""

from lanes.testing.fifo.errors import ReceiptHandleUnknownError
from lanes.testing.fifo.message import ReceivedMessage, StoredMessage


class Receipts:
    """
    The messages of a queue that were received at least once and are still there, by arrival position.

    A handle carries the position and the receive count behind a prefix that identifies the queue, so nothing
    has to be kept for handles of messages that are gone.
    """

    __slots__ = ("_messages", "_prefix")

    def __init__(self, *, prefix: str) -> None:
        self._prefix = prefix
        self._messages: dict[int, StoredMessage] = {}

    def issue(self, message: StoredMessage, now: float) -> ReceivedMessage:
        """Count a receive of the message and return the delivery with its handle."""
        message.receive_count += 1
        message.received_at = now
        if message.first_received_at is None:
            message.first_received_at = now
        self._messages[message.position] = message
        return ReceivedMessage(
            message.message_id,
            f"{self._prefix}{message.position:x}.{message.receive_count:x}",
            message.body,
            message.group_name,
            message.deduplication_id,
            message.sequence_number,
            message.sent_at,
            message.first_received_at,
            message.receive_count,
            message.attributes,
            message.dead_letter_source,
        )

    def resolve(self, handle: str, *, last_position: int) -> tuple[StoredMessage | None, int]:
        """
        Return the message of a handle, None when it is gone, and the receive count the handle is good for.

        Raises:
            ReceiptHandleUnknownError: this queue never gave out such a handle.
        """
        if not handle.startswith(self._prefix):
            raise ReceiptHandleUnknownError
        try:
            position, receive_count = (int(part, 16) for part in handle[len(self._prefix) :].split("."))
        except ValueError:
            raise ReceiptHandleUnknownError from None
        if not 1 <= position <= last_position:
            raise ReceiptHandleUnknownError
        return self._messages.get(position), receive_count

    def at(self, position: int) -> StoredMessage | None:
        """Return the received message at a position, if it is still there."""
        return self._messages.get(position)

    def forget(self, message: StoredMessage) -> None:
        """Let go of a message that leaves the queue."""
        self._messages.pop(message.position, None)

    def clear(self) -> None:
        """Let go of all messages."""
        self._messages.clear()
