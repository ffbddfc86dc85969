"""The memory of receives by their attempt id, for callers that lost the answer."""

from collections import deque

from lanes.testing.fifo.errors import AttemptOverError
from lanes.testing.fifo.message import MessageState, ReceivedMessage, StoredMessage
from lanes.testing.fifo.settings import DEDUPLICATION_INTERVAL

Receive = list[tuple[StoredMessage, ReceivedMessage]]

_INTERVAL = DEDUPLICATION_INTERVAL.total_seconds()


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
