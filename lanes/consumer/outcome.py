"""
Outcomes: the ending of each record of a batch, and after how many seconds a kept one returns.

Every record begins as *returned*, the fail-safe answer: it comes back when its visibility timeout ends.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from lanes.config.settings import LONGEST_VISIBILITY, MAX_RECEIVES
from lanes.consumer.ledger import Ending, Entry
from lanes.consumer.values import value
from lanes.metrics import Described

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import timedelta
    from random import Random

    from lanes.config import ConsumerSettings, Lane
    from lanes.consumer.handlers import Work
    from lanes.consumer.records import RawRecord

SOON = 2
"""Seconds until a record returns whose state changes in a moment: another delivery handles it, or its group moves."""


KEPT = frozenset({Ending.FAILED, Ending.YIELDED, Ending.RETURNED})
"""The endings of records that stay in their queue."""


class Reason(Described):
    """Why a record is returned untouched although nothing has priority over it."""

    BEHIND = "behind", "an earlier record of its group returned"
    TIME = "time", "the invocation had too little time left"
    RATE = "rate", "its kind has a rate in `max_rates`, and it came too early"
    CRASHED = "crashed", "its last attempt killed its process; it is tried alone after a pause (pull engine)"
    ASIDE = (
        "aside",
        "its batch was set aside for more than five seconds, or a long record was in front of it (pull engine)",
    )
    UNPREPARED = "unprepared", "the ledger could not be read, or the batch's visibility not be extended"
    NOT_BEGUN = "not_begun", "the attempt could not be written ahead, or the effect not be claimed"
    ELSEWHERE = "elsewhere", "another delivery is handling the same id"
    EXPIRED = (
        "expired",
        "its visibility timeout had ended before the function could hold it; another receive may have it",
    )
    UNKNOWN_KIND = "unknown_kind", "no handler is registered for its kind"
    AWAY = "away", "its resource was away"
    ALONE = "alone", "its resource was away for this message, and there for others"
    EARLY = "early", "its handler wants it later: `Retry(counts=False)`"
    UNRECORDED = "unrecorded", "its end could not be written to its run"
    DIVERTED = "diverted", "an override applies and could not be carried out yet"


@value(frozen=True, slots=True, kw_only=True)
class Outcome:
    """
    What becomes of one record.

    Attributes:
        ending: how this receive ends.
        entry: the record's ledger entry; None if the ledger could not be read, and must not be overwritten blindly.
        delay: seconds until a kept record returns; None leaves its visibility alone.
        since: when that delay began, in epoch seconds; 0 if it begins when the record is settled.
        is_brief: whether its entry is only cached, so that the slot is free a call sooner.
        wakeable: whether it may return earlier, as soon as nothing above its lane has a backlog.
        reason: a `Reason` for a returned record, the dead letter's reason for a dead-lettered one, and that of one that
            leaves without its handler because it was done before.
        error: the dead letter's last error, or that of a resource that is away.
        to: the lane with priority over a yielded record; None if that is unknown.
        work: the decoded record of a dead letter, if it was decoded.
        end: the end of a run's member (`lanes.runs.End`); empty if it goes on elsewhere, or its end is recorded.

    """

    ending: Ending = Ending.RETURNED
    entry: Entry | None = None
    delay: int | None = None
    since: float = 0.0
    is_brief: bool = False
    wakeable: bool = False
    reason: str = ""
    error: str = ""
    to: Lane | None = None
    work: Work | None = None
    end: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether the record stays in its queue."""
        return self.ending in KEPT

    def at(self, now: float) -> Outcome:
        """Return the outcome with the rest of its delay."""
        if not self.since or self.delay is None:
            return self
        # At most the whole delay: more is left where the clock was set back.
        left = min(self.since + self.delay - now, self.delay)
        # Not late, and not at once: tried twice in a row, a few messages would look like those that are to blame.
        return dataclasses.replace(self, delay=max(1, math.floor(left)) if left > 0 else 0, since=0.0)


