"""
The first experiments with priority queues on Lambda, replayed: the plain pattern as published, and this product.

    lanes simulate --experiment all

Each sends a few messages, some of them later, to a function with handlers of 5 s, and shows the order in which they are
done and the yields between them.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

from lanes.config import LanesConfig
from lanes.config.table import nearest
from lanes.errors import ConfigurationError
from lanes.metrics import Metric

from .parameters import Unknowns
from .plain import as_published
from .scheduler import START
from .simulated_lanes import Pattern, SimulatedLanes, Tally

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WORK = 5.0
"""Seconds of a handler."""

SETTLED_COUNTS = 2.0
"""Age in seconds of a standard queue's counts: they settle "after a few seconds"."""

LIMIT = 3_600.0
STANDARD_POLLERS = 5
"""AWS: a mapping of a standard queue starts with five batches at once (Configuring scaling behavior for SQS)."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """
    The queues and the messages sent to them.

    Attributes:
        lanes: names of the queues, highest first.
        sends: time in seconds, lane and number of messages.
        slots: reserved concurrency.
        groups: number of message groups, used in turn.
        standard: whether the plain pattern's queues are standard ones; lanes are always FIFO, and here each message
            is then its own group.
        checks: whether the plain pattern reads the higher queues at all.

    """

    name: str
    shows: str
    lanes: Sequence[str] = ("HIGH", "MAIN")
    sends: Sequence[tuple[float, str, int]]
    slots: int = 1
    groups: int = 1
    standard: bool = False
    checks: bool = True

    @property
    def total(self) -> int:
        """Number of messages sent."""
        return sum(count for _, _, count in self.sends)

    @property
    def config(self) -> LanesConfig:
        """The lanes."""
        thresholds = range(50 * (len(self.lanes) - 1), 0, -50)
        above = [{"name": name, "threshold": at} for name, at in zip(self.lanes, thresholds, strict=False)]
        consumer = {"reserved_concurrency": self.slots, "function_timeout": 10}
        return LanesConfig.from_dict({"consumer": consumer, "lanes": [*above, {"name": self.lanes[-1]}]})


EXPERIMENTS = (
    Experiment(
        name="no-priority",
        shows="two standard queues that ignore each other: no priority",
        sends=[(0, "MAIN", 10), (0, "HIGH", 10)],
        standard=True,
        checks=False,
    ),
    Experiment(
        name="standard",
        shows="two standard queues, counts some seconds old: priority, not perfect",
        sends=[(0, "MAIN", 10), (12, "HIGH", 5)],
        standard=True,
    ),
    Experiment(
        name="fifo", shows="two FIFO queues, one group: in order", sends=[(0, "MAIN", 10), (12, "HIGH", 5)]
    ),
    Experiment(
        name="three-levels",
        shows="three FIFO queues: the highest first, then the next",
        lanes=("HIGH", "MEDIUM", "MAIN"),
        sends=[(0, "MAIN", 10), (12, "MEDIUM", 5), (33, "HIGH", 3)],
    ),
    Experiment(
        name="three-slots",
        shows="two FIFO queues, three slots, three groups",
        sends=[(0, "MAIN", 20), (22, "HIGH", 10)],
        slots=3,
        groups=3,
    ),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """
    One run of an experiment.

    Attributes:
        done: lane, number in the lane and group of each message, by the end of its handler.
        lines: the same as text, with the yields between them.
        seconds: until the last end.

    """

    done: Sequence[tuple[str, int, int]]
    lines: Sequence[str]
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One experiment with each pattern."""

    experiment: Experiment
    timelines: Mapping[str, Timeline]

    def text(self) -> str:
        """Return the lists side by side."""
        columns = {
            name: [*timeline.lines, f"-- all done after {timeline.seconds:.0f} s"]
            for name, timeline in self.timelines.items()
        }
        width = max(len(line) for lines in columns.values() for line in lines) + 4
        height = max(map(len, columns.values()))
        rows = [
            "".join((lines[row] if row < len(lines) else "").ljust(width) for lines in columns.values())
            for row in range(height)
        ]
        head = "".join(name.ljust(width) for name in columns)
        sent = ", ".join(f"{count} {lane} at {at:.0f} s" for at, lane, count in self.experiment.sends)
        title = f"{self.experiment.name}: {self.experiment.shows} ({sent})"
        return "\n".join(line.rstrip() for line in [title, "", head, *rows, ""])

    def plain(self) -> dict[str, Any]:
        """Return the same as JSON-able data."""
        return {
            "experiment": self.experiment.name,
            "shows": self.experiment.shows,
            **{
                name: {"order": list(timeline.lines), "seconds": timeline.seconds}
                for name, timeline in self.timelines.items()
            },
        }


