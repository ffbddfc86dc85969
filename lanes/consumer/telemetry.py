"""What the consumer tells about itself: events for the log and figures for metrics, behind one small protocol."""

from __future__ import annotations

import enum
import functools
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from lanes.consumer.ledger import Cause


class Metric(enum.StrEnum):
    """Names of the metrics, one dimension each: the lane."""

    HANDLED = "HandledMessages"
    DUPLICATES = "DuplicateMessages"
    FAILED = "FailedAttempts"
    YIELDED = "YieldedMessages"
    RETURNED = "ReturnedMessages"
    DEAD_LETTERED = "DeadLetteredMessages"
    CANCELLED = "CancelledMessages"
    MOVED = "MovedMessages"
    WOKEN = "WokenMessages"
    RESERVE = "ReserveMessages"
    WAIT = "WaitTime"  # milliseconds from sent to the start of the handler that succeeded
    DURATION = "HandlerTime"  # milliseconds of a handler
    BATCH = "BatchTime"  # milliseconds of an invocation: as many values as invocations
    INVERSION = "InversionTime"  # milliseconds of lower-lane work after which a higher lane was found waiting
    RECEIVES = "Receives"  # followed by the cause, e.g. ReceivesFirst
    AWS_ERRORS = "ConsumerCallErrors"


@functools.cache
def receives(cause: Cause) -> str:
    """Name the metric of the receives that a cause explains."""
    return f"{Metric.RECEIVES}{cause.title().replace('_', '')}"


class Telemetry(Protocol):
    """Where the consumer reports to."""

    def begin(self, lane: str, context: Any) -> None:
        """Start an invocation for one lane."""

    def event(self, name: str, /, **fields: Any) -> None:
        """Report something that happened, in the past tense."""

    def problem(self, name: str, /, **fields: Any) -> None:
        """Report something that went wrong and that the consumer lives with; call it in an `except` block."""

    def count(self, metric: Metric | str, value: float = 1) -> None:
        """Add to a count."""

    def milliseconds(self, metric: Metric, value: float) -> None:
        """Report a duration."""

    def end(self) -> None:
        """Finish the invocation: figures are sent."""


class Silence:
    """Telemetry that tells nobody."""

    def begin(self, lane: str, context: Any) -> None:
        """Do nothing."""

    def event(self, name: str, /, **fields: Any) -> None:
        """Do nothing."""

    def problem(self, name: str, /, **fields: Any) -> None:
        """Do nothing."""

    def count(self, metric: Metric | str, value: float = 1) -> None:
        """Do nothing."""

    def milliseconds(self, metric: Metric, value: float) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""
