"""Writes that time out and land seconds later, handlers that kill their process: each failed attempt counts once."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.soak_late import land_late
from lanes.config import LanesConfig
from simulator.oracle import FAILURES
from simulator.simulated_lanes import SimulatedLanes

MESSAGES, MAX_ATTEMPTS = 40, 3
FATES = ("", "check", "once", "always", "crash")


def run(seed):
    """Run a load of which three writes in ten land late; everything else is drawn from the seed."""
    chance = Random(f"late writes {seed}")
    lanes = [{"name": name, "batch_size": chance.choice((1, 3, 10))} for name in ("HIGH", "MAIN")]
    lanes[0]["threshold"] = 50
    consumer = {
        "engine": chance.choice(("mappings", "pull")),
        "reserved_concurrency": chance.choice((1, 2, 3)),
        "idempotency": chance.random() < 0.5,
        "max_attempts": MAX_ATTEMPTS,
        "backoff_base": chance.choice((1, 2)),
        "backoff_max": 10,
    }
    simulated = SimulatedLanes(LanesConfig.from_dict({"lanes": lanes, "consumer": consumer}), seed=seed)
    land_late(simulated, share=0.3, chance=chance)
    for _ in range(MESSAGES):
        lane, group, fault = chance.choice(("HIGH", "MAIN")), f"g{chance.randrange(6)}", _fate(chance)
        seconds = chance.choice((0.01, 0.2, 1.0))
        simulated.scheduler.after(
            chance.random() * 20,
            lambda lane=lane, group=group, seconds=seconds, fault=fault: simulated.send(
                lane, group=group, seconds=seconds, fault=fault
            ),
        )
    assert simulated.settle(within=1_000_000)
    return simulated


def _fate(chance):
    return chance.choices(FATES, (20, 20, 10, 20, 20))[0]


def broken(seed):
    """Return the attempts of messages with a wrong count: an uncounted one is allowed as in C4, one too many is not."""
    simulated = run(seed)
    idempotency = simulated.config.consumer.idempotency
    return [
        attempts
        for attempts in simulated.history.attempts.values()
        if _is_miscounted(attempts, may_miss=not idempotency)
    ]


def _is_miscounted(attempts, *, may_miss):
    ends = [how for _, how in attempts if how != "yielded"]
    missed = int(may_miss and ends[:1] == ["died"])
    failures = 0
    for attempt, how in attempts:
        if not max(1, failures + 1 - missed) <= attempt <= failures + 1:
            return True
        failures += how in FAILURES
    return failures > MAX_ATTEMPTS + missed


# Before writes had conditions, these had a wrong count.
@pytest.mark.parametrize("seed", [120, 403, 587])
def test_each_failed_attempt_counts_once_however_late_its_writes_land(seed):
    """The number of each attempt, and how many there are."""
    assert broken(seed) == []


@pytest.mark.deep
@pytest.mark.parametrize("start", range(0, 1000, 100))
def test_each_failed_attempt_counts_once_in_many_runs(start):
    """With both engines, with idempotency and without."""
    assert {seed: found for seed in range(start, start + 100) if (found := broken(seed))} == {}
