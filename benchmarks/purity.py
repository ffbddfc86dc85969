"""
The fate of healthy messages under an endless flood: `python -m benchmarks.purity --json`.

One simulated day: HIGH always has more work than the slots can do, MEDIUM and MAIN have trickles that wait for the
flood's end, a hundredth of all handlers fail (half of them once, half always), processes die now and then, and
mappings are throttled all the time. Then the flood ends and all lanes drain. Yields, throttles and deaths must not
dead-letter any healthy message, and a message that always fails must have had exactly its attempts.
"""

from __future__ import annotations

import dataclasses
import sys
from random import Random
from typing import Any

from benchmarks.flood import Flood
from benchmarks.report import Findings, Table, run
from lanes.config import LanesConfig
from simulator.bodies import data_of
from simulator.oracle import violations
from simulator.parameters import Faults
from simulator.simulated_lanes import Pattern, SimulatedLanes

SLOTS = 3
WORK = 5.0
DAY, QUICK_DAY = 86_400.0, 3_600.0
TIMEOUT = 120
MAX_ATTEMPTS = 5
FAILING = 0.01
CRASHES = 0.002
TRICKLE = 1 / 60
"""Messages a second of each lower lane."""

ALWAYS = "always"
LONG = 400_000.0
"""Virtual seconds in which all lanes drain after the flood."""


@dataclasses.dataclass(slots=True)
class Day:
    """A run, and the places of its messages that always fail."""

    lanes: SimulatedLanes
    chance: Random
    poison: set[int] = dataclasses.field(default_factory=set)

    def send(self, lane: str, group: str) -> None:
        """Send one message; one in a hundred fails, once or always."""
        drawn = self.chance.random()
        fault = ALWAYS if drawn < FAILING / 2 else "once" if drawn < FAILING else ""
        self.lanes.send(lane, group=group, seconds=WORK, fault=fault)
        if fault == ALWAYS:
            self.poison.add(self.lanes.sent)

    def trickle(self, lane: str, *, until: float, number: int = 0) -> None:
        """Send to a lower lane now and then."""
        if self.lanes.scheduler.now < until:
            self.send(lane, f"{lane}{number % 50}")
            wait = self.chance.expovariate(TRICKLE)
            self.lanes.scheduler.after(wait, lambda: self.trickle(lane, until=until, number=number + 1))


def simulate_day(pattern: Pattern, *, seconds: float, seed: int) -> Day:
    """Let the flood last this many seconds, then drain all lanes."""
    raw = {
        "consumer": {
            "reserved_concurrency": SLOTS,
            "function_timeout": TIMEOUT,
            "max_attempts": MAX_ATTEMPTS,
            "backoff_max": 300,
        }
    }
    lanes = SimulatedLanes(
        LanesConfig.from_dict(raw), pattern=pattern, faults=Faults(crashes=CRASHES), seed=seed
    )
    day = Day(lanes, Random(seed))  # noqa: S311 - a simulation
    flood = Flood(lanes=lanes, work=WORK, groups=40 * SLOTS, send=day.send)
    flood.begin()
    for lane in ("MEDIUM", "MAIN"):
        day.trickle(lane, until=lanes.scheduler.now + seconds)
    lanes.run(seconds=seconds)
    flood.end()
    if not lanes.settle(within=LONG):
        raise RuntimeError(f"{lanes.left} messages were left {LONG:.0f} s after the flood")
    return day


def figures_of(day: Day) -> dict[str, Any]:
    """Judge a day by its dead-letter queues and the oracle."""
    lanes = day.lanes
    dead = {int(data_of(body)["place"]) for queue in lanes.queues.dead.values() for body in queue.bodies()}
    broken = violations(lanes)
    history = lanes.history
    lost = sum(1 for place in history.places if not history.times_done(place) and place not in dead)
    failures = {place: sum(how != "done" for _, how in history.attempts.get(place, ())) for place in dead}
    deaths = {place for place, ends in history.attempts.items() if any(how == "died" for _, how in ends)}
    miscounted = [
        # A first attempt that killed its process may go uncounted, one run more at most.
        place
        for place in dead
        if failures[place] not in (MAX_ATTEMPTS, MAX_ATTEMPTS + (place in deaths))
    ]
    return {
        "healthy_dead_lettered": len(dead - day.poison),
        "failed_attempts_exact": not miscounted and not any("attempt" in line for line in broken),
        "dead_lettered_after_other_than_max_attempts": len(miscounted),
        "lost": lost,
        "order_kept": not any("order" in line for line in broken),
        "dead_lettered": len(dead),
        "sent": lanes.sent,
        "processes_lost": lanes.function.times.lost,
        "throttles": sum(mapping.throttles for mapping in lanes.mappings.values()),
    }


def measure(*, quick: bool, seed: int) -> Findings:
    """Simulate the day with this product, and with the plain pattern."""
    seconds = QUICK_DAY if quick else DAY
    found = {
        pattern: figures_of(simulate_day(pattern, seconds=seconds, seed=seed))
        for pattern in (Pattern.LANES, Pattern.PLAIN)
    }
    ours, plain = found[Pattern.LANES], found[Pattern.PLAIN]
    rows = [(name, ours[name], plain[name]) for name in ours]
    conditions = {
        "seconds": seconds,
        "slots": SLOTS,
        "work_s": WORK,
        "failing": FAILING,
        "crashes_per_invocation": CRASHES,
        "max_attempts": MAX_ATTEMPTS,
    }
    return Findings(
        figures={**ours, "plain_healthy_dead_lettered": plain["healthy_dead_lettered"]},
        tables=[Table(title="a day under an endless flood", columns=("", "lanes", "plain"), rows=rows)],
        conditions=conditions,
    )


if __name__ == "__main__":
    sys.exit(run("purity", measure, about="The fate of healthy messages under an endless flood."))
