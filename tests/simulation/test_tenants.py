"""A tenant that floods a lane, and others that send a message now and then, with and without a share."""

from functools import cache
from random import Random

from lanes.config import LanesConfig
from simulator.simulated_lanes import SimulatedLanes

FLOOD, OTHERS, EVERY, WORK, SLOTS = 1_000, 20, 10.0, 0.2, 4


@cache
def flooded(share, *, alone=False):
    """Run until everything is handled; give the sorted waits of the others and when the flood was over."""
    lane = {"name": "MAIN"} | ({"tenant_share": share} if share else {})
    config = LanesConfig.from_dict(
        {"lanes": [lane], "consumer": {"reserved_concurrency": SLOTS, "engine": "pull"}}
    )
    lanes = SimulatedLanes(config)
    chance, began = Random(1), lanes.scheduler.now

    def send_now_and_then(number):
        lanes.send("MAIN", group=f"small{number}:{chance.random()}", seconds=WORK)
        if lanes.scheduler.now - began < FLOOD * WORK / SLOTS:
            lanes.scheduler.after(EVERY * chance.uniform(0.5, 1.5), lambda: send_now_and_then(number))

    for number in range(0 if alone else OTHERS):
        lanes.scheduler.after(chance.uniform(1, EVERY), lambda number=number: send_now_and_then(number))
    for number in range(FLOOD):
        lanes.send("MAIN", group=f"acme:{number}", seconds=WORK)
    lanes.run(seconds=FLOOD * WORK / SLOTS + EVERY)
    assert lanes.run(seconds=600, until=lambda: len(lanes.handled) >= lanes.sent)
    waits = sorted(one.started_at - one.sent_at for one in lanes.handled if one.group.startswith("small"))
    over = max(one.finished_at for one in lanes.handled if one.group.startswith("acme"))
    return waits, over - began


def test_others_wait_for_seconds_where_they_waited_for_the_flood():
    """Their median is a twentieth of what it was, and the worst of them a fifth."""
    without, _ = flooded(None)
    waits, _ = flooded(0.5)

    assert waits[len(waits) // 2] <= without[len(without) // 2] / 10
    assert waits[-1] <= without[-1] / 5


def test_the_flood_is_drained_nearly_as_soon():
    """Beside others a quarter later at most, and a seventh where nobody else is there."""
    assert flooded(0.5)[1] <= flooded(None)[1] * 1.25
    assert flooded(0.5, alone=True)[1] <= flooded(None, alone=True)[1] * 1.15
