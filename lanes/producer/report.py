"""The report of sent and unsent messages, and the errors made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lanes.errors import MessageError, SendError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lanes.message import Message

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
