"""
Waits: from the queue's acceptance of a message to the first start of its handler; inversions.

Owns the word inversion: a record that started although a message of a higher lane had been waiting for long.
"""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from local.demo.evidence import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """
    How one message waited; times are epoch seconds.

    Attributes:
        id: of the message.
        traffic: lane by its priority.
        lane: lane it was in.
        sent_at: when the queue accepted it, in the backfill's case at the earliest when the mappings began.
        free_at: when it waited for nothing but a slot: also those before it in its group had ended.
        started_at: first start of its handler; infinity if there was none.
        behind_failure: it had to wait for a failing message of its own group, which is no matter of priority.
    """

    id: str
    traffic: str
    lane: str
    sent_at: float
    free_at: float
    started_at: float
    behind_failure: bool

    @property
    def seconds(self) -> float:
        """How long it waited."""
        return max(0.0, self.started_at - self.sent_at)


def waits(evidence: Evidence) -> list[Wait]:
    """List the wait of every message that was delivered, by group and in the order sent."""
    found: list[Wait] = []
    for (lane, _group), members in evidence.groups.items():
        free_at, failing_until = float("-inf"), float("-inf")
        for one in members:
            sent = evidence.sent.get(one)
            if sent is None:
                continue
            effects = evidence.effects_of.get(one, ())
            sent_at = max(evidence.first_delivery[one].sent_at, evidence.began_at)
            found.append(
                Wait(
                    id=one,
                    traffic=sent.traffic,
                    lane=lane,
                    sent_at=sent_at,
                    free_at=max(sent_at, free_at),
                    started_at=effects[0].started_at if effects else math.inf,
                    behind_failure=sent_at < failing_until,
                )
            )
            free_at = max([free_at, *(effect.last_seen_at for effect in effects)])
            if evidence.failed_attempts(one):
                failing_until = free_at
    return found


def left_out(found: Sequence[Wait], evidence: Evidence) -> frozenset[str]:
    """
    Return the live messages that waited for a failing one of their own group: their waits do not depend on priority.

    Asked of the run with mappings, and left out of every run.
    """
    return frozenset(wait.id for wait in found if wait.behind_failure and evidence.sent[wait.id].is_live)


def judged_seconds(found: Sequence[Wait], *, without: Collection[str] = ()) -> Mapping[str, list[float]]:
    """Give the waits that percentiles are made of, by traffic, shortest first."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for wait in found:
        if wait.id not in without:
            seconds[wait.traffic].append(wait.seconds)
    return {traffic: sorted(values) for traffic, values in seconds.items()}


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """Give the smallest value that so many percent do not exceed, None of nothing."""
    if not ordered:
        return None
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def inversions(found: Sequence[Wait], evidence: Evidence, *, bound_seconds: float) -> list[tuple[str, str]]:
    """
    Find records that started while a message of a higher lane had waited for longer than the bound.

    Args:
        found: all waits.
        evidence: of the run.
        bound_seconds: the recheck interval and one record, the time that a lane may take to make way.

    Returns:
        (waiting, started): each started record once, with the message that had waited longest.
    """
    starts = _starts_by_lane(evidence)
    pairs: dict[tuple[float, str], str] = {}
    for wait in sorted(found, key=lambda wait: wait.free_at):
        if wait.behind_failure:
            continue
        for lane in evidence.lanes[evidence.lanes.index(wait.lane) + 1 :]:
            times = starts.get(lane, [])
            first = bisect_right(times, (wait.free_at + bound_seconds, "\uffff"))
            for start in times[first : bisect_left(times, (wait.started_at, ""))]:
                pairs.setdefault(start, wait.id)
    return [(waiting, started) for (_, started), waiting in sorted(pairs.items())]


def _starts_by_lane(evidence: Evidence) -> dict[str, list[tuple[float, str]]]:
    starts: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for one, effects in evidence.effects_of.items():
        delivery = evidence.first_delivery.get(one)
        if delivery is not None:
            starts[delivery.lane] += [(effect.started_at, one) for effect in effects]
    return {lane: sorted(times) for lane, times in starts.items()}
