"""
The decisions of a relay: which entries may be claimed, and what becomes of one that was not sent.

Pure: no calls, no clock, chance comes in as a number. All stores and the model of the protocol share them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from lanes.outbox.entry import LONGEST_ERROR, EntryState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lanes.config import LanesConfig, OutboxSettings
    from lanes.outbox.entry import Entry

SHORTEST_PAUSE = timedelta(milliseconds=20)
# Codes of `lanes.outgoing.UnsentMessage` that say that the message itself was not tried.
BLOCKED, LANE_FAILED = "GroupBlocked", "LaneFailed"
NOT_TRIED = frozenset({BLOCKED, LANE_FAILED, "Interrupted"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneShare:
    """
    Priorities that lead to one lane, and how many entries of them a claim may take.

    Attributes:
        lane: name of the lane.
        lowest: lowest priority, None for no bound.
        highest: highest priority, None for no bound.
        room: most entries; None for no limit beyond that of the claim.
    """

    lane: str
    lowest: int | None
    highest: int | None
    room: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What a store's index tells of an entry that might be claimed."""

    id: str
    chain: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Candidates to claim, in order, and those that wait for an earlier entry of their group and lane."""

    claimed: tuple[Candidate, ...]
    blocked: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """
    What to note on a claimed entry.

    Attributes:
        entry: as it was claimed.
        state: its new state; PENDING gives it back untried.
        attempts: failed attempts by now.
        last_error: why it was not sent.
        due_at: when it is looked at again; None for at once, or for never where it is finished.
        is_parked: it was given back because an earlier one of its group and lane was not sent.
        expires_at: when a finished one may be removed.
        sequence_number: what SQS calls it.
    """

    entry: Entry
    state: EntryState
    attempts: int
    last_error: str = ""
    due_at: float | None = None
    is_parked: bool = False
    expires_at: float | None = None
    sequence_number: str = ""


def lane_shares(config: LanesConfig, room: Mapping[str, int] | None = None) -> list[LaneShare]:
    """
    Give the priorities of each lane, highest lane first, as ranges without a gap.

    Args:
        config: the lanes.
        room: how many more messages a lane may hold, by name; lanes left out have no limit.
    """
    lanes = config.lanes if config.enabled else (config.last_lane,)
    shares = []
    highest: int | None = None
    for lane in lanes:
        lowest = None if lane is lanes[-1] else lane.threshold
        limit = None if room is None or lane.name not in room else max(0, room[lane.name])
        shares.append(LaneShare(lane=lane.name, lowest=lowest, highest=highest, room=limit))
        highest = None if lowest is None else lowest - 1
    return shares


def choose(candidates: Iterable[Candidate], chains: Mapping[str, Sequence[str]]) -> Choice:
    """
    Decide which candidates are claimed.

    Those of a chain may only be claimed from its beginning on without a gap, in its order.

    Args:
        candidates: in claim order.
        chains: ids of the unfinished entries of each candidate's chain, the earliest first, at least as many as
            the chain has candidates.
    """
    taken: Counter[str] = Counter()
    claimed, blocked = [], []
    for candidate in candidates:
        if candidate.chain is None:
            claimed.append(candidate)
            continue
        order = chains.get(candidate.chain, ())
        place = taken[candidate.chain]
        if place < len(order) and order[place] == candidate.id:
            taken[candidate.chain] += 1
            claimed.append(candidate)
        else:
            blocked.append(candidate)
    return Choice(claimed=tuple(claimed), blocked=tuple(blocked))


def retry_delay(settings: OutboxSettings, attempts: int, chance: float) -> timedelta:
    """
    Give the wait after so many failed attempts.

    Args:
        settings: base, factor, cap and jitter.
        attempts: failed attempts, from 1.
        chance: from 0 to 1.
    """
    base, cap = settings.retry_base.total_seconds(), settings.retry_cap.total_seconds()
    # Beyond some hundred doublings the power could overflow, and the cap holds long before.
    grown = min(base * settings.retry_factor ** min(attempts - 1, 100), cap)
    return timedelta(seconds=grown * (1 + settings.retry_jitter * (2 * chance - 1)))


def published(entry: Entry, settings: OutboxSettings, *, now: float, sequence_number: str) -> Mark:
    """Mark an entry that SQS has."""
    return Mark(
        entry=entry,
        state=EntryState.PUBLISHED,
        attempts=entry.attempts,
        expires_at=now + settings.published_retention.total_seconds(),
        sequence_number=sequence_number,
    )


def not_sent(
    entry: Entry, settings: OutboxSettings, *, now: float, code: str, reason: str, chance: float
) -> Mark:
    """
    Mark an entry that was not sent.

    One that was not tried itself is given back and no attempt counts; one that had its last attempt is abandoned.
    """
    if code in NOT_TRIED:
        return _given_back(entry, settings, now=now, code=code, chance=chance)
    attempts = entry.attempts + 1
    error = reason[:LONGEST_ERROR]
    if attempts >= settings.max_attempts:
        return abandoned(entry, settings, now=now, attempts=attempts, reason=error)
    due_at = now + retry_delay(settings, attempts, chance).total_seconds()
    return Mark(entry=entry, state=EntryState.FAILED, attempts=attempts, last_error=error, due_at=due_at)


def _given_back(entry: Entry, settings: OutboxSettings, *, now: float, code: str, chance: float) -> Mark:
    waits = {
        BLOCKED: settings.lock.total_seconds(),
        LANE_FAILED: retry_delay(settings, 1, chance).total_seconds(),
    }
    return Mark(
        entry=entry,
        state=EntryState.PENDING if entry.attempts == 0 else EntryState.FAILED,
        attempts=entry.attempts,
        last_error=entry.last_error,
        due_at=now + waits[code] if code in waits else None,
        is_parked=code == BLOCKED,
    )


def abandoned(entry: Entry, settings: OutboxSettings, *, now: float, attempts: int, reason: str) -> Mark:
    """Mark an entry that nobody will send."""
    return Mark(
        entry=entry,
        state=EntryState.ABANDONED,
        attempts=attempts,
        last_error=reason[:LONGEST_ERROR],
        expires_at=now + settings.abandoned_retention.total_seconds(),
    )


def next_pause(previous: timedelta | None, settings: OutboxSettings) -> timedelta:
    """Give the pause of a polling relay that found nothing: short at first, doubling up to the tick."""
    if previous is None:
        return min(SHORTEST_PAUSE, settings.tick)
    return min(previous * 2, settings.tick)
