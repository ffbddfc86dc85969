"""What happened to the messages of a test: sent, handled, failed, dead-lettered."""

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
    A message that a lane took in, by whomever it was sent.

    Attributes:
        message: with its resolved priority.
        lane: name of the lane.
        at: when, by the test's clock.
        message_id: what SQS would call it.

    """

    message: Message
    lane: str
    at: datetime
    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """
    A message whose handler succeeded.

    Attributes:
        message: what was handled.
        lane: name of the lane that it came by.
        at: when it was done, by the test's clock.
        attempt: the one that succeeded, 1 for the first.
        receive_count: how often it was received until then, yields included.

    """

    message: Message
    lane: str
    at: datetime
    attempt: int
    receive_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """
    An attempt that failed.

    Attributes:
        message: what was tried.
        lane: name of the lane that it came by.
        at: when it failed, by the test's clock.
        attempt: 1 for the first.
        error: what the handler raised; `Retry` and `DeadLetter` too.

    """

    message: Message
    lane: str
    at: datetime
    attempt: int
    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettered:
    """
    A message that was given up.

    Attributes:
        message: as it is in the dead-letter queue; a body that is no message has no kind, and itself as data.
        lane: name of its lane.
        at: when, by the test's clock.
        reason: why.
        error: of its last failed attempt, if there was one.
        attempts: how many failed.
        yields: how often it made way.
        receives: how often it was received in all.

    """

    message: Message
    lane: str
    at: datetime
    reason: str
    error: str
    attempts: int
    yields: int
    receives: int


Happening = Sent | Handled | Failed | DeadLettered


def message_of(body: str, *, group: str, message_id: str) -> Message:
    """Return the message in a body; one that is no message stands for itself: no kind, the body as data."""
    try:
        return Message.from_body(body, group=group)
    except MessageDecodeError:
        return Message(kind="", data=body, id=message_id, group=group)
