"""
The errors of this library, and the signals that a handler raises.

    LanesError
    ├── ConfigurationError          .problems ; raised before any work
    ├── MessageError
    │   ├── InvalidMessageError     .problems ; refused before any call
    │   ├── MessageTooLargeError    .size_bytes .limit_bytes
    │   ├── MessageDecodeError      .reason ; ends as a dead letter, never as a crash of the batch
    │   └── RefusedMessagesError    .refusals ; all refused messages of one `send_many` (`lanes.producer`)
    ├── SendError
    │   └── PartialSendError        .sent .failed (`lanes.producer`)
    ├── OutboxError
    │   ├── EntryTooLargeError      .size_bytes .limit_bytes ; refused before any call
    │   ├── TransactionTooLargeError  .actions .size_bytes ; refused before any call
    │   ├── OutboxTransactionError  ; refused before anything is written
    │   ├── OutboxStoreError        .retryable ; an error of a SQL database
    │   └── UnwrittenMarksError     .held .unwritten .retryable
    ├── HandlerError
    │   ├── UnknownKindError        .kind .known
    │   └── DuplicateHandlerError   .kind
    └── AwsError                    .operation .code .retryable .answered .reasons

`Retry`, `Unavailable` and `DeadLetter` are signals: a handler raises them to decide the outcome of its record.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class _Portable(Exception):  # noqa: N818 - the base of signals too
    """An exception that crosses processes, with any arguments of its constructor."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling without the arguments of the constructor."""
        return _restore, (type(self), self.args, dict(self.__dict__))


class LanesError(_Portable):
    """Root of all errors of this library."""


