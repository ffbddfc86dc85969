"""
The decisions of a relay: the entries to claim, and the mark of each after sending.

Pure: no calls, no clock, chance is passed in as a number. All stores and the model of the protocol share them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from lanes.outbox.entry import FINISHED, LONGEST_ERROR, WAITING, EntryState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lanes.config import LanesConfig, OutboxSettings
    from lanes.outbox.entry import Entry

# An idle relay polls after this pause at first, which doubles up to `tick`.
SHORTEST_PAUSE = timedelta(milliseconds=50)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneShare:
    """
    The priorities of one lane, and the limit of entries that a claim may take from them.

    Attributes:
        lane: name of the lane.
        lowest: lowest priority, None for no bound.
        highest: highest priority, None for no bound.
        limit: maximum number of entries; None for that of the claim alone.
    """

    lane: str
    lowest: int | None
    highest: int | None
    limit: int | None = None

    def has(self, priority: int) -> bool:
        """Whether a priority is one of this lane."""
        is_above = self.lowest is None or priority >= self.lowest
        return is_above and (self.highest is None or priority <= self.highest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """
    An entry that might be claimed, as a store's index shows it.

    Attributes:
        id: of the entry.
        chain: the ordered sequence of the entry; None without a group.
        behind: id of the unfinished entry directly before it in its chain; None if there is none.
    """

    id: str
    chain: str | None
    behind: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Candidates to claim, in order, and those blocked by an earlier entry of their group and lane."""

    claimed: tuple[Candidate, ...]
    blocked: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """
    The changes to a claimed entry after sending.

    Attributes:
        entry: the entry as it was claimed.
        state: its new state; PENDING returns it untried.
        attempts: number of failed attempts.
        last_error: error of the last failed attempt.
        due_at: time from which it is a candidate again; None for now, or for never if it is finished.
        is_parked: whether it was returned because an earlier entry of its group and lane was not sent.
        holds_group: whether it is abandoned and stays the first of its group until an operator decides.
        expires_at: time from which a finished entry may be removed.
        sequence_number: sequence number in its queue.
        maybe_sent: whether it was not marked as published although its message may be in the queue.
    """

    entry: Entry
    state: EntryState
    attempts: int
    last_error: str = ""
    due_at: float | None = None
    is_parked: bool = False
    holds_group: bool = False
    expires_at: float | None = None
    sequence_number: str = ""
    maybe_sent: bool = False

    @property
    def leaves_chain(self) -> bool:
        """Whether the next entry of its group may be sent."""
        return self.state in FINISHED and not self.holds_group

    @property
    def has_key(self) -> bool:
        """Whether it waits with its unique key again; not if its message may be handled before a writer keeps it."""
        return self.entry.unique_key is not None and self.state in WAITING and not self.maybe_sent


def lane_shares(config: LanesConfig, free: Mapping[str, int] | None = None) -> list[LaneShare]:
    """
    Return the priorities of each lane, highest lane first, as ranges without a gap.

    Args:
        config: the lanes.
        free: how many more messages each lane may hold, by name; other lanes have no limit.
    """
    lanes = config.lanes if config.enabled else (config.last_lane,)
    shares = []
    highest: int | None = None
    for lane in lanes:
        # By priority, not by the entry's lane: entries of a lane that a deploy removed would never be claimed
        # (docs/decisions.md#the-outbox).
        lowest = None if lane is lanes[-1] else lane.threshold
        limit = None if free is None or lane.name not in free else max(0, free[lane.name])
        shares.append(LaneShare(lane=lane.name, lowest=lowest, highest=highest, limit=limit))
        highest = None if lowest is None else lowest - 1
    return shares


def joined(shares: Sequence[LaneShare]) -> list[LaneShare]:
    """Return the shares with neighbours that have no limit as one: one reading finds the candidates of all."""
    found: list[LaneShare] = []
    for share in shares:
        if found and found[-1].limit is None and share.limit is None:
            found[-1] = replace(found[-1], lowest=share.lowest)
        else:
            found.append(share)
    return found