class YieldTally(Tally):
    """A tally with the times of all yields."""

    def __init__(self, lanes: SimulatedLanes) -> None:
        super().__init__()
        self._lanes = lanes
        self.yields: list[tuple[float, str, int]] = []

    def add(self, lane: str, metric: str, count: int) -> None:
        """Count a metric; add up the yielded records of one batch."""
        super().add(lane, metric, count)
        if metric == Metric.YIELDED:
            now = self._lanes.scheduler.now
            before = self.yields.pop()[2] if self.yields and self.yields[-1][:2] == (now, lane) else 0
            self.yields.append((now, lane, before + count))


def named(name: str) -> Sequence[Experiment]:
    """
    Return the experiment of this name, or all.

    Raises:
        ConfigurationError: the name is unknown.

    """
    found = [one for one in EXPERIMENTS if name in ("all", one.name)]
    if not found:
        names = ["all", *(one.name for one in EXPERIMENTS)]
        raise ConfigurationError(
            [f"unknown experiment {name!r}{nearest(name, names)}"], source="--experiment"
        )
    return found


def replay(experiment: Experiment, *, seed: int = 1) -> Replay:
    """Run an experiment with the plain pattern and with this product."""
    plain = Pattern.PLAIN if experiment.checks else Pattern.NONE
    return Replay(
        experiment=experiment,
        timelines={
            "plain": timeline(experiment, plain, seed=seed),
            "ours": timeline(experiment, Pattern.LANES, seed=seed),
            "ours, pull": timeline(experiment, Pattern.PULL, seed=seed),
            **(
                {"ours, batch_size 1": timeline(experiment, Pattern.LANES, batch_size=1, seed=seed)}
                if experiment.slots > 1
                else {}
            ),
        },
    )


def timeline(experiment: Experiment, pattern: Pattern, *, batch_size: int = 10, seed: int = 1) -> Timeline:
    """Run an experiment once; the plain pattern always has batches of one."""
    lanes = _lanes(experiment, pattern, batch_size, seed)
    tally = lanes.tally = YieldTally(lanes)
    numbers: Counter[str] = Counter()
    sent: dict[tuple[str, str, int], int] = {}
    in_group: Counter[tuple[str, str]] = Counter()

    def send(lane: str, count: int) -> None:
        for _ in range(count):
            numbers[lane] += 1
            alone = experiment.standard
            group = f"{lane}-{numbers[lane] if alone else numbers[lane] % experiment.groups}"
            in_group[lane, group] += 1
            sent[lane, group, in_group[lane, group]] = numbers[lane]
            lanes.send(lane, group=group, seconds=WORK)

    for at, lane, count in experiment.sends:
        lanes.scheduler.after(at, lambda lane=lane, count=count: send(lane, count))  # type: ignore[misc]
    lanes.run(seconds=LIMIT, until=lambda: lanes.done >= experiment.total)
    return _timeline(lanes, tally, sent, experiment)


def _lanes(experiment: Experiment, pattern: Pattern, batch_size: int, seed: int) -> SimulatedLanes:
    if not experiment.standard or pattern in (Pattern.LANES, Pattern.PULL):
        config = _with_lanes(experiment.config, batch_size=batch_size)
        return SimulatedLanes(config, pattern=pattern, seed=seed)
    return SimulatedLanes(
        _with_lanes(as_published(experiment.config), maximum_concurrency=STANDARD_POLLERS),
        pattern=pattern,
        unknowns=Unknowns(stale=SETTLED_COUNTS),
        standard=Random(f"standard {seed}"),  # noqa: S311
        seed=seed,
    )


def _with_lanes(config: LanesConfig, **changes: int) -> LanesConfig:
    lanes = [dataclasses.replace(lane, **changes) for lane in config.lanes]  # type: ignore[arg-type]
    return dataclasses.replace(config, lanes=tuple(lanes))


def _timeline(
    lanes: SimulatedLanes,
    tally: YieldTally,
    sent: Mapping[tuple[str, str, int], int],
    experiment: Experiment,
) -> Timeline:
    done = [
        (one.lane, sent[one.lane, one.group, one.number], int(one.group.rpartition("-")[2]))
        for one in lanes.handled
    ]
    grouped = experiment.groups > 1
    lines = [
        (one.finished_at, f"{lane} {number}" + (f" (group {group})" if grouped else ""))
        for one, (lane, number, group) in zip(lanes.handled, done, strict=True)
    ]
    lines += [
        (at, f"  {lane} yields" + (f" ({count} messages)" if count > 1 else ""))
        for at, lane, count in tally.yields
    ]
    lines.sort(key=lambda line: line[0])
    last = max(one.finished_at for one in lanes.handled)
    return Timeline(done=done, lines=[text for _, text in lines], seconds=last - START)
