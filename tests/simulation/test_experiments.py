"""The first experiments with priority queues on Lambda: the simulator handles their messages in the recorded order."""

import dataclasses
import json
from collections import Counter
from pathlib import Path

import pytest

from lanes.config import LanesConfig
from lanes.metrics import Metric
from lanes.testing.clock import START
from simulator.simulated_lanes import Pattern, SimulatedLanes, Tally

EXPERIMENTS = json.loads(Path(__file__).with_name("experiments.json").read_text(encoding="utf-8"))
PATTERNS = {
    "plain": (Pattern.PLAIN, 10),
    "ours": (Pattern.LANES, 10),
    "ours, batch_size 1": (Pattern.LANES, 1),
    "ours, pull": (Pattern.PULL, 10),
}
WORK = 5.0
"""Seconds of a handler."""
LIMIT = 3_600.0
# The simulator has FIFO queues only, so the plain pattern on standard ones is a record.
CASES = [
    pytest.param(experiment, name, id=f"{experiment['name']}, {name}")
    for experiment in EXPERIMENTS
    for name in experiment["orders"]
    if not (name == "plain" and experiment["standard"])
]


class YieldTally(Tally):
    """A tally with the times of all yields."""

    def __init__(self, lanes):
        super().__init__()
        self._lanes = lanes
        self.yields = []

    def add(self, lane, metric, count):
        super().add(lane, metric, count)
        if metric == Metric.YIELDED:
            now = self._lanes.scheduler.now
            before = self.yields.pop()[2] if self.yields and self.yields[-1][:2] == (now, lane) else 0
            self.yields.append((now, lane, before + count))


def config_of(experiment, batch_size):
    """Give the lanes of an experiment."""
    names = experiment["lanes"]
    lanes = [{"name": name, "threshold": 50 * place} for place, name in enumerate(reversed(names)) if place]
    config = LanesConfig.from_dict(
        {
            "consumer": {"reserved_concurrency": experiment["slots"], "function_timeout": 10},
            "lanes": [*reversed(lanes), {"name": names[-1]}],
        }
    )
    sized = tuple(dataclasses.replace(lane, batch_size=batch_size) for lane in config.lanes)
    return dataclasses.replace(config, lanes=sized)


def played(experiment, name):
    """Play an experiment and give the order of its messages with the yields between, and the seconds it took."""
    pattern, batch_size = PATTERNS[name]
    lanes = SimulatedLanes(config_of(experiment, batch_size), pattern=pattern)
    tally = lanes.tally = YieldTally(lanes)
    numbers, in_group, sent = Counter(), Counter(), {}

    def send(lane, count):
        for _ in range(count):
            numbers[lane] += 1
            # In standard queues each message is alone.
            place = numbers[lane] if experiment["standard"] else numbers[lane] % experiment["groups"]
            group = f"{lane}-{place}"
            in_group[group] += 1
            sent[group, in_group[group]] = numbers[lane]
            lanes.send(lane, group=group, seconds=WORK)

    for at, lane, count in experiment["sends"]:
        lanes.scheduler.after(at, lambda lane=lane, count=count: send(lane, count))
    total = sum(count for _, _, count in experiment["sends"])
    lanes.run(seconds=LIMIT, until=lambda: lanes.done >= total)

    def words(one):
        text = f"{one.lane} {sent[one.group, one.number]}"
        return f"{text} (group {one.group.rpartition('-')[2]})" if experiment["groups"] > 1 else text

    steps = [(one.finished_at, words(one)) for one in lanes.handled]
    steps += [
        (at, f"{lane} yields" + (f" ({count} messages)" if count > 1 else ""))
        for at, lane, count in tally.yields
    ]
    steps.sort(key=lambda step: step[0])
    return [text for _, text in steps], max(one.finished_at for one in lanes.handled) - START


@pytest.mark.parametrize(("experiment", "name"), CASES)
def test_the_messages_of_the_first_experiments_are_handled_in_the_recorded_order(experiment, name):
    """Exactly with one slot; with several, which end at the same moment, each group of a lane."""
    recorded = experiment["orders"][name]

    order, seconds = played(experiment, name)

    def by_group(steps):
        groups = {}
        for step in steps:
            message, _, group = step.partition(" (group ")
            if "yields" not in step:
                groups.setdefault((message.split()[0], group), []).append(message)
        return groups

    assert seconds == pytest.approx(recorded["seconds"], abs=2)
    if experiment["slots"] == 1:
        assert order == recorded["order"]
    else:
        assert by_group(order) == by_group(recorded["order"])
