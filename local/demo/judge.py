"""
The evidence of a run, the figures that follow from it, and the promises that they have to keep.

Sent messages come from their senders, handled ones from the handler's own lines, deliveries and dead letters from the
queues. The consumer's own claims are shown and decide nothing. The oracle of the simulator judges the run.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from lanes.config import LanesConfig
from lanes.metrics import percentile
from simulator import oracle

from .plan import AWAY_PAUSE, AWAY_TRIES, DEFAULT_CUSTOMERS

Figures = dict[str, Any]
"""The figures of a run, by the names of `report.json`."""


class RunName(StrEnum):
    """A run, in the order in which runs are made and shown."""

    WITHOUT = "no priority"
    MAPPINGS = "mappings"
    PULL = "pull"

    @property
    def stage(self) -> str:
        """The stage of the app that it runs on."""
        return {self.WITHOUT: "demo-off", self.MAPPINGS: "demo", self.PULL: "demo-pull"}[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """
    A message that a queue accepted.

    Attributes:
        lane: that of its priority, even if one lane has all messages.
        place: among the urgent messages, in the order sent; 0 for the backfill.
        is_away: it is one of the outage.
    """

    lane: str
    place: int = 0
    is_away: bool = False


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """
    All that is known of one run; times are epoch seconds.

    Attributes:
        config: of the stage.
        began_at: when the mappings were enabled, with the whole backfill waiting.
        away_at: when the resource went away, 0 if it did not.
        back_at: when it was back.
        sent: every accepted message by its id.
        deliveries: each message with its number in the queue, in the order received.
        works: the starts of handlers, in any order.
        dead: id and reason of each dead letter.
        least_backlog: how many of the backfill waited at least when urgent messages were sent.
        yields: how often each lane's batches yielded, in the consumer's words.
    """

    config: LanesConfig
    began_at: float
    away_at: float = 0.0
    back_at: float = 0.0
    sent: Mapping[str, Sent]
    deliveries: Sequence[tuple[int, oracle.Sent]] = ()
    works: Sequence[oracle.Work] = ()
    dead: Sequence[tuple[str, str]] = ()
    least_backlog: int
    yields: Mapping[str, int]

    @cached_property
    def messages(self) -> Sequence[oracle.Sent]:
        """All messages, each group in the order sent; of the backfill, which tasks send at once, in the queue's."""
        first = {one.id: (number, one) for number, one in reversed(self.deliveries)}
        lane, found = self.config.last_lane.name, []
        for one, sent in self.sent.items():
            number, message = first.get(one) or (0, oracle.Sent(one, lane, f"{one} was never delivered"))
            found.append((sent.place, number, message._replace(at=max(message.at, self.began_at))))
        return [message for *_, message in sorted(found)]

    @cached_property
    def flood(self) -> Mapping[str, str]:
        """The lane of each message's priority, but for those of the outage, which has figures of its own."""
        return {one: sent.lane for one, sent in self.sent.items() if not sent.is_away}

    @cached_property
    def waits(self) -> Sequence[oracle.Wait]:
        """How each message waited; the backfill from the moment when the mappings began."""
        return oracle.recorded_waits(self.messages, self.works)


def run_figures(evidence: Evidence) -> Figures:
    """Return the figures of a run."""
    dead, consumer = [one for one, _ in evidence.dead], evidence.config.consumer
    found = oracle.recorded_findings(evidence.messages, evidence.works, dead=dead, consumer=consumer)
    longest = max((work.ended_at - work.started_at for work in evidence.works), default=0.0)
    bound = consumer.recheck_interval.total_seconds() + longest
    lanes = [lane.name for lane in evidence.config.lanes]
    inversions = oracle.inversions(evidence.waits, evidence.works, lanes=lanes, bound=bound)
    ends = [work.ended_at for work in evidence.works if work.id in evidence.flood]
    figures = {
        "lanes": _lane_figures(evidence),
        "drain_seconds": max(ends, default=math.inf) - evidence.began_at,
        "longest_record_seconds": longest,
        "findings": {what: len(broken) for what, broken in found.items()},
        "violations": sum(len(broken) for broken in found.values()),
        "dead_without_reason": sum(not reason for _, reason in evidence.dead),
        "least_backlog": evidence.least_backlog,
        "inversions": len(inversions),
    }
    return figures | (_away_figures(evidence) if evidence.away_at else {})


def _away_figures(evidence: Evidence) -> Figures:
    ids = evidence.sent.keys() - evidence.flood.keys()
    mine = [work for work in evidence.works if work.id in ids]
    calls = sum(work.how == "away" for work in mine)
    starts = (work.started_at for work in mine if work.how != "away")
    failed = {work.id for work in mine if work.attempt > 1} | {one for one, _ in evidence.dead if one in ids}
    return {
        "away_calls": calls,
        "away_failures": len(failed),
        "away_first_start_seconds": min(starts, default=math.inf) - evidence.back_at if calls else None,
    }


