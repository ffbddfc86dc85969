"""
What an outage of the resource costs: `python -m benchmarks.away --json`.

A backlog of MAIN waits and HIGH keeps arriving while the resource is away for hours, with one slot and with ten; then
it is back, and everything is handled. The same under the plain pattern, which knows failures only: its records die of
five receives. Then the resource refuses one call in ten for good: what that costs in throughput. One slot also has
three days of it.
"""

from __future__ import annotations

import dataclasses
import sys
from functools import cached_property, partial
from random import Random
from typing import TYPE_CHECKING, Any

from benchmarks.patterns import PATTERNS, deployed
from benchmarks.report import Findings, Table, run_engine
from lanes.consumer.breakers import FIRST_PAUSE, IN_A_ROW, LONGEST_PAUSE
from simulator.oracle import violations
from simulator.outcome import use_of
from simulator.parameters import Unknowns
from simulator.prices import read_prices
from simulator.simulated_lanes import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lanes.config import EngineName
    from simulator.simulated_lanes import SimulatedLanes

SLOTS = (1, 10)
WORK = 0.1
BEFORE = 60.0
"""Seconds before the outage."""

HOURS, QUICK_HOURS = 4.0, 0.5
MESSAGES, QUICK_MESSAGES = 100_000, 2_000
REFUSING, QUICK_REFUSING = 3_000, 1_000
"""Messages for each slot where one call in ten is refused."""

DAYS, QUICK_DAYS = 72.0, 2.0
"""Hours of the long outage at one slot."""

GROUPS = 1_000
HIGH_EVERY = 20.0
HIGH_GROUPS = 20
FIRST = 30
"""Starts after the outage among which those of HIGH are counted, of as many that wait."""

LIMIT = 1_000_000.0
"""Virtual seconds after which a run is stopped."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """
    One outage, from its begin until everything was handled or is dead.

    Attributes:
        dead: number of dead letters.
        calls: number of calls that found the resource away.
        highest_attempt: of any message, as its handler got it.
        receives: of the message that was received most.
        dollars: cost of the time until it was back.
        first_start: seconds from its return to the first start.
        high_first: starts of HIGH among the first.
        broken: kinds of promises that the oracle found broken: loss, order, attempts, slots; None of the plain pattern.

    """

    dead: int
    calls: int
    highest_attempt: int
    receives: int
    dollars: float
    first_start: float | None
    high_first: int
    broken: int | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One engine at one number of slots; each pattern runs when its figures are asked for."""

    engine: EngineName
    seed: int
    slots: int
    hours: float
    messages: int
    refusing_messages: int
    unknowns: Unknowns = dataclasses.field(default_factory=Unknowns)

    @cached_property
    def ours(self) -> Outage:
        """This product."""
        return self._suffer(PATTERNS[self.engine])

    @cached_property
    def plain(self) -> Outage:
        """The plain pattern, as published."""
        return self._suffer(Pattern.PLAIN)

    @cached_property
    def refusing(self) -> float:
        """Throughput of a backlog if one call in ten is refused, over that without refusals."""
        return self._drain(0.0) / self._drain(0.1)

    @property
    def tries(self) -> float:
        """Calls into the resource that is away, over one for each slot and pause."""
        return self.ours.calls / (self.slots * allowed(self.hours * 3600))

    def _deployed(self, pattern: Pattern) -> SimulatedLanes:
        raw = {
            "consumer": {"reserved_concurrency": self.slots},
            "lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN"}],
        }
        return deployed(raw, pattern=pattern, unknowns=self.unknowns, seed=self.seed)

    def _suffer(self, pattern: Pattern) -> Outage:
        lanes = self._deployed(pattern)
        seconds = self.hours * 3600
        lanes.away = lambda at: BEFORE <= at < BEFORE + seconds
        for number in range(self.messages):
            lanes.send("MAIN", group=f"m{number % GROUPS}", seconds=WORK)
        for number in range(int((BEFORE + seconds) / HIGH_EVERY)):
            send = partial(lanes.send, "HIGH", group=f"h{number % HIGH_GROUPS}", seconds=WORK)
            lanes.scheduler.after(number * HIGH_EVERY, send)
        lanes.run(seconds=BEFORE + seconds)
        back, before = lanes.scheduler.now, len(lanes.handled)
        dollars = read_prices().cost(use_of(lanes))
        receives = max(queue.most_received() for queue in lanes.queues.live.values())
        if not lanes.settle(within=LIMIT):
            raise RuntimeError(f"{lanes.left} messages were left {LIMIT:.0f} s after the outage")
        later = sorted([*lanes.handled][before:], key=lambda one: one.started_at)
        return Outage(
            dead=lanes.dead,
            calls=lanes.refused,
            highest_attempt=max(
                (number for ends in lanes.history.attempts.values() for number, _ in ends), default=1
            ),
            receives=receives,
            dollars=dollars,
            first_start=later[0].started_at - back if later else None,
            high_first=sum(one.lane == "HIGH" for one in later[:FIRST]),
            broken=None if pattern is Pattern.PLAIN else len(violations(lanes)),
        )

    def _drain(self, share: float) -> float:
        lanes = self._deployed(PATTERNS[self.engine])
        chance = Random(self.seed)  # noqa: S311 - a simulation
        lanes.away = lambda _at: chance.random() < share
        for number in range(self.slots * self.refusing_messages):
            lanes.send("MAIN", group=f"m{number % GROUPS}", seconds=WORK)
        began = lanes.scheduler.now
        lanes.settle(within=LIMIT)
        return max(one.finished_at for one in lanes.handled) - began


