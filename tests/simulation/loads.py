"""Loads for simulated lanes, decided by a seed."""

from random import Random

from lanes.config import LanesConfig
from simulator.simulated_lanes import Pattern, SimulatedLanes

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
