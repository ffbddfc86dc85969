"""
Outcomes: what becomes of each record of a batch.

Every record begins as *returned*, the fail-safe answer: it stays in its queue and comes back when its visibility
timeout ends. Only something known to be better replaces that.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

from lanes.consumer.ledger import Ending

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from lanes.config import Lane
    from lanes.consumer.handlers import Work
    from lanes.consumer.ledger import Entry
    from lanes.consumer.records import RawRecord

SOON = 2
"""Seconds until a record returns whose state changes in a moment: another delivery handles it, or its group moves."""

KEPT = frozenset({Ending.FAILED, Ending.YIELDED, Ending.RETURNED})
"""The endings of records that stay in their queue."""


class Reason(enum.StrEnum):
    """Why a record is returned untouched although nothing has priority over it."""

    BEHIND = "behind"  # an earlier record of its group stays
    TIME = "time"  # the invocation's time is too short for it
    UNPREPARED = "unprepared"  # the ledger could not be read, or the visibility not be extended
    RATE = "rate"  # its kind has a `max_rate` and came too often
    ASIDE = "aside"  # its batch was set aside for higher lanes for long
    NOT_BEGUN = "not_begun"  # its attempt could not be recorded, or its effect not be claimed
    ELSEWHERE = "elsewhere"  # another delivery of its id is being handled
    EXPIRED = (
        "expired"  # its visibility timeout ended before it could be held, so another receive may have it
    )
    DIVERTED = "diverted"  # an override or a hold could not be applied yet


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """
    What becomes of one record.

    Attributes:
        ending: how this receive ends.
        entry: the record's ledger entry; None if the ledger could not be read, and must not be overwritten blindly.
        delay: seconds until a kept record returns; None leaves its visibility alone.
        is_brief: whether its entry is only cached, so that the slot is free a call sooner.
        wakeable: whether it may return earlier, as soon as nothing above its lane has a backlog.
        reason: a `Reason` for a returned record, the dead letter's reason for a dead-lettered one.
        error: the dead letter's last error.
        to: the lane with priority over a yielded record; None if that is unknown.
        work: the decoded record of a dead letter, if it was decoded.

    """

    ending: Ending = Ending.RETURNED
    entry: Entry | None = None
    delay: int | None = None
    is_brief: bool = False
    wakeable: bool = False
    reason: str = ""
    error: str = ""
    to: Lane | None = None
    work: Work | None = None

    @property
    def is_kept(self) -> bool:
        """Whether the record stays in its queue."""
        return self.ending in KEPT


BEHIND = Outcome(delay=0, reason=Reason.BEHIND)


@dataclasses.dataclass(slots=True, eq=False)
class Outcomes:
    """
    The outcomes of one batch, in the order of its records.

    Attributes:
        entries: the records' ledger entries by message id, none if the ledger could not be read.
        finished: number of records that leave the queue.

    """

    _records: Sequence[RawRecord]
    entries: dict[str, Entry]
    finished: int = 0
    _lost: Collection[str] = ()
    _decided: dict[str, Outcome] = dataclasses.field(default_factory=dict)
    _behind: dict[str, Outcome] = dataclasses.field(default_factory=dict)

    def __getitem__(self, record: RawRecord) -> Outcome:
        known = self._decided.get(record.message_id)
        return Outcome(entry=self.entries.get(record.message_id)) if known is None else known

    def __iter__(self) -> Iterator[tuple[RawRecord, Outcome]]:
        return ((record, self[record]) for record in self._records)

    def lose(self, message_ids: Collection[str]) -> None:
        """Leave records alone, and their groups: another invocation may have them by now."""
        self._lost = message_ids
        lost = {record.group for record in self._records if record.message_id in message_ids}
        self._behind |= dict.fromkeys(lost, BEHIND)

    def set(self, record: RawRecord, outcome: Outcome) -> None:
        """Decide a record, once. A kept record blocks the later ones of its group."""
        # The first decision counts: no later step may return a record that is handled.
        if record.message_id in self._decided:
            return
        self._decided[record.message_id] = outcome
        if outcome.ending in KEPT:
            behind = outcome if outcome.ending is Ending.YIELDED else BEHIND
            self._behind.setdefault(record.group, behind)
        else:
            self.finished += 1

    def keep(self, records: Sequence[RawRecord], outcome: Outcome) -> None:
        """Decide that records stay, each with the entry that it has."""
        for record in records:
            self.set(record, dataclasses.replace(outcome, entry=self[record].entry))

    def undecided(self, position: int = 0) -> list[RawRecord]:
        """Return the records from a position on that are not decided."""
        return [record for record in self._records[position:] if record.message_id not in self._decided]

    def is_decided(self, record: RawRecord) -> bool:
        """Whether a record is decided."""
        return record.message_id in self._decided

    def behind(self, record: RawRecord) -> Outcome | None:
        """
        Return the outcome of a record whose group stays, or None.

        An earlier record of the group stays, or one may be with another invocation. Behind one that yielded it yields
        as well: returned at once, it would keep the group from being woken.
        """
        return self._behind.get(record.group)

    @property
    def has_yielded(self) -> bool:
        """Whether any record yielded."""
        return any(outcome.ending is Ending.YIELDED for outcome in self._decided.values())

    @property
    def kept(self) -> list[RawRecord]:
        """The records that stay in their queue: all but those known to be finished."""
        return [record for record, outcome in self if outcome.is_kept]

    @property
    def to_settle(self) -> list[tuple[RawRecord, Outcome]]:
        """The records that stay, are still ours, and return at a known time."""
        return [
            (record, outcome)
            for record, outcome in self
            if outcome.is_kept and outcome.delay is not None and record.message_id not in self._lost
        ]
