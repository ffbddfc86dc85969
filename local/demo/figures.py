"""The figures of one run, in the words of the report."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from local.demo import oracle
from local.demo.evidence import Evidence
from local.demo.waits import Wait, inversions, judged_seconds, left_out, percentile, waits


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFigures:
    """
    Figures of one lane's traffic.

    Attributes:
        sent: messages accepted.
        handled: messages done.
        dead_lettered: messages given up.
        p50_wait_seconds: half of the judged waits were not longer; None without any.
        p99_wait_seconds: 99 of 100 were not longer.
        waits_judged: how many waits these are made of.
        behind_failure: live messages left out of them, for they waited for a failing one of their own group.
        receives: how often the queue handed them out.
        yields: how often a batch of the lane yielded.
    """

    sent: int
    handled: int
    dead_lettered: int
    p50_wait_seconds: float | None
    p99_wait_seconds: float | None
    waits_judged: int
    behind_failure: int
    receives: int
    yields: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """Everything that one run is judged by; the names are explained in `local.demo.promises`."""

    lanes: Mapping[str, LaneFigures]
    losses: int
    left_in_queues: int
    order_violations: int
    healthy_dead_lettered: int
    unexplained_dead_letters: int
    duplicates_handled: int
    inversions: int
    poison_sent: int
    poison_dead_lettered: int
    longest_record_seconds: float
    drain_seconds: float
    handled: int
    function_calls: int
    function_calls_per_message: float
    live_sends: int
    least_backlog_at_live_send: int | None

    @property
    def top_lane(self) -> str:
        """Name of the highest lane that got messages: lanes for yet more urgent work may stand above it."""
        return next((name for name, lane in self.lanes.items() if lane.sent), next(iter(self.lanes)))

    @property
    def top_wait(self) -> float | None:
        """The p99 wait of that lane's traffic."""
        figures = self.lanes.get(self.top_lane)
        return figures.p99_wait_seconds if figures else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRules:
    """
    Rules of one run, from the deployed configuration.

    Attributes:
        max_attempts: failed attempts after which a message is given up.
        recheck_seconds: how old the consumer's knowledge of the higher lanes may be.
        slots: reserved concurrency.
        batch_size: of the last lane.
        idempotency: whether message ids are remembered.
    """

    max_attempts: int
    recheck_seconds: float
    slots: int
    batch_size: int
    idempotency: bool


def run_figures(evidence: Evidence, rules: RunRules, *, compared_with: Evidence | None = None) -> RunFigures:
    """
    Judge one run.

    Args:
        evidence: of the run.
        rules: of its configuration.
        compared_with: the run with mappings, for the other ones: the same messages are judged.
    """
    found = waits(evidence)
    first = evidence if compared_with is None else compared_with
    unjudged = left_out(waits(first), first)
    longest = oracle.longest_record_seconds(evidence)
    bound = rules.recheck_seconds + longest
    calls = sum(evidence.function_calls.values())
    handled = len(evidence.finished)
    backlogs = [send.waiting for send in evidence.live_sends]
    return RunFigures(
        lanes=_lane_figures(evidence, found, unjudged=unjudged),
        losses=len(oracle.losses(evidence)),
        left_in_queues=evidence.left_in_queues,
        order_violations=len(oracle.order_violations(evidence)),
        healthy_dead_lettered=len(oracle.healthy_dead_lettered(evidence)),
        unexplained_dead_letters=len(oracle.unexplained_dead_letters(evidence)),
        duplicates_handled=oracle.duplicates_handled(evidence),
        inversions=len(inversions(found, evidence, bound_seconds=bound)),
        poison_sent=oracle.poison_sent(evidence),
        poison_dead_lettered=oracle.poison_dead_lettered(evidence, max_attempts=rules.max_attempts),
        longest_record_seconds=longest,
        drain_seconds=evidence.drain_seconds,
        handled=handled,
        function_calls=calls,
        function_calls_per_message=calls / max(1, handled),
        live_sends=sum(send.messages for send in evidence.live_sends),
        least_backlog_at_live_send=min(backlogs, default=None),
    )


def _lane_figures(
    evidence: Evidence, found: list[Wait], *, unjudged: frozenset[str]
) -> dict[str, LaneFigures]:
    seconds = judged_seconds(found, without=unjudged)
    traffic = {one: sent.traffic for one, sent in evidence.sent.items()}
    sent = Counter(traffic.values())
    handled = Counter(traffic[one] for one in evidence.finished if one in traffic)
    dead = Counter(traffic[one] for one in evidence.dead if one in traffic)
    receives = Counter(traffic[one.id] for one in evidence.deliveries if one.id in traffic)
    return {
        lane: LaneFigures(
            sent=sent[lane],
            handled=handled[lane],
            dead_lettered=dead[lane],
            p50_wait_seconds=percentile(seconds.get(lane, []), 50),
            p99_wait_seconds=percentile(seconds.get(lane, []), 99),
            waits_judged=len(seconds.get(lane, [])),
            behind_failure=sum(1 for one in unjudged if traffic.get(one) == lane),
            receives=receives[lane],
            yields=evidence.yields.get(lane, 0),
        )
        for lane in evidence.lanes
    }


def rounded(value: Any) -> Any:
    """Round every float in a JSON document to four digits; JSON has only null for infinity."""
    if isinstance(value, float):
        return round(value, 4) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list | tuple) else value
