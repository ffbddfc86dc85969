"""
The messages of one FIFO queue by state (held back, visible, in flight) and by group.

Knows order, group exclusivity and the look-ahead; knows nothing of handles, deduplication or the clock.
Each change costs at most the logarithm of the number of groups, however many messages there are.
"""

import heapq
from collections import deque

from lanes.testing.fifo.message import MessageGroup, MessageState, QueueCounts, StoredMessage
from lanes.testing.fifo.settings import GroupOrder

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