class ConfigurationError(LanesError):
    """Settings are missing or contradict each other; raised before any work."""

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
    """A message is larger than SQS accepts; it was not sent."""

    def __init__(self, *, size_bytes: int, limit_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        super().__init__(
            f"the message has {size_bytes:,} bytes and SQS accepts at most {limit_bytes:,}; "
            f"put the data into S3 and send its address"
        )


class MessageDecodeError(MessageError):
    """A body is not a CloudEvents 1.0 JSON event."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"not a CloudEvents 1.0 JSON event: {reason}")


class SendError(LanesError):
    """Messages could not be sent."""


class RunError(LanesError):
    """A run can't be opened or sealed as asked."""


class OutboxError(LanesError):
    """An operation on an outbox failed or was refused."""


class EntryTooLargeError(OutboxError):
    """An entry is larger than an item of DynamoDB may be; nothing was written."""

    def __init__(self, *, size_bytes: int, limit_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        super().__init__(
            f"the outbox entry has {size_bytes:,} bytes and at most {limit_bytes:,} are allowed, since the relay's "
            f"attributes share DynamoDB's 400 KB; put the data into S3 and send its address"
        )


class TransactionTooLargeError(OutboxError):
    """A transaction has more actions or bytes than DynamoDB accepts; nothing was written."""

    def __init__(self, *, actions: int, size_bytes: int, problem: str) -> None:
        self.actions = actions
        self.size_bytes = size_bytes
        super().__init__(f"the transaction has {actions} actions with {size_bytes:,} bytes: {problem}")


class OutboxTransactionError(OutboxError):
    """What was given to an outbox has no transaction that an entry can join; nothing was written."""


class DuplicateEntryError(OutboxError):
    """
    An entry with the same unique key waits in the outbox; nothing was written.

    Attributes:
        key: the key.
    """

    def __init__(self, *, key: str, waiting: str) -> None:
        self.key = key
        super().__init__(
            f"the entry {waiting!r} with the unique key {key!r} waits already; pass on_duplicate='keep' to leave it at "
            f"that, or choose another key"
        )


class OutboxStoreError(OutboxError):
    """
    A SQL database refused a statement or was unreachable.

    Attributes:
        retryable: whether a later try may succeed.
        is_cancelled: whether the server cancelled a statement that took too long, or waited too long for a lock.
    """

    def __init__(self, message: str, *, retryable: bool, is_cancelled: bool = False) -> None:
        self.retryable = retryable
        self.is_cancelled = is_cancelled
        super().__init__(message)


class UnwrittenMarksError(OutboxError):
    """
    Some results of a relay's sends could not be written to its outbox.

    Attributes:
        held: ids of the entries that were written.
        unwritten: the marks that were not.
        retryable: whether a later try may write them.
    """

    def __init__(self, *, held: frozenset[str], unwritten: Sequence[Any], error: AwsError) -> None:
        self.held = held
        self.unwritten = list(unwritten)
        self.retryable = error.retryable
        super().__init__(f"{len(self.unwritten)} results of sends were not written: {error}")


class HandlerError(LanesError):
    """The registration of handlers is wrong."""


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
        super().__init__(f"kind {kind!r} already has a handler; register one handler per kind")


class AwsError(LanesError):
    """
    A call to AWS failed.

    If `retryable`, the same call may succeed later. If not `answered`, no answer came, or AWS reported an internal
    fault: the call may have taken effect. A cancelled transaction has the `reasons`, one for each of its actions.
    """

    def __init__(
        self,
        *,
        operation: str,
        code: str,
        message: str = "",
        retryable: bool,
        answered: bool = True,
        reasons: tuple[str, ...] = (),
    ) -> None:
        self.operation = operation
        self.code = code
        self.retryable = retryable
        self.answered = answered
        self.reasons = reasons
        super().__init__(f"{operation}: {code}{': ' if message else ''}{message}")


class Retry(_Portable):
    """
    Raise it in a handler to retry the record later; the attempt counts as failed, unless you say `counts=False`.

    Args:
        after: the delay before the next attempt; the default is the consumer's backoff. SQS hides a message for at most
            12 hours, less the lane's visibility timeout: a longer delay is cut to that, and the log says so.
        reason: for logs, and for the dead letter if no attempts are left.
        counts: whether it is a failed attempt. A message that is only early may come again without one.

    """

    # On the class too, for subclasses that do not call this constructor.
    after: timedelta | None = None
    reason: str = ""
    counts: bool = True

    def __init__(self, after: timedelta | None = None, reason: str = "", *, counts: bool = True) -> None:
        self.after = _checked_delay("Retry", after)
        self.reason = reason
        self.counts = counts
        super().__init__(reason or "the handler asked for a retry")


class Unavailable(_Portable):
    """
    Raise it in a handler whose resource is away: nothing is wrong with the record, and the attempt does not count.

    After three different messages in a row the slot starts no record of the resource until a pause has ended, then
    tries one. A message that says so while others of its resource are handled stays away by itself, for longer and
    longer up to 15 min; after `unavailable_for` it is a dead letter.

    Args:
        after: the pause, from 1 s to 15 min; by default, or if it is not more than 0, 1 s, doubled at each further try
            up to 60 s.
        reason: for logs.

    """

    # On the class too, for subclasses that do not call this constructor.
    after: timedelta | None = None
    reason: str = ""

    def __init__(self, after: timedelta | None = None, reason: str = "") -> None:
        # A time that a resource has computed may lie in the past: that must not turn an outage into failed attempts.
        self.after = _checked_delay("Unavailable", after, may_be_negative=True)
        self.reason = reason
        super().__init__(reason or "the resource is away")


class DeadLetter(_Portable):
    """Raise it in a handler to dead-letter the record at once, with this reason."""

    # On the class too, for subclasses that do not call this constructor.
    reason: str = ""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def _checked_delay(name: str, after: object, *, may_be_negative: bool = False) -> timedelta | None:
    """Return a delay; raises `TypeError` and `ValueError` for one that is none."""
    if after is None:
        return None
    if not isinstance(after, timedelta):
        raise TypeError(f"{name}(after=...) takes a timedelta, not {after!r}")
    if after < timedelta(0) and not may_be_negative:
        raise ValueError(f"{name}(after=...) must not be negative: {after!r}")
    return after


def _restore(kind: type[_Portable], args: tuple[Any, ...], fields: dict[str, Any]) -> _Portable:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error
