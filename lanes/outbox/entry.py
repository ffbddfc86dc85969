"""
An entry of an outbox: a message that waits in the application's own database.

Owns the words entry and state. Times are epoch seconds.

    PENDING ──claim──▶ PROCESSING ──sent──▶ PUBLISHED
       ▲                  │    │
       └──lock expired────┘    └─not sent─▶ FAILED ──claim──▶ PROCESSING, or ABANDONED after the last attempt
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from lanes.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable

MICROSECONDS = 1_000_000
LONGEST_ERROR = 1000
LARGEST_PRIORITY = 2**31 - 1


class EntryState(StrEnum):
    """How far an entry is."""

    PENDING = "PENDING"
    """Waits for a relay."""
    PROCESSING = "PROCESSING"
    """A relay has locked it and sends it."""
    PUBLISHED = "PUBLISHED"
    """SQS has it."""
    FAILED = "FAILED"
    """It could not be sent and waits for its next attempt."""
    ABANDONED = "ABANDONED"
    """It could not be sent in all its attempts, or was cancelled."""


WAITING = frozenset({EntryState.PENDING, EntryState.FAILED})
FINISHED = frozenset({EntryState.PUBLISHED, EntryState.ABANDONED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """
    One entry.

    Attributes:
        id: of the message, and its deduplication ID.
        kind: of the message.
        source: CloudEvents source of the message.
        group: message group, None where the message is its own.
        body: the message as it will stand in the queue, apart from its priority.
        priority: decided when the entry was written; operators may change it while it waits.
        lane: where the priority leads, as of then.
        position: age in microseconds of the epoch, distinct within a process.
        state: how far it is.
        attempts: failed attempts.
        last_error: why the last one failed.
        locked_by: the claim that holds it.
        locked_until: when that ends.
        next_attempt_at: when a failed one is tried again.
        changed_at: when it came into its state.
        published_at: when SQS had it.
        sequence_number: what SQS calls it in its queue.
        expires_at: when a finished one may be removed.
        is_parked: waits for an earlier entry of its group and lane, and is no candidate meanwhile.
    """

    id: str
    kind: str
    source: str
    group: str | None
    body: str
    priority: int
    lane: str
    position: int
    state: EntryState = EntryState.PENDING
    attempts: int = 0
    last_error: str = ""
    locked_by: str | None = None
    locked_until: float | None = None
    next_attempt_at: float | None = None
    changed_at: float = 0.0
    published_at: float | None = None
    sequence_number: str = ""
    expires_at: float | None = None
    is_parked: bool = False

    @property
    def created_at(self) -> float:
        """When the entry was written."""
        return self.position / MICROSECONDS

    @property
    def chain(self) -> str | None:
        """What is sent in order: the entries of one group in one lane; None where there is no group."""
        return chain_of(self.lane, self.group)

    def message(self) -> Message:
        """
        Give the message to send, under the id and the priority of the entry, whatever its body says.

        Raises:
            MessageDecodeError: the body is no message.
        """
        return replace(Message.from_body(self.body, group=self.group), id=self.id, priority=self.priority)


def chain_of(lane: str, group: str | None) -> str | None:
    """Name the entries that keep their order among themselves; lanes' names hold no `#`."""
    return None if group is None else f"{lane}#{group}"


class Positions:
    """
    Gives each entry of a process a later position than the one before, also within one microsecond.

    Args:
        clock: epoch seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> int:
        """Give the next position."""
        with self._lock:
            self._last = max(int(self._clock() * MICROSECONDS), self._last + 1)
            return self._last