def _lane_figures(evidence: Evidence) -> dict[str, Figures]:
    """Return counts and waits by the lane of a message's priority, without those of the outage."""
    lane_of = evidence.flood
    seconds: dict[str, list[float]] = defaultdict(list)
    for wait in evidence.waits:
        if wait.id in lane_of:
            seconds[lane_of[wait.id]].append(max(0.0, wait.started_at - wait.sent_at))
    counts = {
        "sent": Counter(lane_of.values()),
        "dead_letters": Counter(lane_of[one] for one, _ in evidence.dead if one in lane_of),
        "receives": Counter(lane_of[one.id] for _, one in evidence.deliveries if one.id in lane_of),
        "yields": evidence.yields,
    }
    found: dict[str, Figures] = {}
    for lane in (lane.name for lane in evidence.config.lanes):
        times = sorted(seconds.get(lane, [math.inf]))
        found[lane] = {f"p{one}_wait_seconds": percentile(times, one / 100) for one in (50, 99)}
        found[lane] |= {name: by_lane.get(lane, 0) for name, by_lane in counts.items()}
    return found


class Promise(NamedTuple):
    """
    A promise about one figure of a run: its relation to a limit.

    It is one of "all" runs, of those with an "engine", or of engines "compared" with the run without priority. Times
    that are too long mean nothing if other programs keep the machine busy.
    """

    figure: str
    sentence: str
    relation: str = "="
    limit: float = 0
    of: str = "all"
    is_timed: bool = True

    @property
    def limits(self) -> str:
        """What is promised."""
        return f"{self.relation} {self.limit:g}"

    def holds(self, value: float | None) -> bool:
        """Return whether a figure keeps the promise; one that is missing does not."""
        if value is None:
            return False
        return {"=": value == self.limit, "<=": value <= self.limit, ">=": value >= self.limit}[self.relation]


_SAFE = (
    "No message is lost, out of order or done twice, attempts are counted exactly, and no more handlers run than there "
    "are slots."
)
_INVERSIONS = (
    "No record starts if a more urgent message has waited longer than the recheck interval and one record, also while "
    "the resource is away and once it is back."
)
_BEYOND = "Payments start within 1 second and 1.5 times the longest record (99 of 100 messages)."
_RATIO = "Payments wait at least 10 times longer without priority (99 of 100 messages)."
_DRAIN = "Priority costs at most 15 % of the time in which everything is done."
_CALLS = "While the resource is away, the slot calls it three times and then once after each pause."
_NO_FAILURE = "No attempt counts and no message is given up because the resource was away."
_BACK = "Once the resource is back, a message starts within the pause."
PROMISES = (
    Promise("violations", _SAFE, is_timed=False),
    Promise("dead_without_reason", "Each dead letter has its reason.", is_timed=False),
    Promise("least_backlog", "There is a backlog at each send.", ">=", 10, is_timed=False),
    Promise("inversions", _INVERSIONS, of="engine"),
    Promise("wait_beyond_seconds", _BEYOND, "<=", of="engine"),
    Promise("wait_ratio", _RATIO, ">=", 10, of="compared"),
    Promise("drain_ratio", _DRAIN, "<=", 1.15, of="compared"),
    Promise("away_calls", _CALLS, "<=", AWAY_TRIES, of="engine", is_timed=False),
    Promise("away_failures", _NO_FAILURE, of="engine", is_timed=False),
    Promise("away_first_start_seconds", _BACK, "<=", AWAY_PAUSE, of="engine"),
)
"""The catalogue: every promise that the demo judges."""


class Verdict(NamedTuple):
    """How a promise came out in one run: "kept", "BROKEN" or "not judged"; there may be no figure."""

    run: RunName
    promise: Promise
    value: float | None
    word: str


def judge(
    evidence: Mapping[RunName, Evidence], *, customers: int, is_busy: bool
) -> tuple[dict[RunName, Figures], list[Verdict]]:
    """
    Return the figures of the runs and how each promise came out.

    Args:
        evidence: of the runs.
        customers: size of the backfill; the drain of a small one is over too soon to be compared.
        is_busy: whether other programs kept the machine busy, so that times that are too long mean nothing.
    """
    runs = {name: run_figures(one) for name, one in evidence.items()}
    plain = runs[RunName.WITHOUT]
    for run in runs.values():
        run["wait_beyond_seconds"] = max(0.0, top_wait(run) - 1.5 * run["longest_record_seconds"] - 1)
        run["wait_ratio"] = top_wait(plain) / max(top_wait(run), 0.001)
        run["drain_ratio"] = run["drain_seconds"] / max(plain["drain_seconds"], 0.001)
    verdicts = []
    for promise in PROMISES:
        for name in runs if promise.of == "all" else [name for name in runs if name is not RunName.WITHOUT]:
            value = runs[name].get(promise.figure)
            word = (
                "kept" if promise.holds(value) else "not judged" if promise.is_timed and is_busy else "BROKEN"
            )
            if promise.of == "compared" and customers < DEFAULT_CUSTOMERS:
                word = "not judged"
            verdicts.append(Verdict(name, promise, value, word))
    return runs, verdicts


def top_wait(run: Figures) -> float:
    """Return the p99 wait of payments: the messages of the highest lane that got any."""
    return next(float(lane["p99_wait_seconds"]) for lane in run["lanes"].values() if lane["sent"])
