"""The names of the metrics: for the consumer that counts them, and for dashboards, alarms and costs that read them."""

from __future__ import annotations

import enum


class Metric(enum.StrEnum):
    """Names of the metrics, one dimension each: the lane."""

    HANDLED = "HandledMessages"
    DUPLICATES = "DuplicateMessages"
    DUPLICATES_OF_OTHER_LANES = "DuplicatesOfOtherLanes"
    FAILED = "FailedAttempts"
    YIELDED = "YieldedMessages"
    RETURNED = "ReturnedMessages"
    DEAD_LETTERED = "DeadLetteredMessages"
    CANCELLED = "CancelledMessages"
    EXPIRED = "ExpiredMessages"
    MOVED = "MovedMessages"
    WOKEN = "WokenMessages"
    UNKNOWN_KINDS = "UnknownKindMessages"
    UNAVAILABLE = "UnavailableResource"
    IGNORED_FIELDS = "IgnoredFields"
    LOWERED = "LoweredPriorities"
    RESERVE = "ReserveMessages"
    WAIT = "WaitTime"  # milliseconds from sent to the start of the handler that succeeded
    DURATION = "HandlerTime"  # milliseconds of a handler
    BATCH = "BatchTime"  # milliseconds of a batch; in the mapped engine a batch is an invocation
    INVERSION = "InversionTime"  # milliseconds of lower-lane work before a higher lane's backlog was seen
    RECEIVES = "Receives"  # followed by the cause, e.g. ReceivesFirst
    AWS_ERRORS = "ConsumerCallErrors"
