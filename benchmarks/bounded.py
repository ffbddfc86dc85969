"""
Whether `max_wait` bounds the wait of a lower lane under an endless flood: `python -m benchmarks.bounded`.

HIGH always has more work than the slots can do. First MAIN has a trickle that the reserve can carry: each of its
messages should start within some seconds of its `max_wait`, by the first start of its handler. Then it has a backlog
far beyond the reserve: it may take its share of slot time and no more, even where HIGH has few groups, all of them
received. Beside it are the longest waits without `max_wait` and with other patterns.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.figures import ENGINES, Row, most, run
from lanes.bell import BODY
from lanes.config import LanesConfig
from simulator.history import data_of
from simulator.simulated_lanes import Pattern, SimulatedLanes

if TYPE_CHECKING:
    from collections.abc import Iterator

WORK, SECONDS = 0.2, 300.0
RESERVE, MOST = 0.05, 0.06
"""The reserve, and the largest share of slot time that MAIN may get by it."""

MAX_WAIT = 60.0
OVERRUN = {"mappings": 30.0, "pull": 5.0}
"""Seconds, and the longest ones beyond them by engine."""

TRICKLE = 0.03
"""Share of the slots' time that the trickle asks for: the reserve can carry it."""

RATE = 1.15
"""Arrivals over the capacity of the slots; independent of the consumer."""

EVERY, FIRST = 1.0, 60
"""Seconds between two portions of the flood, and messages of it for each slot at the start."""

FEW_GROUPS = (1, 2, 5)
"""Groups of HIGH; a slot that has received one sees nothing of it in the queue."""


class Run(NamedTuple):
    """What decides a run; without `groups` HIGH has many, without `max_wait` priority is strict."""

    pattern: Pattern
    slots: int
    seed: int
    backlog: bool = False
    max_wait: float | None = MAX_WAIT
    groups: int = 0

    def served(self) -> tuple[float, float]:
        """Return MAIN's longest wait, and its share of the slot time that HIGH could use: a slot for each group."""
        main: dict[str, Any] = {"name": "MAIN"} | ({"max_wait": self.max_wait} if self.max_wait else {})
        raw = {
            "consumer": {"reserved_concurrency": self.slots, "reserve": RESERVE},
            "lanes": [{"name": "HIGH", "threshold": 50}, main],
        }
        lanes = SimulatedLanes(LanesConfig.from_dict(raw), pattern=self.pattern, seed=self.seed)
        self._flood(lanes)
        unusable = max(0, self.slots - self.groups) / self.slots if self.groups else 0.0
        if self.backlog:
            for number in range(int(SECONDS * self.slots * (unusable + 3 * RESERVE) / WORK)):
                lanes.send("MAIN", group=f"m{number % (10 * self.slots)}", seconds=WORK)
        else:
            self._trickle(lanes)
        lanes.run(seconds=SECONDS)
        mine = [one for one in lanes.handled if one.lane == "MAIN"]
        waits = [one.first_started_at - one.sent_at for one in mine]
        # A message that is left counts with its wait so far, even if its handler was started.
        waits += [
            lanes.scheduler.now - lanes.history.sent_at(data_of(body)["place"])
            for body in lanes.queues.live["MAIN"].bodies()
            if body != BODY
        ]
        work = sum(one.finished_at - one.started_at for one in mine)
        return max(waits, default=0.0), work / (self.slots * SECONDS) - unusable

    def _flood(self, lanes: SimulatedLanes) -> None:
        """Send so much to HIGH that it never falls empty."""
        groups, sent, due = self.groups or 40 * self.slots, 0, 0.0

        def send(count: int) -> None:
            nonlocal sent
            for _ in range(count):
                lanes.send("HIGH", group=f"h{sent % groups}", seconds=WORK)
                sent += 1

        def go_on() -> None:
            nonlocal due
            counts = lanes.queues.live["HIGH"].counts()
            if counts.visible + counts.not_visible <= 10 * self.slots:
                raise SystemExit(f"{self}: all of HIGH had a slot, so nothing is shown")
            due += EVERY * RATE * self.slots / WORK
            send(int(due))
            due -= int(due)
            lanes.scheduler.after(EVERY, go_on)

        send(FIRST * self.slots)
        lanes.scheduler.after(EVERY, go_on)

    def _trickle(self, lanes: SimulatedLanes) -> None:
        chance, moment, number = Random(self.seed), 0.0, 0  # noqa: S311 - a load, no secret
        while (moment := moment + chance.expovariate(TRICKLE * self.slots / WORK)) < SECONDS:
            send = partial(lanes.send, "MAIN", group=f"m{number % (10 * self.slots)}", seconds=WORK)
            lanes.scheduler.after(moment, send)
            number += 1


def rows(engine: str, slots: int, seed: int) -> Iterator[Row]:
    """Yield the rows of an engine at a number of slots."""
    ours = Run(ENGINES[engine], slots, seed)
    head = {"engine": engine, "slots": slots}
    longest, share = ours.served()
    others = {
        "strict": ours,
        "plain": ours._replace(pattern=Pattern.PLAIN),
        "none": ours._replace(pattern=Pattern.NONE),
    }
    yield {
        **head,
        "MAIN has": "a trickle",
        "share": most(share, MOST),
        "beyond max_wait s": most(max(0.0, longest - MAX_WAIT), OVERRUN[engine]),
        "longest s": longest,
        **{name: run._replace(max_wait=None).served()[0] for name, run in others.items()},
    }
    # Only slots that receive hold a group of HIGH without running it.
    for groups in (0, *(FEW_GROUPS if engine == "pull" and slots <= max(FEW_GROUPS) else ())):
        share = ours._replace(backlog=True, groups=groups).served()[1]
        few = f", HIGH in {groups}" if groups else ""
        yield {**head, "MAIN has": f"a backlog{few}", "share": most(share, MOST)}


if __name__ == "__main__":
    run(
        "bounded",
        rows,
        by=("engine", "slots", "MAIN has"),
        about="Whether max_wait bounds waits under a flood.",
    )
