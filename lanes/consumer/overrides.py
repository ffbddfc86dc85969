"""
Overrides: what an operator wants done with messages that wait in a queue already.

SQS can neither cancel a message nor change where it waits. An override stands on a board in the ledger's table, and
the consumer honours it when it receives the message: it is cancelled, or sent on to another lane.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.consumer.records import RawRecord
    from lanes.message import Message
    from lanes.message_filter import MessageFilter

BOARD_AGE = 5.0
"""Most seconds for which an environment goes by the board as it read it: its only cost while the board is empty."""

KNOWN_AFTER = 6.0
"""Seconds after which every environment that works knows what was put on the board."""

PUBLISHED_WITHIN = 3600.0
"""Seconds within which a message that was written before an override may have reached its queue after it."""

MOVED = re.compile(r"moved-(\d+)-\S+")


class Action(enum.StrEnum):
    """What an override does with a message."""

    CANCEL = "cancel"
    PRIORITIZE = "prioritize"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """
    One wish of an operator. Times are epoch seconds, by the clock of AWS.

    Attributes:
        id: of the override.
        action: what to do.
        wanted: with which messages.
        created_at: it means messages that waited then; where it names groups alone, also what they get later.
        expires_at: when it ends by itself.
        who: ARN of the operator.
        why: in the operator's words.
        priority: the new one, where the action is to prioritize.

    """

    id: str
    action: Action
    wanted: MessageFilter
    created_at: float
    expires_at: float
    who: str
    why: str = ""
    priority: int = 0

    def means(self, record: RawRecord, message: Message | None) -> bool:
        """Tell whether it means a record; `message` is None where the body is no event, which only a group tells."""
        if self.wanted.by_group_alone:
            met = self.wanted.matches_group(record.group)
        else:
            met = message is not None and self.wanted.matches(message)
        lasting = self.action is Action.PRIORITIZE and self.wanted.by_group_alone
        return met and (lasting or self._waited(record, message))

    def _waited(self, record: RawRecord, message: Message | None) -> bool:
        """Whether it waited when the override was written, in the queue or in an outbox that has published it since."""
        if record.sent_at <= self.created_at:
            return True
        written_at = record.sent_at if message is None else message.time.timestamp()
        return written_at <= self.created_at and record.sent_at <= self.created_at + PUBLISHED_WITHIN

    def moves(self, record: RawRecord, *, now: float) -> bool:
        """
        Whether it may move a record now: every environment knows of it, and no later one has moved the record before.

        One that knew of it earlier than the others would send a message on while another handles the next of its group.
        """
        moved = MOVED.fullmatch(record.deduplication_id)
        by = int(moved[1]) if moved else -1
        return now >= self.created_at + KNOWN_AFTER and by < self.milliseconds

    def moved_id(self, record: RawRecord) -> str:
        """Return the deduplication id of a record that it sends on: a repeat within five minutes has no effect."""
        return f"moved-{self.milliseconds}-{record.message_id}"

    @property
    def milliseconds(self) -> int:
        """When it was made, as moved messages tell it."""
        return round(self.created_at * 1000)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """
    What stands on the board at one moment.

    Attributes:
        overrides: those that have not expired, the latest first.
        held: names of lanes some of whose groups are held.
        unread: ids of overrides that this release can't read.

    """

    overrides: tuple[Override, ...] = ()
    held: frozenset[str] = frozenset()
    unread: tuple[str, ...] = ()

    def of(self, action: Action) -> list[Override]:
        """Return the overrides of one action, the latest first."""
        return [override for override in self.overrides if override.action is action]

    @property
    def may_follow(self) -> bool:
        """Whether messages may have to follow others of their group that were sent on."""
        return any(not override.wanted.by_group_alone for override in self.of(Action.PRIORITIZE))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Follow:
    """A group of which a message was sent on by an override: the later ones of its lane follow, until it expires."""

    lane: str
    group: str
    override: str
    expires_at: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The record of a message that was cancelled, and who wanted it so. Times are epoch seconds."""

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
    """The consumer's side of the board; every method raises `AwsError`."""

    def board(self) -> Board:
        """Read the board, as it stands now."""

    def follows(self, lane: str, groups: Sequence[str]) -> Mapping[str, Follow]:
        """Return which of the groups have to follow, by group."""

    def follow(self, follow: Follow) -> None:
        """Let the later messages of a group follow."""

    def cancelled(self, cancelled: Cancelled) -> None:
        """Record a cancelled message; a second record of the same message takes the place of the first."""


class NoOverrides:
    """A board on which nothing stands."""

    def board(self) -> Board:
        """Return an empty board."""
        return Board()

    def follows(self, lane: str, groups: Sequence[str]) -> Mapping[str, Follow]:  # noqa: ARG002
        """Return none."""
        return {}

    def follow(self, follow: Follow) -> None:
        """Do nothing."""

    def cancelled(self, cancelled: Cancelled) -> None:
        """Do nothing."""
