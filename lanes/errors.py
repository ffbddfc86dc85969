"""
Everything this library raises.

    LanesError
    ├── ConfigurationError          .problems ; raised before any work
    ├── MessageError
    │   ├── InvalidMessageError     .problems ; refused before any call
    │   ├── MessageTooLargeError    .size_bytes .limit_bytes
    │   ├── MessageDecodeError      .reason ; ends as a dead letter, never as a crash of the batch
    │   └── RefusedMessagesError    .refusals ; everything wrong with the messages of one `send_many`
    ├── SendError
    │   └── PartialSendError        .sent .failed
    ├── OutboxError
    │   ├── EntryTooLargeError      .size_bytes .limit_bytes ; refused before any call
    │   ├── TransactionTooLargeError  .actions .size_bytes ; refused before any call
    │   └── OutboxStoreError        .retryable ; what a SQL database said
    ├── HandlerError
    │   ├── UnknownKindError        .kind .known
    │   └── DuplicateHandlerError   .kind
    └── AwsError                    .operation .code .retryable .answered

`Retry` and `DeadLetter` are no errors but signals: a handler raises them to say what becomes of its record.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lanes.message import Message
    from lanes.outgoing import SentMessage, UnsentMessage

LISTED = 5


class LanesError(Exception):
    """Root of all errors of this library."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Survive pickling, which the keyword arguments of the subclasses would prevent."""
        return _restore, (type(self), self.args, dict(self.__dict__))


class ConfigurationError(LanesError):
    """Settings are missing or contradict each other; nothing was done yet."""

    def __init__(self, problems: Iterable[str], *, source: str = "configuration") -> None:
        self.problems = list(problems)
        self.source = source
        lines = "".join(f"\n  - {problem}" for problem in self.problems)
        count = len(self.problems)
        super().__init__(f"{source}: {count} problem{'' if count == 1 else 's'}{lines}")


class MessageError(LanesError):
    """A message can't be sent or can't be read."""


class InvalidMessageError(MessageError):
    """A message breaks a rule of SQS, of CloudEvents or of JSON; it was not sent."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("; ".join(self.problems))


class MessageTooLargeError(MessageError):
    """A message is larger than SQS takes; it was not sent."""

    def __init__(self, *, size_bytes: int, limit_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        super().__init__(
            f"the message has {size_bytes:,} bytes and SQS takes {limit_bytes:,}; "
            f"put the data into S3 and send where it is"
        )


class MessageDecodeError(MessageError):
    """A body is not a CloudEvents 1.0 JSON event."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"not a CloudEvents 1.0 JSON event: {reason}")


class RefusedMessagesError(MessageError):
    """Some messages of one call were refused; none of the call was sent."""

    def __init__(self, refusals: Iterable[tuple[int, Message, MessageError]]) -> None:
        self.refusals = list(refusals)
        shown = [
            f"\n  - message {index} ({message.kind!r}): {error}"
            for index, message, error in self.refusals[:LISTED]
        ]
        more = len(self.refusals) - len(shown)
        rest = f"\n  - and {more} more" if more else ""
        super().__init__(f"{len(self.refusals)} refused, nothing was sent{''.join(shown)}{rest}")


class SendError(LanesError):
    """Messages could not be sent."""


class PartialSendError(SendError):
    """
    Some messages were sent and some were not; both are listed in the order in which they were given.

    Sending `[unsent.message for unsent in error.failed]` again keeps the order of every group.
    """

    def __init__(self, *, sent: Iterable[SentMessage], failed: Iterable[UnsentMessage]) -> None:
        self.sent = list(sent)
        self.failed = list(failed)
        total = len(self.sent) + len(self.failed)
        shown = [f"\n  - {unsent.message.id}: {unsent.reason}" for unsent in self.failed[:LISTED]]
        more = len(self.failed) - len(shown)
        rest = f"\n  - and {more} more" if more else ""
        super().__init__(f"{len(self.failed)} of {total} messages were not sent{''.join(shown)}{rest}")


class OutboxError(LanesError):
    """Something about an outbox can't be done."""


class EntryTooLargeError(OutboxError):
    """An entry is larger than an item of DynamoDB may be; nothing was written."""

    def __init__(self, *, size_bytes: int, limit_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        super().__init__(
            f"the outbox entry takes {size_bytes:,} bytes and {limit_bytes:,} are allowed, so that DynamoDB's "
            f"400 KB also hold what the relay notes on it; put the data into S3 and send where it is"
        )


class TransactionTooLargeError(OutboxError):
    """A transaction has more actions or bytes than DynamoDB takes; nothing was written."""

    def __init__(self, *, actions: int, size_bytes: int, problem: str) -> None:
        self.actions = actions
        self.size_bytes = size_bytes
        super().__init__(f"the transaction has {actions} actions with {size_bytes:,} bytes: {problem}")


class OutboxStoreError(OutboxError):
    """A SQL database refused or was out of reach; `retryable` says whether the same may succeed later."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        self.retryable = retryable
        super().__init__(message)


class HandlerError(LanesError):
    """Handlers are registered wrongly."""


class UnknownKindError(HandlerError):
    """A message has a kind that no handler is registered for."""

    def __init__(self, *, kind: str, known: Iterable[str]) -> None:
        self.kind = kind
        self.known = sorted(known)
        super().__init__(f"no handler for kind {kind!r}; registered: {', '.join(self.known) or 'none'}")


class DuplicateHandlerError(HandlerError):
    """Two handlers are registered for one kind."""

    def __init__(self, *, kind: str) -> None:
        self.kind = kind
        super().__init__(f"kind {kind!r} has a handler already; one kind has one handler")


class AwsError(LanesError):
    """
    A call to AWS failed.

    `retryable` says whether the same call may succeed later. `answered` is False where no answer came, or one
    of a fault within AWS, so that the call may have had its effect all the same.
    """

    def __init__(
        self, *, operation: str, code: str, message: str = "", retryable: bool, answered: bool = True
    ) -> None:
        self.operation = operation
        self.code = code
        self.retryable = retryable
        self.answered = answered
        super().__init__(f"{operation}: {code}{': ' if message else ''}{message}")


class Retry(Exception):  # noqa: N818 - a signal of the handler, not an error
    """
    Raised by a handler to have its record tried again; counts as a failed attempt.

    Args:
        after: when to try again; without it the usual backoff applies.
        reason: why, for logs and for the dead letter if there are no attempts left.
    """

    # On the class too, for a subclass that makes itself without asking this one.
    after: timedelta | None = None
    reason: str = ""

    def __init__(self, after: timedelta | None = None, reason: str = "") -> None:
        if after is not None and not isinstance(after, timedelta):
            raise TypeError(f"Retry(after=...) takes a timedelta, not {after!r}")
        if after is not None and after < timedelta(0):
            raise ValueError(f"Retry(after=...) can't lie in the past: {after!r}")
        self.after = after
        self.reason = reason
        super().__init__(reason or "the handler asked for a retry")


class DeadLetter(Exception):  # noqa: N818 - a signal of the handler, not an error
    """Raised by a handler to give its record up at once: it is dead-lettered with this reason."""

    # On the class too, for a subclass that makes itself without asking this one.
    reason: str = ""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def _restore(kind: type[LanesError], args: tuple[Any, ...], fields: dict[str, Any]) -> LanesError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error
