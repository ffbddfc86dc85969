"""
The ledger: what is known of a message beyond its receive count, and the protocol of the table that keeps it.

SQS counts receives, whatever became of them. The ledger keeps apart what they were: failed attempts, yields, and
returns (sent back untouched behind a failed record of their group, or because time was short). A message that
succeeds on its first receive never gets an entry.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Protocol

from lanes.values import value_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.consumer.records import RawRecord


LATER_LIFE = 1.0
"""Seconds after the first receive of one life of a message from which another one begins; SQS's own stamps."""


class Ending(enum.StrEnum):
    """How the last receive that the ledger knows of ended."""

    NONE = "none"  # no receive is known
    STARTED = "started"  # an attempt began and nothing was heard of it since: it crashed, timed out, or runs
    FAILED = "failed"  # the handler failed
    YIELDED = "yielded"  # it made way
    RETURNED = "returned"  # it went back untouched


class Cause(enum.StrEnum):
    """Why a record was received: the dimension of the metric `Receives`."""

    FIRST = "first"
    AFTER_YIELD = "after_yield"
    AFTER_FAILURE = "after_failure"
    AFTER_RETURN = "after_return"
    AFTER_CRASH = "after_crash"
    UNKNOWN = "unknown"  # throttled out by Lambda, or a crash of an attempt that nothing had announced


class Park(enum.StrEnum):
    """Why a record is invisible on purpose; neither kind waits for a slot."""

    YIELD = "yield"  # may be woken as soon as nothing above waits
    REST = "rest"  # a backoff, or a yield delay that limits receives: returns by itself only


@value_type
class Entry:
    """
    What the ledger keeps of one message in one lane.

    Attributes:
        attempts: failed attempts, and one that runs if it was announced before it began.
        noted_receive: receive count at the last note; one less than now means that the last receive is explained.
        given_up: why it is to be dead-lettered, once its handler asked for it or the dead letter could not be sent.
        suspect: a receive ended without explanation once, so attempts are announced before they begin.
        noted_at: epoch seconds of the last note, by the clock of the function.
        first_received_at: epoch seconds of the first receive of this stay in the queue, by that of SQS.
        park: why the record is invisible, until `parked_until` (epoch seconds); `batch` names those parked together.

    """

    lane: str
    message_id: str
    attempts: int = 0
    yields: int = 0
    returns: int = 0
    ending: Ending = Ending.NONE
    noted_receive: int = 0
    suspect: bool = False
    last_error: str = ""
    given_up: str = ""
    noted_at: float = 0.0
    first_received_at: float = 0.0
    park: Park | None = None
    parked_until: float = 0.0
    batch: str = ""
    receipt_handle: str = ""

    def cause_of(self, record: RawRecord) -> Cause:
        """Return why `record` was received."""
        if record.receive_count <= 1:
            return Cause.FIRST
        if record.receive_count - 1 != self.noted_receive:
            return Cause.UNKNOWN
        return _CAUSES[self.ending]

    def is_of_earlier_life(self, record: RawRecord) -> bool:
        """
        Whether the entry is older than the record's stay in the queue: a redriven message starts anew.

        Stamps of SQS are compared with each other: the clock of the function may be wrong.
        """
        known = self.first_received_at
        return known > 0 and record.first_received_at > known + LATER_LIFE

    def seen_again(self, record: RawRecord) -> Entry:
        """Return the entry as of this receive: parked no more, and suspect for good if nothing explains the receive."""
        unexplained = self.cause_of(record) in (Cause.UNKNOWN, Cause.AFTER_CRASH)
        return dataclasses.replace(
            self,
            suspect=self.suspect or unexplained,
            first_received_at=record.first_received_at,
            park=None,
            parked_until=0.0,
            batch="",
            receipt_handle="",
        )

    @property
    def announces_attempts(self) -> bool:
        """Whether its attempts are written down before they begin, so that one that kills its process counts."""
        return self.suspect or self.attempts > 0


_CAUSES = {
    Ending.NONE: Cause.UNKNOWN,
    Ending.STARTED: Cause.AFTER_CRASH,
    Ending.FAILED: Cause.AFTER_FAILURE,
    Ending.YIELDED: Cause.AFTER_YIELD,
    Ending.RETURNED: Cause.AFTER_RETURN,
}


class Effect(enum.Enum):
    """The state of a message's effect when a consumer asks to begin it."""

    BEGUN = enum.auto()  # it is ours to run
    DONE = enum.auto()  # it was done within the idempotency window
    ELSEWHERE = enum.auto()  # another delivery of the same id runs now


class Ledger(Protocol):
    """
    The table behind the consumer.

    Every method raises `AwsError` when the table can't be read or written; nothing here retries beyond what the
    client does.
    """

    def read(self, lane: str, message_ids: Sequence[str]) -> Mapping[str, Entry]:
        """Return the entries that exist, by message id, in one consistent read."""

    def note(self, entries: Sequence[Entry]) -> None:
        """
        Write whole entries of records that this invocation holds, in one request for up to 25.

        Absolute values, so that a call whose answer was lost can be repeated: an attempt is never counted twice.
        """

    def unpark(self, entries: Sequence[Entry]) -> bool:
        """Note that records are parked no more; return False, and change none, if any was received or woken since."""

    def parked(self, lane: str, *, after: float, limit: int | None = None) -> Sequence[Entry]:
        """Return the records of a lane parked until later than `after`, the earliest to return first."""

    def begin_effect(self, effect_id: str, *, owner: str, now: float, until: float) -> Effect:
        """Claim the right to run the effect of an id until a time."""

    def finish_effect(self, effect_id: str, *, owner: str, now: float, keep_until: float) -> None:
        """Record that the effect was done."""

    def release_effect(self, effect_id: str, *, owner: str) -> None:
        """Give the claim back: the attempt failed or made way."""
