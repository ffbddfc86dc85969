"""The records that a producer exchanges with SQS, the protocol between them, and the report of their ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lanes.errors import MessageError, SendError
from lanes.fault_codes import Cause, cause_of, is_about_message
from lanes.message import Message
from lanes.trace_context import xray_header

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime


def check_messages(messages: object, called: str = "send_many") -> None:
    """
    Refuse anything but an iterable of messages before it is read.

    Raises:
        TypeError: it is one message, or nothing that can be iterated.
    """
    if isinstance(messages, Message) or not isinstance(messages, Iterable):
        raise TypeError(
            f"{called} accepts an iterable of Message(kind=..., data=...), such as a list, not "
            f"{'one Message' if isinstance(messages, Message) else repr(messages)}"
        )


@dataclass(slots=True, kw_only=True)
class Outgoing:
    """One message to send, with its index in the caller's list and the state of its tries."""

    index: int
    message: Message
    body: str
    size_bytes: int
    attempts: int = 0
    first_tried_at: float = 0.0
    # Stays set through later tries: the first of them may have arrived.
    maybe_sent: bool = False
    # After a call that was refused for one of its messages: each is sent alone, to find that one.
    alone: bool = False
    claimed_at: float | None = None
    run: str = ""
    attributes: Mapping[str, Any] | None = None
    # Of a message that is sent on; else made from its trace.
    trace_header: str | None = None

    @property
    def message_group_id(self) -> str:
        """Its group at SQS."""
        return self.message.message_group_id

    def entry(self, entry_id: str) -> SendEntry:
        """Return it as an entry of a batch call."""
        return SendEntry(
            entry_id=entry_id,
            body=self.body,
            message_group_id=self.message.message_group_id,
            message_deduplication_id=self.message.message_deduplication_id,
            trace_header=self.trace_header or xray_header(self.message.traceparent),
            claimed_at=self.claimed_at,
            run=self.run,
            attributes=self.attributes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SendEntry:
    """
    One entry of a batch call.

    Attributes:
        trace_header: the tracing header of X-Ray.
        claimed_at: epoch seconds at which a relay claimed it in an outbox.
        run: the mark of the run that it belongs to; empty for none.
        attributes: of a message that is sent on, as SendMessage takes them; None for none.
    """

    entry_id: str
    body: str
    message_group_id: str
    message_deduplication_id: str
    trace_header: str | None = None
    claimed_at: float | None = None
    run: str = ""
    attributes: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The answer for an entry that SQS has accepted."""

    message_id: str
    sequence_number: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """
    The answer for a refused entry.

    Attributes:
        code: error code of AWS.
        reason: why, for people.
        retryable: whether it may be accepted later as it is.
        of_call: whether it is the answer for the whole call, or for entries that were in no call.
    """

    code: str
    reason: str
    retryable: bool
    of_call: bool = False

    @property
    def is_own_fault(self) -> bool:
        """Whether the entry itself is at fault, so that its queue may accept others."""
        # SQS may refuse each entry for its key or its rights, which no other entry has either.
        is_about_entry = not self.of_call or is_about_message(self.code)
        return not self.retryable and is_about_entry and cause_of(self.code) is Cause.OTHER


ACCEPTED = Accepted(message_id="", sequence_number="")
"""Where nobody asks for the ids that SQS gave."""

UNANSWERED = Refused(code="Unanswered", reason="the answer of SQS does not contain it", retryable=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnded:
    """
    A call that ended.

    Attributes:
        number: what `start` gave.
        answers: by place in the batch.
        error: the failure of the whole call; there are no answers then.
    """

    number: int
    answers: Sequence[Accepted | Refused] = ()
    error: BaseException | None = None


T_contra = TypeVar("T_contra", contravariant=True)


class BatchCalls(Protocol[T_contra]):
    """Makes batch calls, several at the same time; used by one thread."""

    def start(self, queue_url: str, items: Sequence[T_contra]) -> int:
        """Start a call with up to ten messages and return its number."""

    def ended(self, timeout: float | None) -> list[CallEnded]:
        """Wait until a call ends or the timeout has passed, and return the calls that ended."""

    def close(self) -> None:
        """Close the connections; calls in progress are left alone."""


class BatchSender(Protocol):
    """Sends one batch; shared by threads."""

    def send_batch(self, queue_url: str, entries: Sequence[SendEntry]) -> Mapping[str, Accepted | Refused]:
        """
        Send up to ten entries and return the answers by entry id.

        Raises:
            AwsError: the call as a whole failed.
        """


# Codes of messages that were not tried themselves: an earlier one of the group failed, the lane failed, or the sending
# was stopped.
BLOCKED, LANE_FAILED, INTERRUPTED = "GroupBlocked", "LaneFailed", "Interrupted"
# An error is read in a log; its lists have all messages.
LISTED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """
    A message that SQS has accepted, or one for later that EventBridge Scheduler has.

    Attributes:
        id: of the event.
        lane: name of its lane.
        message_id: in SQS; empty for one for later.
        sequence_number: in SQS; empty for one for later.
        not_before: the time of one for later; None for one that is in its lane.
    """

    id: str
    lane: str
    message_id: str
    sequence_number: str
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsentMessage:
    """
    A message that could not be sent.

    Attributes:
        message: the message with its resolved priority; you can send it again as it is.
        lane: name of its lane.
        reason: why, for people.
        code: error code of AWS, or `GroupBlocked`, `LaneFailed`, `Interrupted`, `Unanswered`.
        maybe_sent: SQS gave no clear answer, so the message may be in the queue. If you send it again within
            five minutes, SQS drops the repeat; later the consumer's idempotency does.
        is_own_fault: SQS refused this message itself; otherwise it did not accept any message at that time.
    """

    message: Message
    lane: str
    reason: str
    code: str
    maybe_sent: bool = False
    is_own_fault: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReport:
    """
    The result of one `send_many`: each message is in one of the two lists, in the order given.

    Attributes:
        sent: messages that SQS has accepted.
        unsent: all others.
        cause: the first error of a call.
    """

    sent: list[SentMessage]
    unsent: list[UnsentMessage]
    cause: BaseException | None = None

    def error(self) -> PartialSendError:
        """Return the error with the lists of this report."""
        return PartialSendError(sent=self.sent, failed=self.unsent)


class RefusedMessagesError(MessageError):
    """Some messages of one call were refused; none of the call was sent."""

    def __init__(self, refusals: Iterable[tuple[int, Message, MessageError]]) -> None:
        self.refusals = list(refusals)
        shown = [
            f"message {index} ({message.kind!r}): {error}" for index, message, error in self.refusals[:LISTED]
        ]
        super().__init__(
            f"{len(self.refusals)} refused, nothing was sent{_listed(shown, len(self.refusals))}"
        )


class PartialSendError(SendError):
    """
    Some messages were sent and some were not; both are listed in the order given.

    Sending `[unsent.message for unsent in error.failed]` again keeps the order of every group.
    """

    def __init__(self, *, sent: Iterable[SentMessage], failed: Iterable[UnsentMessage]) -> None:
        self.sent = list(sent)
        self.failed = list(failed)
        total = len(self.sent) + len(self.failed)
        shown = [f"{unsent.message.id}: {unsent.reason}" for unsent in self.failed[:LISTED]]
        super().__init__(
            f"{len(self.failed)} of {total} messages were not sent{_listed(shown, len(self.failed))}"
        )


def _listed(shown: list[str], total: int) -> str:
    more = [f"and {total - len(shown)} more"] if total > len(shown) else []
    return "".join(f"\n  - {line}" for line in [*shown, *more])
