"""Loads for simulated lanes, decided by a seed, and a search for messages that wait although a slot is free."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from lanes.bell import COALESCING, MARGIN
from lanes.config import LanesConfig
from simulator.simulated_lanes import Pattern, SimulatedLanes

if TYPE_CHECKING:
    from simulator.history import Handled


WORK = 0.05
GROUPS = 20


def mixed_load(
    *,
    slots,
    pattern=Pattern.LANES,
    faults=None,
    unknowns=None,
    seed=1,
    idempotency=False,
    backlog=90,
):
    """Run a MAIN backlog under HIGH bursts and single MEDIUM messages, some failing, until all is settled."""
    config = {"consumer": {"reserved_concurrency": slots, "idempotency": idempotency}}
    lanes = SimulatedLanes(
        LanesConfig.from_dict(config), pattern=pattern, faults=faults, unknowns=unknowns, seed=seed
    )
    chance = Random(seed)

    def send(lane, group):
        fault = chance.choices(["", "once", "always"], [93, 5, 2])[0]
        lanes.send(lane, group=group, seconds=WORK, fault=fault)

    def burst():
        for _ in range(5):
            send("HIGH", f"h{chance.randrange(10)}")
        send("MEDIUM", f"m{chance.randrange(10)}")

    for number in range(backlog):
        send("MAIN", f"g{number % GROUPS}")
    for second in range(backlog // 10):
        lanes.scheduler.after(second * chance.uniform(0.5, 1.5), burst)
    lanes.run(seconds=backlog / 5)
    assert lanes.settle(within=100_000)
    return lanes


def history(lanes):
    """Return all observations of a run, to compare two runs."""
    return (
        list(lanes.handled),
        dict(lanes.history.attempts),
        lanes.calls.log,
        lanes.tally.counts,
        lanes.tally.problems,
        lanes.function.times,
        [(mapping.throttles, mapping.receives, mapping.deletes) for mapping in lanes.mappings.values()],
        lanes.meter.idle,
        lanes.scheduler.now,
        lanes.scheduler.events,
    )


COLD_START_AND_CALLS = 0.6
LONGEST_WAIT = COALESCING + MARGIN + COLD_START_AND_CALLS
"""Seconds for which a message may wait although a slot is free."""


def pulling(slots, *, unknowns=None, faults=None, seed=1, lanes=None, **consumer):
    """Return lanes with the pull engine."""
    raw = {
        "consumer": {
            "engine": "pull",
            "reserved_concurrency": slots,
            "function_timeout": "30s",
            **consumer,
        }
    }
    config = LanesConfig.from_dict(raw | ({"lanes": lanes} if lanes else {}))
    return SimulatedLanes(config, unknowns=unknowns, faults=faults, seed=seed)


def send_apart(lanes, lane, *, after, group, seconds=0.0, late=0.005, rings=True):
    """Send a message from a process of its own, which rings a little later for the time of its send."""

    def send():
        lanes.send(lane, group=group, seconds=seconds, rings=False)
        bell, at = lanes.new_bell(), lanes.scheduler.now
        if rings:
            lanes.scheduler.after(late, lambda: bell.ring_for(lane, at=at))

    lanes.scheduler.after(after, send)


def needless_waits(lanes) -> list[tuple[float, Handled]]:
    """Return for how long each message waited while a slot was free and its group was not at work, longest first."""
    slots = lanes.config.consumer.reserved_concurrency
    handled = sorted(lanes.handled, key=lambda one: one.started_at)
    ended: dict[tuple[str, str], float] = {}
    waits = []
    for one in sorted(handled, key=lambda one: (one.lane, one.group, one.number)):
        ready = max(one.sent_at, ended.get((one.lane, one.group), 0.0))
        ended[one.lane, one.group] = one.finished_at
        waits.append((_free_between(handled, ready, one.started_at, slots), one))
    return sorted(waits, key=lambda wait: -wait[0])


def _free_between(handled, ready, started, slots):
    """Return the seconds of a span in which fewer handlers were at work than there are slots."""
    edges = []
    for other in handled:
        if other.started_at >= started:
            break
        if other.finished_at > ready:
            edges += [(max(other.started_at, ready), 1), (min(other.finished_at, started), -1)]
    free, busy, last = 0.0, 0, ready
    for at, change in sorted(edges):
        free += at - last if busy < slots else 0.0
        busy, last = busy + change, at
    return free + (started - last if busy < slots else 0.0)
