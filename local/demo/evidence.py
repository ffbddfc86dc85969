"""
The evidence of a run, each part from its own source, and what it comes to.

Sent messages come from their senders, handled ones from the handler's own lines, deliveries and leftovers from the
queues. The consumer's own claims are shown and decide nothing. The oracle of the simulator judges the run.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lanes.config import LanesConfig
from lanes.metrics import percentile
from simulator import oracle

from .plan import ALWAYS

AWAY = "away"
"""The end of a call that found the resource away."""
Figures = dict[str, Any]
"""The figures of a run or a lane, by the names of `report.json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message that a queue accepted; `traffic` is the lane of its priority, even if one lane has all messages."""

    traffic: str
    fault: str | None = None
    is_live: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One receive of one message, as the queue handed it out; times are epoch seconds."""

    id: str
    lane: str
    group: str
    sequence: int
    sent_at: float


@dataclass(slots=True, kw_only=True)
class Effect:
    """One start of a handler's work; it was "done", "failed" or "away", or "died" if it never came back."""

    id: str
    attempt: int
    started_at: float
    ended_at: float
    how: str = "died"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """
    All that is known of one run.

    Attributes:
        config: of the stage.
        began_at: when the mappings were enabled, with the whole backfill waiting; epoch seconds.
        back_at: when the resource was back, if it was away; epoch seconds.
        sent: every accepted message by its id, the live ones in the order sent.
        deliveries: in the order received.
        effects: in any order.
        dead: id and reason of each dead letter.
        backlogs: how many of the backfill waited right after each episode was sent.
        left: messages still in a lane at the end.
        yields: how often each lane's batches yielded, in the consumer's words.
        calls: AWS calls of the function by operation, as the server counted them.
    """

    config: LanesConfig
    began_at: float
    back_at: float = 0.0
    sent: Mapping[str, Sent]
    deliveries: Sequence[Delivery] = ()
    effects: Sequence[Effect] = ()
    dead: Sequence[tuple[str, str]] = ()
    backlogs: Sequence[int] = ()
    left: int = 0
    yields: Mapping[str, int] = field(default_factory=dict)
    calls: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def first_delivery(self) -> Mapping[str, Delivery]:
        """The first delivery of each message that had one."""
        first: dict[str, Delivery] = {}
        for one in self.deliveries:
            if one.id in self.sent:
                first.setdefault(one.id, one)
        return first

    @cached_property
    def effects_of(self) -> Mapping[str, Sequence[Effect]]:
        """Effects of each message that had one, in the order started."""
        found: dict[str, list[Effect]] = defaultdict(list)
        for effect in sorted(self.effects, key=lambda effect: effect.started_at):
            found[effect.id].append(effect)
        return {one: effects for one, effects in found.items() if one in self.sent}

    @cached_property
    def done(self) -> frozenset[str]:
        """Ids of messages that were done."""
        return frozenset(one.id for one in self.effects if one.how == "done") & self.sent.keys()

    @cached_property
    def groups(self) -> Mapping[tuple[str, str], Sequence[str]]:
        """Ids of each lane's groups in the order sent; of the backfill, which tasks send at once, in the queue's."""
        live = {one: place for place, one in enumerate(self.sent, start=1) if self.sent[one].is_live}
        members: dict[tuple[str, str], list[str]] = defaultdict(list)
        for one, delivery in self.first_delivery.items():
            members[delivery.lane, delivery.group].append(one)
        for ids in members.values():
            ids.sort(key=lambda one: (live.get(one, 0), self.first_delivery[one].sequence))
        return members

    @property
    def drain_seconds(self) -> float:
        """From the enabled mappings to the last effect's end."""
        return max((effect.ended_at for effect in self.effects), default=self.began_at) - self.began_at

    def failures(self, one: str) -> int:
        """How often the handler refused a message or never came back from it."""
        return sum(effect.how in oracle.FAILURES for effect in self.effects_of.get(one, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """
    How one message waited; times are epoch seconds.

    Attributes:
        sent_at: when the queue accepted it, in the backfill's case at the earliest when the mappings began.
        free_at: when it waited for nothing but a slot: also those before it in its group had ended.
        started_at: first start of its handler that found the resource; infinity if there was none.
        behind_failure: it had to wait for a failing message of its own group, which priority does not decide.
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
    """Return the wait of every message that was delivered, by group and in the order sent."""
    found: list[Wait] = []
    for (lane, _), members in evidence.groups.items():
        free_at = failing_until = -math.inf
        for one in members:
            effects = evidence.effects_of.get(one, ())
            sent_at = max(evidence.first_delivery[one].sent_at, evidence.began_at)
            wait = Wait(
                id=one,
                traffic=evidence.sent[one].traffic,
                lane=lane,
                sent_at=sent_at,
                free_at=max(sent_at, free_at),
                started_at=next((one.started_at for one in effects if one.how != AWAY), math.inf),
                behind_failure=sent_at < failing_until,
            )
            found.append(wait)
            free_at = max([free_at, *(effect.ended_at for effect in effects)])
            if evidence.failures(one):
                failing_until = free_at
    return found


def left_out(evidence: Evidence) -> frozenset[str]:
    """
    Return the live messages that waited for a failing one of their own group: their waits do not depend on priority.

    Asked of the run with mappings, and left out of every run.
    """
    behind = (wait.id for wait in waits(evidence) if wait.behind_failure)
    return frozenset(one for one in behind if evidence.sent[one].is_live)


def inversions(found: Sequence[Wait], evidence: Evidence, *, bound: float) -> list[tuple[str, str]]:
    """
    Return records that started while a message of a higher lane had waited for longer than the bound.

    Each started record comes once, as (waiting, started), with the message that had waited longest. The bound is the
    recheck interval and one record, in seconds: the time that a lane may take to make way.
    """
    starts: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for one, delivery in evidence.first_delivery.items():
        starts[delivery.lane] += [(effect.started_at, one) for effect in evidence.effects_of.get(one, ())]
    ordered = {lane: sorted(times) for lane, times in starts.items()}
    lanes = [lane.name for lane in evidence.config.lanes]
    pairs: dict[tuple[float, str], str] = {}
    for wait in sorted((wait for wait in found if not wait.behind_failure), key=lambda wait: wait.free_at):
        for lane in lanes[lanes.index(wait.lane) + 1 :]:
            times = ordered.get(lane, [])
            first = bisect_right(times, (wait.free_at + bound, "\uffff"))
            for start in times[first : bisect_left(times, (wait.started_at, ""))]:
                pairs.setdefault(start, wait.id)
    return [(waiting, started) for (_, started), waiting in sorted(pairs.items())]


def run_figures(evidence: Evidence, *, unjudged: Collection[str] = ()) -> Figures:
    """Judge one run; `unjudged` are the messages that `left_out` names in the run with mappings."""
    settings = evidence.config.consumer
    found, broken = waits(evidence), _broken(evidence)
    longest = max((effect.ended_at - effect.started_at for effect in evidence.effects), default=0.0)
    bound = settings.recheck_interval.total_seconds() + longest
    dead = {one for one, _ in evidence.dead}
    poison = {one for one, sent in evidence.sent.items() if sent.fault == ALWAYS}
    calls = sum(evidence.calls.values())
    return {
        "lanes": _lane_figures(evidence, found, unjudged=unjudged),
        "losses": broken.pop("lost", 0),
        "left_in_queues": evidence.left,
        "order_violations": broken.pop("out of order", 0),
        "healthy_dead_lettered": len(dead - poison),
        "unexplained_dead_letters": sum(not reason for _, reason in evidence.dead),
        "duplicates_handled": broken.pop("done twice", 0),
        "other_violations": sum(broken.values()),
        "inversions": len(inversions(found, evidence, bound=bound)),
        "poison_sent": len(poison),
        "poison_dead_lettered": sum(evidence.failures(one) == settings.max_attempts for one in poison & dead),
        "longest_record_seconds": longest,
        "drain_seconds": evidence.drain_seconds,
        "handled": len(evidence.done),
        "function_calls": calls,
        "function_calls_per_message": calls / max(1, len(evidence.done)),
        "live_sends": sum(sent.is_live for sent in evidence.sent.values()),
        "least_backlog_at_live_send": min(evidence.backlogs, default=None),
    }


def away_figures(evidence: Evidence) -> Figures:
    """Judge a run in which the resource was away."""
    run = run_figures(evidence)
    broken = ("losses", "left_in_queues", "duplicates_handled", "other_violations")
    calls = sum(effect.how == AWAY for effect in evidence.effects)
    starts = (effect.started_at for effect in evidence.effects if effect.started_at >= evidence.back_at)
    return {
        "away_calls": calls,
        "away_first_start_seconds": min(starts, default=math.inf) - evidence.back_at if calls else None,
        "away_inversions": run["inversions"],
        "away_attempts": len({effect.id for effect in evidence.effects if effect.attempt > 1}),
        "away_dead_lettered": len(evidence.dead),
        "away_order_violations": run["order_violations"],
        "away_other_violations": sum(run[name] for name in broken),
    }


def _broken(evidence: Evidence) -> dict[str, int]:
    """Return how many messages break each promise of the simulator's oracle."""
    sent = [oracle.Sent(one, lane, group) for (lane, group), ids in evidence.groups.items() for one in ids]
    sent += [oracle.Sent(one, "", one) for one in evidence.sent if one not in evidence.first_delivery]
    works = [
        oracle.Work(one.id, one.attempt, one.started_at, one.ended_at, one.how) for one in evidence.effects
    ]
    found = oracle.recorded_findings(
        sent, works, dead=[one for one, _ in evidence.dead], consumer=evidence.config.consumer
    )
    return {what: len(broken) for what, broken in found.items()}


def _lane_figures(
    evidence: Evidence, found: Sequence[Wait], *, unjudged: Collection[str]
) -> dict[str, Figures]:
    traffic = {one: sent.traffic for one, sent in evidence.sent.items()}
    seconds: dict[str, list[float]] = defaultdict(list)
    for wait in sorted(found, key=lambda wait: wait.seconds):
        if wait.id not in unjudged:
            seconds[wait.traffic].append(wait.seconds)

    def count(ids: Collection[str]) -> Counter[str]:
        return Counter(traffic[one] for one in ids if one in traffic)

    counts = {
        "sent": count(traffic),
        "handled": count(evidence.done),
        "dead_lettered": count({one for one, _ in evidence.dead}),
        "waits_judged": {lane: len(times) for lane, times in seconds.items()},
        "behind_failure": count(unjudged),
        "receives": count([one.id for one in evidence.deliveries]),
        "yields": evidence.yields,
    }
    return {
        lane.name: {name: by_lane.get(lane.name, 0) for name, by_lane in counts.items()}
        | {
            f"p{percent}_wait_seconds": percentile(times, percent / 100) if times else None
            for percent in (50, 99)
            for times in [seconds.get(lane.name)]
        }
        for lane in evidence.config.lanes
    }
