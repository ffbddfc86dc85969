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
    """A message that a lane took in, by whomever it was sent."""

    message: Message
    lane: str
    at: datetime
    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """A message whose handler succeeded, in the attempt that did."""

    message: Message
    lane: str
    at: datetime
    attempt: int
    receive_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """An attempt that failed, with what the handler raised."""

    message: Message
    lane: str
    at: datetime
    attempt: int
    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettered:
    """A message that was given up. `yields` and `receives` are its history, as the dead-letter queue has it."""

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
