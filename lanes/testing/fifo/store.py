"""
What one FIFO queue keeps: its messages by state and group, and its memories.

The store knows order, group exclusivity and the look-ahead, and nothing of handles, deduplication or the clock. Each
change costs at most the logarithm of the number of groups, however many messages there are. The memories are receipt
handles, ends of visibility timeouts, deduplication ids, and receives by their attempt id, for callers that lost the
answer.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import deque
from heapq import heapify, heappop, heappush

from lanes.testing.fifo.message import (
    DEDUPLICATION_INTERVAL,
    AttemptOverError,
    GroupOrder,
    MessageGroup,
    MessageState,
    QueueCounts,
    ReceiptHandleUnknownError,
    ReceivedMessage,
    StoredMessage,
)

_COMPACTION_SLACK = 1024


class FifoStore:
    """
    Messages in arrival order, and the groups that may be received from next.

    A message within the look-ahead is *admitted*. A group is *ready* when its first message is admitted and no earlier
    one is in flight. The `order` decides which ready group is served first.

    # AWS: a receive looks for available groups from the head of the backlog, so that a large backlog of one
    # group hides groups that were sent later (developer guide, "Avoid a large backlog with the same message
    # group ID"). No page promises a turn to every group.
    """

    __slots__ = (
        "_admitted",
        "_arrivals",
        "_beyond",
        "_delayed",
        "_gone",
        "_groups",
        "_held_back",
        "_in_flight",
        "_latest",
        "_look_ahead",
        "_ready",
        "_turns",
        "_visible",
        "order",
    )

    def __init__(self, *, look_ahead: int, order: GroupOrder = GroupOrder.OLDEST) -> None:
        self._look_ahead = look_ahead
        self.order = order
        self.clear()

    def clear(self) -> None:
        """Forget everything, as a purge does."""
        self._groups: dict[str, MessageGroup] = {}
        self._ready: list[tuple[tuple[int, int], MessageGroup]] = []
        self._held_back: deque[StoredMessage] = deque()
        self._beyond: deque[StoredMessage] = deque()
        self._arrivals: deque[StoredMessage] = deque()
        self._admitted = self._gone = 0
        self._latest = self._turns = 0
        self._visible = self._in_flight = self._delayed = 0

    @property
    def counts(self) -> QueueCounts:
        """Numbers of messages by state."""
        return QueueCounts(self._visible, self._in_flight, self._delayed)

    @property
    def oldest(self) -> StoredMessage | None:
        """The message that arrived first among those still here."""
        arrivals = self._arrivals
        while arrivals and arrivals[0].state is MessageState.GONE:
            arrivals.popleft()
            self._gone -= 1
        return arrivals[0] if arrivals else None

    @property
    def first_held_back(self) -> StoredMessage | None:
        """The delayed message that arrived first."""
        held_back = self._held_back
        while held_back and held_back[0].state is not MessageState.DELAYED:
            held_back.popleft()
        return held_back[0] if held_back else None

    @property
    def has_ready_group(self) -> bool:
        """Whether a receive would find a message."""
        ready = self._ready
        while ready:
            rank, group = ready[0]
            if self._is_ready(group) and self._rank(group) == rank:
                return True
            heapq.heappop(ready)
            group.is_queued = False
            self._settle(group)
        return False

    def messages(self) -> list[StoredMessage]:
        """Return the messages in arrival order, in flight or not; scans all messages."""
        return [message for message in self._arrivals if message.state is not MessageState.GONE]

    def blocked(self) -> int:
        """Return how many messages wait behind one of their group in flight; scans the groups."""
        return sum(group.blocked() for group in self._groups.values() if group.in_flight)

    def look_ahead_by(self, look_ahead: int) -> None:
        """Change how many messages are searched for groups; a smaller number acts on later arrivals only."""
        self._look_ahead = look_ahead
        self._admit()

    def add(self, message: StoredMessage, group_name: str, *, delayed: bool) -> None:
        """Store a message that arrives now, behind all others."""
        group = self._groups.get(group_name)
        if group is None:
            group = self._groups[group_name] = MessageGroup(group_name)
        message.group = group
        group.append(message)
        self._arrivals.append(message)
        self._latest = message.position
        if delayed:
            message.state = MessageState.DELAYED
            self._delayed += 1
            self._held_back.append(message)
        else:
            self._show(message, group)

    def release(self, message: StoredMessage) -> None:
        """End the delay of `first_held_back`."""
        self._held_back.popleft()
        self._delayed -= 1
        self._show(message, _group_of(message))

    def next_group(self) -> MessageGroup | None:
        """Take the first of the ready groups."""
        if not self.has_ready_group:
            return None
        _, group = heapq.heappop(self._ready)
        group.is_queued = False
        self._turns += 1
        group.behind = (self._latest, self._turns)
        return group

    def take_off(self, message: StoredMessage, *, until: float) -> None:
        """Put a message in flight until a moment."""
        group = _group_of(message)
        group.remove(message)
        group.in_flight += (message.position,)
        message.state = MessageState.IN_FLIGHT
        message.visible_at = until
        self._visible -= 1
        self._in_flight += 1

    def land(self, message: StoredMessage) -> None:
        """Make a message in flight visible again, at its old place in its group."""
        group = _group_of(message)
        _end_flight(group, message)
        group.put_back(message)
        message.state = MessageState.VISIBLE
        self._in_flight -= 1
        self._visible += 1
        self._settle(group)

    def drop(self, message: StoredMessage) -> None:
        """Remove a message for good, wherever it is."""
        group = _group_of(message)
        if message.state is MessageState.IN_FLIGHT:
            _end_flight(group, message)
            self._in_flight -= 1
        else:
            group.remove(message)
            if message.state is MessageState.VISIBLE:
                self._visible -= 1
            else:
                self._delayed -= 1
        message.state = MessageState.GONE
        if message.admitted:
            message.admitted = False
            self._admitted -= 1
            self._admit()
        self._settle(group)
        self._gone += 1
        self._compact()

    def _show(self, message: StoredMessage, group: MessageGroup) -> None:
        message.state = MessageState.VISIBLE
        self._visible += 1
        if self._beyond or self._admitted >= self._look_ahead:
            self._beyond.append(message)
            return
        message.admitted = True
        self._admitted += 1
        self._settle(group)

    def _admit(self) -> None:
        beyond = self._beyond
        while beyond and self._admitted < self._look_ahead:
            message = beyond.popleft()
            if message.state is not MessageState.GONE:
                message.admitted = True
                self._admitted += 1
                self._settle(_group_of(message))

    @staticmethod
    def _is_ready(group: MessageGroup) -> bool:
        message = group.available
        return message is not None and message.admitted

    def _settle(self, group: MessageGroup) -> None:
        if self._is_ready(group):
            if not group.is_queued:
                group.is_queued = True
                heapq.heappush(self._ready, (self._rank(group), group))
        elif group.first is None and not group.in_flight and self._groups.get(group.name) is group:
            del self._groups[group.name]

    def _rank(self, group: MessageGroup) -> tuple[int, int]:
        """Rank a ready group by arrival or by its last receive; no two share one, so groups are never compared."""
        first = group.first
        by_arrival = (first.position if first is not None else 0, 0)
        has_returned = first is not None and first.receive_count > 0
        if self.order is GroupOrder.TURN or (self.order is GroupOrder.BACK and has_returned):
            return max(by_arrival, group.behind)
        return by_arrival

    def _compact(self) -> None:
        # A message that stays for days must not keep all later ones that are long gone in memory.
        if self._gone > len(self._arrivals) // 2 + _COMPACTION_SLACK:
            self._arrivals = deque(m for m in self._arrivals if m.state is not MessageState.GONE)
            self._gone = 0


def _end_flight(group: MessageGroup, message: StoredMessage) -> None:
    group.in_flight = tuple(position for position in group.in_flight if position != message.position)


def _group_of(message: StoredMessage) -> MessageGroup:
    if message.group is None:
        raise AssertionError("a stored message belongs to a group")
    return message.group


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