BEHIND = Outcome(delay=0, reason=Reason.BEHIND)
DONE = Outcome(ending=Ending.DONE, end="done")
DUPLICATE = Outcome(ending=Ending.DONE, end="done", reason="done before")
CANCELLED = Outcome(ending=Ending.DONE, end="cancelled")
EXPIRED = Outcome(ending=Ending.DONE, end="expired")
SENT_ON = Outcome(ending=Ending.DONE)
"""It leaves the queue, and its message goes on in another one, or has left it before."""


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
    has_yielded: bool = False
    _lost: Collection[str] = ()
    _decided: dict[str, Outcome] = dataclasses.field(default_factory=dict)
    _behind: dict[str, Outcome] = dataclasses.field(default_factory=dict)
    _undecided: dict[str, RawRecord] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Begin with all records undecided."""
        self._undecided = {record.message_id: record for record in self._records}

    def __getitem__(self, record: RawRecord) -> Outcome:
        known = self._decided.get(record.message_id)
        return Outcome(entry=self.entries.get(record.message_id)) if known is None else known

    def __iter__(self) -> Iterator[tuple[RawRecord, Outcome]]:
        return ((record, self[record]) for record in self._records)

    def lose(self, message_ids: Collection[str]) -> None:
        """Leave records alone, and their groups: another invocation may have them by now."""
        self._lost = {*self._lost, *message_ids}
        lost = {record.group for record in self._records if record.message_id in message_ids}
        self._behind |= dict.fromkeys(lost, BEHIND)

    def set(self, record: RawRecord, outcome: Outcome) -> None:
        """Decide a record, once. A kept record blocks the later ones of its group."""
        # The first decision counts: no later step may return a record that is handled.
        if record.message_id in self._decided:
            return
        self._decided[record.message_id] = outcome
        self._undecided.pop(record.message_id, None)
        if outcome.is_kept:
            is_yield = outcome.ending is Ending.YIELDED
            self.has_yielded |= is_yield
            # Behind a yield it yields as well: returned at once, it would keep the group from being woken.
            self._behind.setdefault(record.group, outcome if is_yield else BEHIND)
        else:
            self.finished += 1

    def keep(self, records: Sequence[RawRecord], outcome: Outcome) -> None:
        """Decide that records stay, each with the entry that it has."""
        for record in records:
            self.set(record, dataclasses.replace(outcome, entry=self[record].entry))

    @property
    def undecided(self) -> list[RawRecord]:
        """The records that are not decided."""
        return list(self._undecided.values())

    def behind(self, record: RawRecord) -> Outcome | None:
        """Return the outcome of a record if an earlier one of its group stays, or may be with another invocation."""
        return self._behind.get(record.group)

    @property
    def kept(self) -> list[RawRecord]:
        """The records that stay in their queue: all but those known to be finished."""
        return [record for record, outcome in self if outcome.is_kept]

    def to_settle(self, now: float) -> list[tuple[RawRecord, Outcome]]:
        """Return the records that stay, are still ours, and return at a known time."""
        return [
            (record, outcome.at(now))
            for record, outcome in self
            if outcome.is_kept and outcome.delay is not None and record.message_id not in self._lost
        ]


LONGEST_BLOCKED = 15 * 60.0
"""Most seconds between two tries of a message that blocks its group, but for the floor of its receives."""

LONGEST_UNKNOWN = 60.0
"""Most seconds between two tries of a record of an unknown kind: so soon is it handled after a deploy."""

FREE_RECEIVES, OUTAGE_RECEIVES = 200, 500
LONGEST_AFTER_OUTAGE = 60.0
"""
Receives that keep no record away that returns for a cause with an end (its resource, a service of AWS, or code that is
on its way); those that keep it away for a minute; and that minute.

