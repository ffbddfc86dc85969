"""The memory of deduplication ids: which sends of the last five minutes a repeated id refers to."""

import hashlib
from datetime import timedelta

from lanes.testing.fifo.settings import DEDUPLICATION_INTERVAL

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

    __slots__ = ("_current", "_interval", "_previous", "_started_at")

    def __init__(self, *, interval: timedelta = DEDUPLICATION_INTERVAL) -> None:
        self._interval = interval.total_seconds()
        self._started_at = 0.0
        self._current: dict[DeduplicationKey, tuple[float, str, int]] = {}
        self._previous: dict[DeduplicationKey, tuple[float, str, int]] = {}

    def find(self, key: DeduplicationKey, now: float) -> tuple[str, int] | None:
        """Return message id and sequence number of the send that `key` repeats, if there is one."""
        entry = self._current.get(key) or self._previous.get(key)
        # AWS: the interval counts from the accepted send, a duplicate does not extend it
        # (developer guide, "Using the message deduplication ID").
        if entry is None or now - entry[0] >= self._interval:
            return None
        return entry[1], entry[2]

    def remember(self, key: DeduplicationKey, now: float, *, message_id: str, sequence_number: int) -> None:
        """Start the interval of an accepted send."""
        age = now - self._started_at
        if age >= self._interval:
            self._previous = self._current if age < 2 * self._interval else {}
            self._current = {}
            self._started_at = now
        self._current[key] = (now, message_id, sequence_number)

    def clear(self) -> None:
        """Forget all sends."""
        self._current.clear()
        self._previous.clear()
