"""The names and meanings of the metrics: for the consumer that counts them, and for all that read or explain them."""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self


class Described(enum.StrEnum):
    """
    A text with a description, for the code and for the reference.

    Attributes:
        description: one line for people.
    """

    description: str

    def __new__(cls, value: str, description: str = "") -> Self:
        """Make a member."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.description = description
        return member


class Metric(Described):
    """Names of the metrics, one dimension each: the lane."""

    HANDLED = "HandledMessages", "messages that a handler finished"
    DUPLICATES = "DuplicateMessages", "messages skipped because they were handled before (idempotency)"
    DUPLICATES_OF_OTHER_LANES = "DuplicatesOfOtherLanes", "those of them that were handled in another lane"
    FAILED = "FailedAttempts", "failed attempts, including the last one"
    YIELDED = (
        "YieldedMessages",
        "records that yielded; in the pull engine only at a handler's checkpoint, or beyond a `tenant_share`",
    )
    RETURNED = (
        "ReturnedMessages",
        "records returned without an attempt, for one of the reasons of `batch_returned`",
    )
    BLOCKED = (
        "BlockedGroups",
        "failed attempts after the last one of messages that keep their group waiting (`on_exhausted`)",
    )
    DEAD_LETTERED = "DeadLetteredMessages", "messages that the consumer dead-lettered"
    CANCELLED = "CancelledMessages", "messages that your overrides cancelled"
    EXPIRED = "ExpiredMessages", "messages that were past their time (`expires`), which no handler got"
    MOVED = "MovedMessages", "messages that your overrides sent to another lane"
    WOKEN = (
        "WokenMessages",
        "parked records that became visible early; in the pull engine only those of a `tenant_share`",
    )
    UNRECORDED_ENDS = (
        "UnrecordedEnds",
        "returns of finished members of a run whose end could not be written; their handlers don't run again",
    )
    UNKNOWN_KINDS = (
        "UnknownKindMessages",
        "returns of messages without a handler for their kind, for `unknown_kind_for` at most",
    )
    UNAVAILABLE = (
        "UnavailableResource",
        "messages that returned without an attempt because their handler found its resource away",
    )
    AWAY = (
        "ResourceAwayTime",
        "milliseconds for which a resource has been away: for all, once a minute, or for one that says so alone",
    )
    LOWERED = (
        "LoweredPriorities",
        "attempts of messages with a priority above their lane, which their handlers may not send with",
    )
    RESERVE = "ReserveMessages", "records handled from the reserve while a higher lane had a backlog"
    WAIT = "WaitTime", "milliseconds from sending to the start of the handler that succeeded"
    DURATION = "HandlerTime", "milliseconds of handlers that succeeded"
    BATCH = (
        "BatchTime",
        "milliseconds of batches, without the time for which they were set aside; `SampleCount` counts them",
    )
    INVERSION = (
        "InversionTime",
        "milliseconds of work of a lower lane after which a higher lane had a backlog; mapped engine",
    )
    RECEIVES = "Receives", "records by the cause of their receive, which ends the name: `ReceivesFirst`"
    AWS_ERRORS = (
        "ConsumerCallErrors",
        "failed AWS calls, and records that a call refused to delete; `lane` is the lane being served",
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the nearest rank: the value that a share of all values does not exceed; 0 if there are none."""
    if not ordered:
        return 0.0
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
