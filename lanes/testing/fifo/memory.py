"""
The memories of a queue.

Receipt handles, ends of visibility timeouts, deduplication ids, and receives by their attempt id, for callers that lost
the answer.
"""

import hashlib
from collections import deque
from heapq import heapify, heappop, heappush

from lanes.testing.fifo.errors import AttemptOverError, ReceiptHandleUnknownError
from lanes.testing.fifo.message import MessageState, ReceivedMessage, StoredMessage
from lanes.testing.fifo.settings import DEDUPLICATION_INTERVAL

_INTERVAL = DEDUPLICATION_INTERVAL.total_seconds()


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


_SLACK = 1024


class Deadlines:
    """
    A heap of moments at which messages in flight become visible.

    A deleted or changed message leaves its entry behind; such entries are skipped when due and swept out
    when they outnumber the others.
    """

    __slots__ = ("_entries", "_receipts")

    def __init__(self, receipts: Receipts) -> None:
        self._receipts = receipts
        self._entries: list[tuple[float, int]] = []

    def add(self, message: StoredMessage, *, in_flight: int) -> None:
        """Add the `visible_at` of a message, one of `in_flight`."""
        heappush(self._entries, (message.visible_at, message.position))
        if len(self._entries) > 2 * in_flight + _SLACK:
            self._entries = [entry for entry in self._entries if self._message_of(entry) is not None]
            heapify(self._entries)

    def pop_due(self, now: float) -> StoredMessage | None:
        """Take the next message with an ended visibility timeout."""
        entries = self._entries
        while entries and entries[0][0] <= now:
            message = self._message_of(heappop(entries))
            if message is not None:
                return message
        return None

    def next_at(self) -> float | None:
        """Return the earliest end to come."""
        entries = self._entries
        while entries and self._message_of(entries[0]) is None:
            heappop(entries)
        return entries[0][0] if entries else None

    def clear(self) -> None:
        """Forget all entries."""
        self._entries.clear()

    def _message_of(self, entry: tuple[float, int]) -> StoredMessage | None:
        visible_at, position = entry
        message = self._receipts.at(position)
        if message is None or message.state is not MessageState.IN_FLIGHT:
            return None
        return message if message.visible_at == visible_at else None


DeduplicationKey = str | tuple[str, str]


def deduplication_id_of(body: str) -> str:
    """Return the id that content-based deduplication gives a body."""
    # AWS: the SHA-256 of the body, never of the attributes (SendMessage API page).
    return hashlib.sha256(body.encode()).hexdigest()


class DeduplicationWindow:
    """
    Remembers each accepted send for one interval, even after its message was deleted.

    Two generations of plain dicts take turns: an entry is found for at least the whole interval and dropped
    with its generation, at no cost per entry.
    """

    __slots__ = ("_current", "_previous", "_started_at")

    def __init__(self) -> None:
        self._started_at = 0.0
        self._current: dict[DeduplicationKey, tuple[float, str, int]] = {}
        self._previous: dict[DeduplicationKey, tuple[float, str, int]] = {}

    def find(self, key: DeduplicationKey, now: float) -> tuple[str, int] | None:
        """Return message id and sequence number of the send that `key` repeats, if there is one."""
        entry = self._current.get(key) or self._previous.get(key)
        # AWS: the interval counts from the accepted send, a duplicate does not extend it
        # (developer guide, "Using the message deduplication ID").
        if entry is None or now - entry[0] >= _INTERVAL:
            return None
        return entry[1], entry[2]

    def remember(self, key: DeduplicationKey, now: float, *, message_id: str, sequence_number: int) -> None:
        """Start the interval of an accepted send."""
        age = now - self._started_at
        if age >= _INTERVAL:
            self._previous = self._current if age < 2 * _INTERVAL else {}
            self._current = {}
            self._started_at = now
        self._current[key] = (now, message_id, sequence_number)

    def clear(self) -> None:
        """Forget all sends."""
        self._current.clear()
        self._previous.clear()


Receive = list[tuple[StoredMessage, ReceivedMessage]]


class Attempts:
    """
    Remembers each receive that had an attempt id and messages, for five minutes.

    AWS: within the interval a repeat returns the same messages and receipt handles and resets their visibility
    timeout, and is refused once one of them was deleted or had its visibility changed (ReceiveMessage API page).
    """

    __slots__ = ("_ages", "_receives")

    def __init__(self) -> None:
        self._ages: deque[tuple[float, str]] = deque()
        self._receives: dict[str, tuple[Receive, list[float]]] = {}

    def find(self, attempt_id: str | None, now: float) -> Receive:
        """
        Return the messages to hand out again; empty where the receive is a new one.

        Raises:
            AttemptOverError: one of its messages is no longer in flight as the receive left it.
        """
        while self._ages and now - self._ages[0][0] >= _INTERVAL:
            del self._receives[self._ages.popleft()[1]]
        if attempt_id is None or attempt_id not in self._receives:
            return []
        receive, ends = self._receives[attempt_id]
        for (message, received), end in zip(receive, ends, strict=True):
            is_as_left = message.receive_count == received.receive_count and message.visible_at == end
            if message.state is not MessageState.IN_FLIGHT or not is_as_left:
                raise AttemptOverError
        return receive

    def remember(self, attempt_id: str | None, now: float, receive: Receive) -> None:
        """Keep a receive, or the new end of its visibility timeout, for a repeat."""
        if attempt_id is None or not receive:
            return
        if attempt_id not in self._receives:
            self._ages.append((now, attempt_id))
        self._receives[attempt_id] = (receive, [message.visible_at for message, _ in receive])

    def clear(self) -> None:
        """Forget all receives."""
        self._ages.clear()
        self._receives.clear()