So for five hours it is there a minute after that end. An outage of twenty minutes takes up to 95 receives: where each
of them counted, HIGH came behind 290 lower records (docs/decisions.md#when-the-resource-is-away).
"""

# AWS: a message lives at most 14 days (SQS quotas). The receives above those of outages take as long, so neither yields
# nor outages let SQS dead-letter a healthy message by itself.
RECEIVE_FLOOR = 14 * 86_400 / sum(count**2 for count in range(OUTAGE_RECEIVES + 1, MAX_RECEIVES))
"""Seconds times the square of the receive count: the shortest yield delay of a record received so often."""


def receive_floor(receive_count: int) -> float:
    """Return the shortest yield delay of a record received `receive_count` times, in seconds."""
    return RECEIVE_FLOOR * receive_count**2


def outage_floor(receive_count: int) -> float:
    """Return the shortest delay of a record that returns for a cause with an end, in seconds."""
    if receive_count <= FREE_RECEIVES:
        return 0.0
    return LONGEST_AFTER_OUTAGE if receive_count <= OUTAGE_RECEIVES else receive_floor(receive_count)


def shortest_delay(records: Sequence[RawRecord]) -> int:
    """Return the whole seconds after which untouched records may return: more if they were received often."""
    return math.floor(receive_floor(max(record.receive_count for record in records)))


def soon(record: RawRecord) -> int:
    """Return the seconds until a record returns that another delivery or its group keeps waiting."""
    return max(SOON, shortest_delay([record]))


@dataclasses.dataclass(frozen=True, slots=True)
class Delays:
    """Delays in whole seconds, as SQS takes them: after a yield, after a failure, and on a handler's request."""

    settings: ConsumerSettings
    random: Random

    def after_yield(
        self, lane: Lane, records: Sequence[RawRecord], *, to: Lane | None = None, at_least: float = 0.0
    ) -> Outcome:
        """
        Return the outcome of records that yield together.

        The delay is random within the lane's bounds, or in the half above `at_least` seconds, and never below the
        floor of the record received most often. With a floor above the bounds the records can't be woken.
        """
        # A fixed delay of 0 or 1 s took a tenth to a third of the slots, for hundreds of receives of a message
        # (docs/decisions.md#park-and-wake).
        low, high = lane.yield_delay_min.total_seconds(), lane.yield_delay_max.total_seconds()
        # SQS takes whole seconds, and rounding up must not pass the upper bound.
        chosen = min(math.ceil(self.random.uniform(low, high)), max(math.floor(high), math.ceil(low)))
        floor = receive_floor(max(record.receive_count for record in records))
        longer = at_least * self.random.uniform(1.0, 1.5) if at_least else 0.0
        delay = _in_limits(max(chosen, floor, longer), lane)
        return Outcome(ending=Ending.YIELDED, delay=delay, wakeable=floor <= high, to=to)

    def after_failure(self, lane: Lane, *, attempt: int = 1) -> int:
        """Return the seconds until the next attempt: doubled each time, capped, up to a quarter less at random."""
        # The default five attempts take about 26 s, so an outage of that length dead-letters nothing
        # (docs/decisions.md#defaults).
        base, cap = self.settings.backoff_base.total_seconds(), self.settings.backoff_max.total_seconds()
        full = min(cap, base * 2.0 ** min(attempt - 1, 32))
        return _in_limits(full * self.random.uniform(0.75, 1.0), lane)

    def while_blocking(
        self,
        lane: Lane,
        record: RawRecord,
        *,
        attempt: int,
        asked: int | None = None,
        receives: int = 1,
    ) -> int:
        """
        Return the seconds until a message that blocks its group is tried again: `asked`, or a backoff up to 15 min.

        More if it was received often: 14 days of tries that cost so many `receives` each must not use them up.
        """
        base = max(self.settings.backoff_base.total_seconds(), 1.0)
        full = min(LONGEST_BLOCKED, base * 2.0 ** min(attempt - 1, 32)) * self.random.uniform(0.75, 1.0)
        chosen = full if asked is None else asked
        return _in_limits(max(chosen, receives * receive_floor(record.receive_count)), lane)

    def after_error(self, lane: Lane, record: RawRecord) -> int:
        """Return the seconds until a call that failed for a record is repeated: more if it was received often."""
        return _in_limits(max(self.after_failure(lane), outage_floor(record.receive_count)), lane)

    def while_unknown(self, lane: Lane, record: RawRecord, *, waited: float, left: float) -> int:
        """Return the seconds until a record of an unknown kind is tried again: as long as it has waited, up to 60 s."""
        full = min(LONGEST_UNKNOWN, max(self.settings.backoff_base.total_seconds(), waited, 1.0))
        chosen = min(full * self.random.uniform(0.75, 1.0), left)
        return _in_limits(max(chosen, outage_floor(record.receive_count)), lane)

    def untouched(self, lane: Lane, record: RawRecord, seconds: float) -> int:
        """Return the seconds until a record returns without an attempt: more if it was received often."""
        return _in_limits(max(seconds, outage_floor(record.receive_count)), lane)

    def until_finished(self, lane: Lane, record: RawRecord) -> int:
        """Return the seconds until a handled record is deleted, or its end recorded: doubled with each receive."""
        delay = self.after_failure(lane, attempt=record.receive_count)
        return _in_limits(max(delay, receive_floor(record.receive_count)), lane)

    def asked(self, lane: Lane, after: timedelta) -> int:
        """Return the delay that a handler asked for, within SQS's limits."""
        return _in_limits(after.total_seconds(), lane)


def _in_limits(seconds: float, lane: Lane) -> int:
    # AWS: a message stays invisible at most 12 hours after it was received (SQS, ChangeMessageVisibility), and a record
    # may have been held for most of its visibility timeout. Where that leaves no room, SQS refuses a longer delay, and
    # the record returns when its visibility ends.
    longest = max(LONGEST_VISIBILITY - lane.visibility_timeout, LONGEST_VISIBILITY / 2).total_seconds()
    return max(0, min(math.ceil(seconds), int(longest)))
