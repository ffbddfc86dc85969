"""
The settings, refusals, messages and groups of a FIFO queue, and its answers.

A group is an intrusive doubly linked chain of its messages that are not in flight, in the order they were
sent. One message per group is a common load, and a chain costs two references where a deque costs 600 bytes.

FifoQueueError
├── AttemptOverError
├── DeduplicationIdMissingError
├── ReceiptHandleUnknownError
├── ReceiptHandleExpiredError
├── MessageGoneError
├── MessageNotInFlightError
└── VisibilityTimeoutError
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum, StrEnum
from typing import NamedTuple

# AWS: the interval in which a repeated deduplication id is not delivered again (SendMessage API page).
DEDUPLICATION_INTERVAL = timedelta(minutes=5)
# AWS: a message stays invisible for at most 12 hours after its receive (ChangeMessageVisibility API page).
MAXIMUM_VISIBILITY = timedelta(hours=12)
# AWS: ReceiveMessage returns at most ten messages (ReceiveMessage API page).
MAXIMUM_RECEIVE = 10
# AWS: SQS looks at the first 120,000 messages for available groups, and at most as many are in flight
# (developer guide, "Avoid a large backlog with the same message group ID" and FIFO queue quotas).
LOOK_AHEAD = 120_000


class GroupOrder(StrEnum):
    """
    The order in which available groups are received.

    # AWS documents none. LocalStack's tests, which it validates against AWS, observe BACK on queues in default mode
    # (test_fifo_receive_message_visibility_timeout_shared_in_group, test_fifo_message_group_visibility_after_delete).
    # No observation of a queue in high-throughput mode is known.
    """

    OLDEST = "oldest"  # by the oldest message of each group
    BACK = "back"  # a message that returns puts its group behind all that waited at its receive
    TURN = "turn"  # each receive of a group puts it behind all others that wait


@dataclass(frozen=True, slots=True, kw_only=True)
class FifoSettings:
    """
    How one FIFO queue behaves.

    Attributes:
        visibility_timeout: how long a received message stays hidden unless the receive says otherwise.
        delay: how long a sent message is held back; applies at once to messages still held back.
        retention: age at which a message is dropped, in flight or not.
        content_based_deduplication: derive a missing deduplication id from the body.
        deduplicate_by_group: one deduplication scope per message group instead of one per queue.
        max_receive_count: receives after which the next one moves the message to the dead-letter queue;
            without a dead-letter queue it has no effect.
        look_ahead: number of oldest messages that are searched for available groups.
        group_order: which of the available groups is received first.
    """

    visibility_timeout: timedelta = timedelta(seconds=30)
    delay: timedelta = timedelta(0)
    retention: timedelta = timedelta(days=4)
    content_based_deduplication: bool = False
    deduplicate_by_group: bool = False
    max_receive_count: int | None = None
    look_ahead: int = LOOK_AHEAD
    group_order: GroupOrder = GroupOrder.OLDEST


class FifoQueueError(Exception):
    """The queue refused the request."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class AttemptOverError(FifoQueueError):
    """The receive can't be repeated: one of its messages was deleted, changed or became visible."""


class DeduplicationIdMissingError(FifoQueueError):
    """A message needs a deduplication id, as the queue does not derive one from the body."""


class ReceiptHandleUnknownError(FifoQueueError):
    """The receipt handle was never given out by this queue."""


class ReceiptHandleExpiredError(FifoQueueError):
    """The receipt handle has expired: the message became visible again or was received again."""


class MessageGoneError(FifoQueueError):
    """The message was deleted, so its visibility timeout cannot be changed."""


class MessageNotInFlightError(FifoQueueError):
    """The message is not in flight, so its visibility timeout cannot be changed."""


class VisibilityTimeoutError(FifoQueueError):
    """The visibility timeout is outside 0 to 43,200 seconds, counted from the receive."""


class SentMessage(NamedTuple):
    """The answer to a send; for a duplicate it names the message that was accepted first."""

    message_id: str
    sequence_number: int
    is_duplicate: bool


class ReceivedMessage(NamedTuple):
    """
    One delivery of a message.

    A named tuple and not a frozen dataclass: building one costs a quarter of it, and a simulation builds
    millions. Times are epoch seconds, `attributes` are the sender's.
    """

    message_id: str
    receipt_handle: str
    body: str
    group: str
    deduplication_id: str
    sequence_number: int
    sent_at: float
    first_received_at: float
    receive_count: int
    attributes: object
    dead_letter_source: str | None


