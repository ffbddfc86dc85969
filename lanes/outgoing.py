"""What goes to a queue and what comes back: the records and the seam between the producer and SQS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """A message that SQS has accepted: its event id, its lane's name, and what SQS calls it."""

    id: str
    lane: str
    message_id: str
    sequence_number: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsentMessage:
    """
    A message that could not be sent.

    Attributes:
        message: the message with the priority it was to be sent with; it can be sent again as it is.
        lane: name of the lane that it was for.
        reason: why, for people.
        code: error code of AWS, or `GroupBlocked`, `LaneFailed`, `Interrupted`, `Unanswered`.
        maybe_sent: no clear answer came for it, so it may be in the queue all the same. Sent again within
            five minutes SQS drops the repeat, later the consumer's idempotency does.
    """

    message: Message
    lane: str
    reason: str
    code: str
    maybe_sent: bool = False


@dataclass(slots=True, kw_only=True)
class Outgoing:
    """One message on its way, with its place in the caller's list and what has happened to it so far."""

    index: int
    message: Message
    body: str
    size_bytes: int
    attempts: int = 0
    first_tried_at: float = 0.0
    maybe_sent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SendEntry:
    """One entry of a batch call; `trace_header` is what X-Ray calls the place that the message is sent from."""

    entry_id: str
    body: str
    message_group_id: str
    message_deduplication_id: str
    trace_header: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The answer for an entry that is in the queue."""

    message_id: str
    sequence_number: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The answer for an entry that is not; `retryable` is False where the entry itself is at fault."""

    code: str
    reason: str
    retryable: bool


class BatchSender(Protocol):
    """Sends one batch; shared by threads."""

    def send_batch(self, queue_url: str, entries: Sequence[SendEntry]) -> Mapping[str, Accepted | Refused]:
        """
        Send up to ten entries and give the answers by entry id.

        Raises:
            AwsError: the call as a whole failed.
        """