def choose(candidates: Iterable[Candidate]) -> Choice:
    """
    Decide which candidates to claim: of each chain its first entries, in order and without a gap.

    Args:
        candidates: in claim order.
    """
    claimed: dict[str, Candidate] = {}
    blocked = []
    for candidate in candidates:
        # The entry before it may be locked, wait for its retry, or come later in claim order.
        if candidate.behind is None or candidate.behind in claimed:
            claimed[candidate.id] = candidate
        else:
            blocked.append(candidate)
    return Choice(claimed=tuple(claimed.values()), blocked=tuple(blocked))


def retry_delay(settings: OutboxSettings, attempts: int, chance: float) -> timedelta:
    """
    Return the delay after a number of failed attempts.

    Args:
        settings: base, factor, cap and jitter.
        attempts: failed attempts, from 1.
        chance: from 0 to 1.
    """
    base, cap = settings.retry_base.total_seconds(), settings.retry_cap.total_seconds()
    # The exponent is bounded since the power could overflow; the cap applies long before.
    grown = min(base * settings.retry_factor ** min(attempts - 1, 100), cap)
    return timedelta(seconds=grown * (1 + settings.retry_jitter * (2 * chance - 1)))


def published(entry: Entry, settings: OutboxSettings, *, now: float, sequence_number: str) -> Mark:
    """Mark an entry that SQS has accepted."""
    return Mark(
        entry=entry,
        state=EntryState.PUBLISHED,
        attempts=entry.attempts,
        expires_at=now + settings.published_retention.total_seconds(),
        sequence_number=sequence_number,
    )


def refused(entry: Entry, settings: OutboxSettings, *, now: float, reason: str, chance: float) -> Mark:
    """Mark an entry that SQS refused for a fault of its own; after the last attempt it is abandoned."""
    attempts = entry.attempts + 1
    error = reason[:LONGEST_ERROR]
    if attempts >= settings.max_attempts:
        return abandoned(entry, settings, now=now, attempts=attempts, reason=error)
    due_at = now + retry_delay(settings, attempts, chance).total_seconds()
    return Mark(entry=entry, state=EntryState.FAILED, attempts=attempts, last_error=error, due_at=due_at)


def returned(entry: Entry, *, due_at: float | None = None) -> Mark:
    """
    Mark an entry that was not sent for no fault of its own: it keeps its attempts.

    Args:
        entry: the entry.
        due_at: time from which it is a candidate again; None for now.
    """
    return Mark(
        entry=entry,
        state=EntryState.PENDING if entry.attempts == 0 else EntryState.FAILED,
        attempts=entry.attempts,
        last_error=entry.last_error,
        due_at=due_at,
    )


def parked(entry: Entry, settings: OutboxSettings, *, now: float) -> Mark:
    """Mark an entry whose group waits for an earlier one."""
    # The end of that one wakes it; the timer covers relays that die before they do (docs/decisions.md#the-outbox).
    return replace(returned(entry, due_at=now + settings.lock.total_seconds()), is_parked=True)


def abandoned(entry: Entry, settings: OutboxSettings, *, now: float, attempts: int, reason: str) -> Mark:
    """Mark an entry that will not be sent."""
    holds_group = settings.on_abandoned == "hold" and entry.group is not None
    return Mark(
        entry=entry,
        state=EntryState.ABANDONED,
        attempts=attempts,
        last_error=reason[:LONGEST_ERROR],
        holds_group=holds_group,
        # What holds a group is kept until an operator decides.
        expires_at=None if holds_group else now + settings.abandoned_retention.total_seconds(),
    )


def next_pause(previous: timedelta | None, longest: timedelta) -> timedelta:
    """Return the next pause of an idle polling relay: short at first, doubling up to the longest."""
    return min(SHORTEST_PAUSE if previous is None else previous * 2, longest)