def allowed(seconds: float) -> int:
    """Return the calls of a slot in an outage of so many seconds: some in a row, then one after each pause."""
    calls, pause, left = IN_A_ROW, FIRST_PAUSE, seconds
    while left > 0:
        calls, left, pause = calls + 1, left - pause, min(2 * pause, LONGEST_PAUSE)
    return calls


def cases(*, engine: EngineName, quick: bool, seed: int, unknowns: Unknowns | None = None) -> list[Case]:
    """Return a case for each number of slots; under one behaviour they are as small as quick ones."""
    small = quick or unknowns is not None
    return [
        Case(
            engine=engine,
            seed=seed,
            slots=slots,
            hours=QUICK_HOURS if small else HOURS,
            messages=QUICK_MESSAGES if small else MESSAGES,
            refusing_messages=QUICK_REFUSING if small else REFUSING,
            unknowns=unknowns or Unknowns(),
        )
        for slots in SLOTS
    ]


def measure(*, engine: EngineName, quick: bool, seed: int) -> Findings:
    """Let the resource be away at each number of slots, and for days at one."""
    found = cases(engine=engine, quick=quick, seed=seed)
    figures: dict[str, Any] = _judged(found)
    figures |= {
        "dead_plain": max(case.plain.dead for case in found),
        "calls_plain": max(case.plain.calls for case in found),
        "calls": max(case.ours.calls for case in found),
        "dollars_plain": round(max(case.plain.dollars for case in found), 3),
    }
    days = dataclasses.replace(found[0], hours=QUICK_DAYS if quick else DAYS, messages=QUICK_MESSAGES)
    figures |= {
        "most_receives_in_days": days.ours.receives,
        "dead_in_days": days.ours.dead,
        "high_first_share_in_days": round(days.ours.high_first / FIRST, 3),
    }
    rows = [*(row for case in found for row in rows_of(case)), _row(days, f"{days.hours:g} h", days.ours)]
    columns = ("slots", "pattern", *(field.name.replace("_", " ") for field in dataclasses.fields(Outage)))
    return Findings(
        figures=figures,
        tables=[Table(title="the resource is away", columns=columns, rows=rows)],
        conditions={
            "slots": SLOTS,
            "hours": found[0].hours,
            "messages": found[0].messages,
            "work_s": WORK,
            "high_every_s": HIGH_EVERY,
        },
    )


def rows_of(case: Case) -> Iterator[tuple[Any, ...]]:
    """Yield a row of a table for each pattern."""
    yield _row(case, case.engine.value, case.ours)
    yield _row(case, "plain", case.plain)


def _row(case: Case, name: str, outage: Outage) -> tuple[Any, ...]:
    return case.slots, name, *dataclasses.astuple(outage)


def judge(*, engine: EngineName, quick: bool, seed: int, unknowns: Unknowns | None = None) -> dict[str, Any]:
    """Return the figures with a target, as given or under one behaviour."""
    return _judged(cases(engine=engine, quick=quick, seed=seed, unknowns=unknowns))


def _judged(found: Sequence[Case]) -> dict[str, Any]:
    ours = [case.ours for case in found]
    return {
        "dead": max(one.dead for one in ours),
        "highest_attempt": max(one.highest_attempt for one in ours),
        "most_receives": max(one.receives for one in ours),
        "dollars": round(max(one.dollars for one in ours), 3),
        "first_start_s": round(max(one.first_start or LIMIT for one in ours), 1),
        "high_first_share": round(min(one.high_first for one in ours) / FIRST, 3),
        "broken_promises": max(one.broken or 0 for one in ours),
        "calls_over_allowed": round(max(case.tries for case in found), 3),
        "one_in_ten_refused_over_none": round(min(case.refusing for case in found), 3),
    }


if __name__ == "__main__":
    sys.exit(run_engine("away", measure, judge=judge, about="What an outage of the resource costs."))
