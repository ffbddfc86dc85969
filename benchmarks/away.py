"""
What an outage of the resource costs: `python -m benchmarks.away`.

First all of the resource is away for twenty minutes, with a backlog of MAIN and a message of HIGH every twenty seconds;
then it is back. Then a part of it is away for good: one message of HIGH, four a slot, or a share of MAIN's groups; the
rest, in MAIN, should be handled at nine tenths of its rate.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from benchmarks.figures import ENGINES, Row, least, most, run
from lanes.config import LanesConfig
from simulator.oracle import violations
from simulator.simulated_lanes import SimulatedLanes

if TYPE_CHECKING:
    from collections.abc import Iterator

WORK, GROUPS, HIGH_GROUPS = 0.1, 1_000, 20
BEFORE, OUTAGE, HIGH_EVERY = 60.0, 1_200.0, 20.0
MESSAGES, FIRST = 2_000, 30
"""Backlog of MAIN, and the number of starts after the outage among which those of HIGH are counted."""

LIMIT = 100_000.0
"""Virtual seconds after which a run is stopped."""

CALLS, RECEIVES, FIRST_START, LOWER = 30, 70, 60.0, 3
"""Goals: calls of a slot, receives of a message, seconds, and lower records a slot before the last of HIGH."""

HEALTHY = 1_500
EACH, HEAD = 10, 5.0
"""Healthy messages for each slot, messages of a group, and seconds for which single messages are alone."""

PARTS = {
    "1 message": 0,
    "4 messages a slot": 4,
    "2 % of groups": 0.02,
    "5 % of groups": 0.05,
    "20 % of groups": 0.2,
}
RATE = 0.9
"""Goal of the healthy rest: its share that is handled in the time that all of it takes without the others."""


def deployed(engine: str, slots: int, seed: int) -> SimulatedLanes:
    """Return two lanes."""
    raw = {
        "consumer": {"reserved_concurrency": slots},
        "lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN"}],
    }
    return SimulatedLanes(LanesConfig.from_dict(raw), pattern=ENGINES[engine], seed=seed)


def whole(engine: str, slots: int, seed: int) -> Row:
    """Return the row of an outage of all."""
    lanes = deployed(engine, slots, seed)
    began = lanes.scheduler.now
    lanes.away = lambda at: BEFORE <= at < BEFORE + OUTAGE
    for number in range(MESSAGES * slots):
        lanes.send("MAIN", group=f"m{number % GROUPS}", seconds=WORK)
    for number in range(int((BEFORE + OUTAGE) / HIGH_EVERY)):
        send = partial(lanes.send, "HIGH", group=f"h{number % HIGH_GROUPS}", seconds=WORK)
        lanes.scheduler.after(number * HIGH_EVERY, send)
    lanes.run(seconds=BEFORE + OUTAGE)
    before, back = len(lanes.handled), began + BEFORE + OUTAGE
    receives = max(queue.most_received() for queue in lanes.queues.live.values())
    lanes.settle(within=LIMIT)
    later = sorted([*lanes.handled][before:], key=lambda one: one.started_at)
    waited = [place for place, one in enumerate(later) if one.lane == "HIGH" and one.sent_at < back]
    lower = waited[-1] + 1 - len(waited) if waited else 0
    first = sum(one.lane == "HIGH" for one in later[:FIRST])
    return {
        "left": lanes.left,
        "HIGH of 30": least(first, FIRST) if slots == 1 else first,
        "lower before": most(lower, 0 if slots == 1 else LOWER * slots),
        "first start s": most(later[0].started_at - back if later else LIMIT, FIRST_START),
        "calls a slot": most(lanes.refused / slots, CALLS),
        "receives": most(receives, RECEIVES),
        "broken": most(len(violations(lanes)), 0),
        **_unharmed(lanes),
    }


def part(engine: str, slots: int, seed: int, away: float) -> Row:
    """Return the row of a part that is away for good: so many single messages a slot, or a share of the groups."""
    seconds = _drained(engine, slots, seed)
    lanes = deployed(engine, slots, seed)
    if not 0 < away < 1:
        for number in range(int(away * slots) or 1):
            lanes.send("HIGH", group=f"away{number}", seconds=WORK, fault="away")
        lanes.run(seconds=HEAD)
    _send(lanes, share=away % 1)
    lanes.run(seconds=seconds)
    return {
        "healthy": least(len(lanes.handled) / (HEALTHY * slots), RATE),
        "calls a slot": lanes.refused / slots,
        **_unharmed(lanes),
    }


def _unharmed(lanes: SimulatedLanes) -> Row:
    attempts = (number for ends in lanes.history.attempts.values() for number, _ in ends)
    return {"attempt": most(max(attempts, default=1), 1), "dead": most(lanes.dead, 0)}


@cache
def _drained(engine: str, slots: int, seed: int) -> float:
    """Return the seconds until all of the healthy messages were handled without others."""
    lanes = deployed(engine, slots, seed)
    _send(lanes, share=0.0)
    began = lanes.scheduler.now
    lanes.settle(within=LIMIT)
    return max(one.finished_at for one in lanes.handled) - began


def _send(lanes: SimulatedLanes, *, share: float) -> None:
    """Send the healthy messages, and evenly among them those of groups that are away."""
    groups = HEALTHY * lanes.config.consumer.reserved_concurrency // EACH
    others = share / (1 - share)
    for _ in range(EACH):
        for group in range(groups):
            lanes.send("MAIN", group=f"m{group}", seconds=WORK)
            if int((group + 1) * others) > int(group * others):
                lanes.send("MAIN", group=f"away{group}", seconds=WORK, fault="away")


def rows(engine: str, slots: int, seed: int) -> Iterator[Row]:
    """Yield the rows of an engine at a number of slots."""
    yield {"away": "all, 20 min", "engine": engine, "slots": slots, **whole(engine, slots, seed)}
    for name, share in PARTS.items():
        yield {"away": name, "engine": engine, "slots": slots, **part(engine, slots, seed, share)}


if __name__ == "__main__":
    run("away", rows, by=("away", "engine", "slots"), about="What an outage of the resource costs.")
