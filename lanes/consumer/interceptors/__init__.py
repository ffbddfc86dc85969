"""
Interceptors: optional features around the handling of a record, one file each.

A feature that is off is not in the consumer's list, and a feature that does not concern a batch takes no part in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lanes.errors import MessageDecodeError
from lanes.message import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.consumer.handlers import Work
    from lanes.consumer.ledger import Entry
    from lanes.consumer.outcome import Outcome
    from lanes.consumer.records import Batch, RawRecord


class Interception:
    """
    One feature's part in one batch. The defaults leave every record alone.

    The parts of a batch are asked in order, and the first outcome counts; after a record, in the opposite order. An
    interception handles its own errors: a record that it can't judge is returned.
    """

    def admit(self, record: RawRecord, entry: Entry) -> Outcome | None:
        """Return the outcome of a record that is not to be handled. Asked before it needs a slot, perhaps twice."""
        return None

    def before(self, record: RawRecord, entry: Entry, work: Work, *, joins: bool) -> Outcome | None:
        """
        Return the outcome of a record that is not to be attempted. Asked right before its attempt.

        It `joins` a call that other records wait in, so it must not wait.
        """
        return None

    def after(self, record: RawRecord, outcome: Outcome) -> Outcome:
        """Return the outcome, or another in its place. Asked for each record that is admitted or attempted."""
        return outcome


class Interceptor(Protocol):
    """An optional feature."""

    def begin(self, batch: Batch) -> Sequence[Interception]:
        """Return this feature's parts in a batch; none if it does not concern it; raises `AwsError`."""


def decoded(record: RawRecord) -> Message | None:
    """Return a record's message; None if its body is not an event."""
    try:
        return Message.from_body(record.body, group=record.group)
    except MessageDecodeError:
        return None