class QueueCounts(NamedTuple):
    """Exact numbers of messages; those behind a message in flight count as visible."""

    visible: int
    not_visible: int
    delayed: int


class MessageState(IntEnum):
    """Where a stored message is."""

    DELAYED = 0
    VISIBLE = 1
    IN_FLIGHT = 2
    GONE = 3


class StoredMessage:
    """A message in a queue; `position` is its rank in arrival order, `admitted` means within look-ahead."""

    __slots__ = (
        "admitted",
        "attributes",
        "body",
        "dead_letter_source",
        "deduplication_id",
        "first_received_at",
        "following",
        "group",
        "message_id",
        "position",
        "preceding",
        "receive_count",
        "received_at",
        "sent_at",
        "sequence_number",
        "state",
        "visible_at",
    )

    def __init__(
        self, *, message_id: str, body: str, deduplication_id: str, sequence_number: int, attributes: object
    ) -> None:
        self.message_id = message_id
        self.body = body
        self.deduplication_id = deduplication_id
        self.sequence_number = sequence_number
        self.attributes = attributes
        self.group: MessageGroup | None = None
        self.position = 0
        self.sent_at = 0.0
        self.receive_count = 0
        self.first_received_at: float | None = None
        self.received_at = 0.0
        self.visible_at = 0.0
        self.state = MessageState.GONE
        self.admitted = False
        self.preceding: StoredMessage | None = None
        self.following: StoredMessage | None = None
        self.dead_letter_source: str | None = None

    @property
    def group_name(self) -> str:
        """The id of the message's group."""
        return "" if self.group is None else self.group.name

    def dead_lettered(self, *, source: str) -> StoredMessage:
        """
        Return the message as the dead-letter queue of `source` stores it.

        # AWS: the move to a FIFO dead-letter queue replaces the deduplication id by the message id (developer guide,
        # "Using dead-letter queues").
        """
        copy = StoredMessage(
            message_id=self.message_id,
            body=self.body,
            deduplication_id=self.message_id,
            sequence_number=self.sequence_number,
            attributes=self.attributes,
        )
        copy.dead_letter_source = source
        copy.receive_count = self.receive_count
        copy.first_received_at = self.first_received_at
        return copy


class MessageGroup:
    """
    The messages of a group that are not in flight, and the positions of those that are, ten at most.

    `is_queued` means listed as ready; `behind` is the last arrival and the number of the receive when it was received.
    """

    __slots__ = ("behind", "first", "in_flight", "is_queued", "last", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.first: StoredMessage | None = None
        self.last: StoredMessage | None = None
        self.in_flight: tuple[int, ...] = ()
        self.is_queued = False
        self.behind = (0, 0)

    @property
    def available(self) -> StoredMessage | None:
        """
        The message that comes next, unless an earlier one is in flight.

        # AWS: a message in flight holds back the "subsequent messages" of its group (developer guide, "Visibility
        # timeout"); one in front of it, with a visibility timeout that ended earlier, is received
        # (LocalStack's test_fifo_message_group_visibility_after_terminate_visibility_timeout, validated against AWS).
        """
        first = self.first
        return None if first is None or self.is_blocked(first) else first

    def is_blocked(self, message: StoredMessage) -> bool:
        """Whether a message is behind one in flight."""
        return bool(self.in_flight) and min(self.in_flight) < message.position

    def blocked(self) -> int:
        """Count the messages behind one in flight."""
        count, message = 0, self.last
        while message is not None and self.is_blocked(message):
            count, message = count + 1, message.preceding
        return count

    def append(self, message: StoredMessage) -> None:
        """Put a message that arrives behind all others."""
        message.preceding, message.following = self.last, None
        if self.last is None:
            self.first = message
        else:
            self.last.following = message
        self.last = message

    def put_back(self, message: StoredMessage) -> None:
        """
        Put a message back to its place by arrival.

        A message in flight arrived before all those not in flight, so only siblings of the same receive,
        nine at most, can be in front of it.
        """
        successor = self.first
        while successor is not None and successor.position < message.position:
            successor = successor.following
        if successor is None:
            self.append(message)
            return
        message.preceding, message.following = successor.preceding, successor
        if successor.preceding is None:
            self.first = message
        else:
            successor.preceding.following = message
        successor.preceding = message

    def remove(self, message: StoredMessage) -> None:
        """Take a message out of the chain, wherever it is."""
        if message.preceding is None:
            self.first = message.following
        else:
            message.preceding.following = message.following
        if message.following is None:
            self.last = message.preceding
        else:
            message.following.preceding = message.preceding
        message.preceding = message.following = None
