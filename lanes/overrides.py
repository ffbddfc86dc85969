"""
Overrides: an operator's changes to messages that already wait in a queue.

SQS can neither cancel a message nor move it. An override is written to the consumer's table, and the consumer applies
it when it receives the message: it cancels the message, or sends it on to another lane.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from typing import TYPE_CHECKING, Protocol

from lanes.message import MOVED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.message import Message
    from lanes.message_filter import MessageFilter


class Pauses(Protocol):
    """The paused lanes of one deployment; every method raises `AwsError`."""

    def paused(self) -> set[str]:
        """Return the names of the paused lanes."""

    def pause(self, lane: str) -> None:
        """Pause a lane; a paused one stays so."""

    def resume(self, lane: str) -> None:
        """Resume a lane, if it is paused."""


OVERRIDES_AGE = 5.0
"""Seconds for which an environment uses its reading of the active overrides: the only cost while there are none."""

KNOWN_AFTER = OVERRIDES_AGE + 1.0
"""Seconds after which every active environment knows of an override."""

# The override's time is in the id, so that it moves a message once, and an older override never moves it back; behind
# it the time since which the message has waited. Both are milliseconds.
MOVED_ID = re.compile(rf"{MOVED}(\d{{1,15}})-(\d{{1,15}})-\S+")


class QueuedRecord(Protocol):
    """The part of a record that an override judges; times are epoch seconds."""

    @property
    def message_id(self) -> str:
        """The id that SQS gave."""

    @property
    def group(self) -> str:
        """Its message group."""

    @property
    def sent_at(self) -> float:
        """When it entered the queue."""

    @property
    def claimed_at(self) -> float | None:
        """When a relay claimed it in an outbox; None if it came by another way."""

    @property
    def run(self) -> str:
        """The mark of its run; empty for none."""

    @property
    def deduplication_id(self) -> str:
        """Its deduplication id."""


class Action(enum.StrEnum):
    """The change that an override makes to a message."""

    CANCEL = "cancel"
    PRIORITIZE = "prioritize"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """
    One change that an operator asked for. Times are epoch seconds, by the clock of AWS.

    Attributes:
        id: of the override.
        action: the change.
        wanted: selects the messages.
        created_at: selects messages that waited then; a filter of groups alone selects their later messages as well.
        expires_at: when it ends by itself.
        who: ARN of the operator.
        why: the operator's reason.
        priority: the new priority, if the action is to prioritize.

    """

    id: str
    action: Action
    wanted: MessageFilter
    created_at: float
    expires_at: float
    who: str
    why: str = ""
    priority: int = 0

    def means(self, record: QueuedRecord, message: Message | None, *, since: float) -> bool:
        """
        Whether it selects a record; without a message, since the body is not an event, by its group, or as one of all.

        Args:
            record: the record.
            message: its message, or None.
            since: when the record began to wait.
        """
        is_lasting = self.action is Action.PRIORITIZE and self.wanted.by_group_alone
        # The time first: it costs nothing, and an expression costs a step for each character.
        if not (is_lasting or since <= self.created_at):
            return False
        if self.wanted.by_group_alone:
            return self.wanted.matches_group(record.group)
        if message is None:
            return self.wanted.chooses_all
        # The name in the mark; `lanes.runs` is loaded for messages with one alone.
        run = record.run.partition("/")[2] if self.wanted.run is not None else ""
        return self.wanted.matches(message, run=run)

    def is_known(self, *, now: float) -> bool:
        """
        Whether every environment knows of it.

        An environment that moved a message earlier would send it on while another handles the next of its group.
        """
        return now >= self.created_at + KNOWN_AFTER

    def has_moved(self, record: QueuedRecord) -> bool:
        """Whether it has sent a record on; an id of this form that no override gave is a sender's own."""
        moved = MOVED_ID.fullmatch(record.deduplication_id)
        return moved is not None and moved[1] == str(self.milliseconds)

    def moved_id(self, record: QueuedRecord, *, since: float) -> str:
        """Return the deduplication id of a record that it sends on: a repeat within five minutes has no effect."""
        return f"{MOVED}{self.milliseconds}-{math.floor(since * 1000)}-{record.message_id}"

    @property
    def milliseconds(self) -> int:
        """When it was made, as in the ids of moved messages."""
        return round(self.created_at * 1000)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ActiveOverrides:
    """
    The overrides at one moment.

    Attributes:
        overrides: those that have not expired, the latest first.
        unread: ids of overrides that this release can't read.

    """

    overrides: tuple[Override, ...] = ()
    unread: tuple[str, ...] = ()

    def of(self, action: Action) -> list[Override]:
        """Return the overrides of one action, the latest first."""
        return [override for override in self.overrides if override.action is action]

    def waiting_since(self, record: QueuedRecord) -> float:
        """
        Return the epoch time since which a record has waited, here, in another lane, or in the hands of a relay.

        A sender's own time says nothing about that: replays, sensors and change capture set an old one.
        """
        moved = MOVED_ID.fullmatch(record.deduplication_id)
        if moved and any(override.has_moved(record) for override in self.overrides):
            return min(int(moved[2]) / 1000, record.sent_at)
        return record.sent_at if record.claimed_at is None else min(record.claimed_at, record.sent_at)

    @property
    def may_redirect(self) -> bool:
        """Whether messages may have to follow others of their group that were sent on."""
        moves = self.of(Action.PRIORITIZE)
        # One alone that means whole groups means each message of them.
        return len(moves) > 1 or any(not override.wanted.by_group_alone for override in moves)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GroupRedirect:
    """A group with moved messages: its later ones in the lane follow, by the overrides with these ids."""

    lane: str
    group: str
    overrides: tuple[str, ...]
    expires_at: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The record of a cancelled message, with who cancelled it and why. Times are epoch seconds."""

    lane: str
    message_id: str
    id: str
    kind: str
    group: str
    source: str
    sent_at: float
    receive_count: int
    cancelled_at: float
    override: str
    who: str
    why: str


class Overrides(Protocol):
    """The consumer's access to overrides; every method raises `AwsError`."""

    def active(self) -> ActiveOverrides:
        """Read the active overrides."""

    def redirects(self, lane: str, groups: Sequence[str]) -> Mapping[str, GroupRedirect]:
        """Return the redirects of those groups that have one, by group."""

    def redirect(self, redirect: GroupRedirect) -> None:
        """Redirect the later messages of a group."""

    def cancelled(self, cancelled: Cancelled) -> None:
        """Record a cancelled message; a second record of the same message replaces the first."""
