"""
An entry of an outbox: a message that waits in your application's database.

Owns the words entry and state. Times are epoch seconds.

    PENDING ──claim──▶ PROCESSING ──sent──▶ PUBLISHED
       ▲                  │    │
       └──lock expired────┘    └─not sent─▶ FAILED ──claim──▶ PROCESSING, or ABANDONED after the last attempt

An operator can cancel an entry that waits, which is then CANCELLED. An entry that may not be sent before a time is
scheduled: PENDING, no candidate, and outside its group until then.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypedDict

from lanes.encoding import with_members
from lanes.message import Message, identity_of, in_xml

if TYPE_CHECKING:
    from collections.abc import Callable

MICROSECONDS = 1_000_000
# At most 4 KB in UTF-8, for which a DynamoDB item keeps room (`lanes.outbox.dynamodb.table.RESERVED_BYTES`).
LONGEST_ERROR = 1000
# An INTEGER of PostgreSQL has 32 bits.
LARGEST_PRIORITY = 2**31 - 1
# Beyond it a time is a mistake of units, rather than a plan.
LATEST = timedelta(days=3653)


class EntryOptions(TypedDict, total=False):
    """The options of an entry: see `Outbox.prepare`."""

    group: str | None
    priority: int | None
    id: str | None
    traceparent: str | None
    not_before: datetime | timedelta | None
    expires: datetime | timedelta | None


class UniqueOptions(EntryOptions, total=False):
    """
    The options of an entry that is written in your transaction.

    Attributes:
        unique: of the entries with this key at most one waits for a relay to take it, up to 128 characters.
        on_duplicate: if there is one, `refuse` raises an error and `keep` leaves you with that one.
    """

    unique: str | None
    on_duplicate: Literal["refuse", "keep"]


class EntryState(StrEnum):
    """The state of an entry."""

    PENDING = "PENDING"
    """It waits for a relay."""
    PROCESSING = "PROCESSING"
    """A relay has locked it and is sending it."""
    PUBLISHED = "PUBLISHED"
    """SQS has accepted it."""
    FAILED = "FAILED"
    """It was not sent and waits for its next attempt."""
    ABANDONED = "ABANDONED"
    """All its attempts failed."""
    CANCELLED = "CANCELLED"
    """An operator cancelled it."""


RETRYABLE = frozenset({EntryState.ABANDONED, EntryState.CANCELLED, EntryState.FAILED})
WAITING = frozenset({EntryState.PENDING, EntryState.FAILED})
FINISHED = frozenset({EntryState.PUBLISHED, EntryState.ABANDONED, EntryState.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """
    One entry.

    Attributes:
        id: of the message.
        kind: of the message.
        source: CloudEvents source of the message.
        group: message group, or None if the message is its own group.
        body: body of the message, except for its priority.
        priority: resolved when the entry was written; operators can change it while the entry waits.
        lane: the lane of the priority at that time.
        position: its place in the order of writing: in SQL the database's number, which an entry has once it is
            written; in DynamoDB microseconds of the epoch, unique within a process or, with the group's lock, a group.
        created_at: time of writing, by the writer's clock.
        state: the current state.
        attempts: failed attempts.
        last_error: error of the last failed attempt.
        locked_by: owner of the lock.
        locked_until: end of the lock.
        next_attempt_at: time of the next attempt after a failed one.
        changed_at: time of the last change of the state.
        published_at: time when SQS accepted it.
        sequence_number: sequence number in its queue.
        expires_at: time from which a finished entry may be removed.
        is_parked: whether it waits for an earlier entry of its group and lane, and is not a candidate.
        holds_group: whether it is abandoned and its group waits for an operator (`on_abandoned = "hold"`).
        not_before: time before which it may not be sent; None for none.
        is_scheduled: whether it waits for that time, and is not in its group yet.
        unique_key: the key of which at most one entry waits for its first claim; None for none.
    """

    id: str
    kind: str
    source: str
    group: str | None
    body: str
    priority: int
    lane: str
    position: int
    created_at: float
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
    holds_group: bool = False
    not_before: float | None = None
    is_scheduled: bool = False
    unique_key: str | None = None

    @property
    def identity(self) -> str:
        """The identity of its message: see `identity_of`."""
        return identity_of(self.source, self.kind, self.id)

    @property
    def sendable_from(self) -> float:
        """The time from which the entry could be sent."""
        return max(self.created_at, self.not_before or 0.0)

    @property
    def chain(self) -> str | None:
        """The ordered sequence of the entry: its group in its lane; None without a group."""
        return chain_of(self.lane, self.group)

    def message(self) -> Message:
        """
        Return the message to send; id and priority are those of the entry, the rest is its body as it was written.

        Raises:
            MessageDecodeError: the body is not a message.
        """
        read = Message.from_body(self.body, group=self.group)
        values = {name: getattr(read, name) for name in _FIELDS}
        return WrittenMessage(
            **values | {"id": self.id, "priority": self.priority}, written=self.body, read=read
        )


_FIELDS = tuple(one.name for one in fields(Message))


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenMessage(Message):
    """
    A message with a body that another program may have written: only changed members are written again.

    Attributes:
        written: the body.
        read: the message of the body.
    """

    written: str
    read: Message

    def _encoded(self, problems: list[str]) -> str:  # noqa: ARG002 - the body was read, so it is JSON
        changes = {
            name: json.dumps(getattr(self, name))
            for name in ("id", "priority", "traceparent")
            if getattr(self, name) != getattr(self.read, name)
        }
        return in_xml(with_members(self.written, changes))


def chain_of(lane: str, group: str | None) -> str | None:
    """Return the name of the ordered sequence of a group in a lane; names of lanes contain no `#`."""
    return None if group is None else f"{lane}#{group}"


class Positions:
    """
    Assigns increasing positions to the entries of a process, also within one microsecond.

    Args:
        clock: epoch seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> int:
        """Return the next position."""
        with self._lock:
            # The clock may repeat itself or be set back; the order of writing must not.
            self._last = max(int(self.clock() * MICROSECONDS), self._last + 1)
            return self._last
