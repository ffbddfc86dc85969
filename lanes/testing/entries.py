"""The journal's entries: messages sent, handled, failed and dead-lettered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lanes.errors import MessageDecodeError
from lanes.message import Message

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """
    A message that a lane accepted from any sender.

    Attributes:
        message: with its resolved priority.
        lane: name of the lane.
        at: when, by the test's clock.
        message_id: its id in SQS.

    """

    message: Message
    lane: str
    at: datetime
    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """
    A successfully handled message.

    Attributes:
        message: the handled message.
        lane: name of the lane that it came by.
        at: when it was done, by the test's clock.
        attempt: the successful attempt, 1 for the first.
        receive_count: receives until then, yields included.

    """

    message: Message
    lane: str
    at: datetime
    attempt: int
    receive_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """
    A failed attempt.

    Attributes:
        message: the attempted message.
        lane: name of the lane that it came by.
        at: when it failed, by the test's clock.
        attempt: 1 for the first.
        error: the handler's exception, `Retry` and `DeadLetter` included.

    """

    message: Message
    lane: str
    at: datetime
    attempt: int
    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettered:
    """
    A dead-lettered message.

    Attributes:
        message: as it is in the dead-letter queue; a raw body has no kind, and is the data itself.
        lane: name of its lane.
        at: when, by the test's clock.
        reason: of the dead letter.
        error: of its last failed attempt, if there was one.
        attempts: number of failed attempts.
        yields: number of yields.
        receives: number of receives in all.

    """

    message: Message
    lane: str
    at: datetime
    reason: str
    error: str
    attempts: int
    yields: int
    receives: int


JournalEntry = Sent | Handled | Failed | DeadLettered


def message_of(body: str, *, group: str, message_id: str) -> Message:
    """Return the message in a body; a raw body becomes a message without a kind, with the body as data."""
    try:
        return Message.from_body(body, group=group)
    except MessageDecodeError:
        return Message(kind="", data=body, id=message_id, group=group)
