"""
Whether `max_wait` bounds the wait of a lower lane under an endless flood: `python -m benchmarks.bounded --json`.

HIGH always has more work than the slots can do. First MAIN has a trickle that the reserve can carry: each of its
messages must start within 5 s of its `max_wait`, by the first start of its handler. Then it has a backlog far beyond
the reserve: it may take its share of slot time and no more, even where HIGH has few groups, all of them received.
Without `max_wait` priority is strict, and MAIN starves by choice.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

from benchmarks.patterns import PATTERNS, deployed
from benchmarks.report import Findings, NotSaturatedError, Table, run_engine
from lanes.config import EngineName
from simulator.parameters import Unknowns
from simulator.simulated_lanes import Pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.config import Lane
    from simulator.simulated_lanes import SimulatedLanes

SLOTS = (1, 3, 10)
WORK = 0.2
RESERVE = 0.05
MAX_WAIT = 60.0
TRICKLE = 0.03
"""Share of the slots' time that the trickle asks for: the reserve can carry it."""

FEW_SLOTS = (1, 3)
FEW_GROUPS = (1, 2, 5, 30)
"""Groups of HIGH; a slot that has one in hand sees nothing of it in the queue."""

BOUNDED, STRICT = "max_wait 60 s", "strict"
OURS = (
    ("trickle", BOUNDED, MAX_WAIT),
    ("trickle", STRICT, None),
    ("backlog", BOUNDED, MAX_WAIT),
    ("backlog", STRICT, None),
)
OTHERS = (Pattern.PLAIN, Pattern.NONE)

SECONDS = 300.0
QUICK_SECONDS = 200.0
RATE = 1.15
"""Arrivals over the capacity of the slots; independent of the consumer."""

FIRST_BATCHES = 6
"""Batches for each slot that are there from the start."""

EVERY = 1.0
"""Seconds between two portions."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """
    MAIN's part of a run.

    Attributes:
        share: in its handlers, of the slot time that HIGH could use: one slot for each of its groups.
        handled: number of messages.
        longest: longest wait in seconds, including messages that still waited at the end.
        yielding: time of invocations that only yielded, over that of all slots.

    """

    share: float
    handled: int
    longest: float
    yielding: float


def serve(
    slots: int,
    *,
    seconds: float,
    backlog: bool,
    max_wait: float | None,
    pattern: Pattern,
    seed: int,
    unknowns: Unknowns | None = None,
    groups: int | None = None,
) -> Served:
    """Let the flood last this many seconds, by default in many groups."""
    main: dict[str, Any] = {"name": "MAIN"} | ({"max_wait": max_wait} if max_wait else {})
    raw = {
        "consumer": {"reserved_concurrency": slots, "reserve": RESERVE},
        "lanes": [{"name": "HIGH", "threshold": 50}, main],
    }
    lanes = deployed(raw, pattern=pattern, unknowns=unknowns or Unknowns(), seed=seed)
    flood = Flood(lanes=lanes, work=WORK, groups=groups or 40 * slots)
    flood.begin()
    unusable = max(0, slots - groups) / slots if groups else 0.0
    share = unusable + 3 * RESERVE if backlog else 0.0
    moments = _sent(lanes, share=share, seconds=seconds, seed=seed)
    began = lanes.scheduler.now
    lanes.run(seconds=seconds)
    flood.end()
    found = _served(lanes, began=began, seconds=seconds, moments=moments)
    return dataclasses.replace(found, share=found.share - unusable)


def in_few_groups(
    *, engine: EngineName, quick: bool, seed: int, unknowns: Unknowns | None = None
) -> dict[tuple[int, int], Served]:
    """Let MAIN have a backlog beside HIGH in few groups, by slots and groups; only pull has records in hand."""
    if engine is not EngineName.PULL:
        return {}
    return {
        (slots, groups): serve(
            slots,
            seconds=QUICK_SECONDS if quick else SECONDS,
            backlog=True,
            max_wait=MAX_WAIT,
            pattern=PATTERNS[engine],
            seed=seed,
            unknowns=unknowns,
            groups=groups,
        )
        for slots in (FEW_SLOTS[:1] if quick else FEW_SLOTS)
        for groups in (FEW_GROUPS[:2] if quick else FEW_GROUPS)
    }


def _sent(lanes: SimulatedLanes, *, share: float, seconds: float, seed: int) -> list[float]:
    """Send to MAIN as much as this share of slot time now, or schedule a trickle; return the times."""
    slots = lanes.config.consumer.reserved_concurrency
    chance = Random(seed)  # noqa: S311 - a simulation
    groups = 10 * slots
    if share:
        count = int(seconds * slots * share / WORK)
        for number in range(count):
            lanes.send("MAIN", group=f"m{number % groups}", seconds=WORK)
        return [lanes.scheduler.now] * count
    moments, moment = [], 0.0
    while (moment := moment + chance.expovariate(TRICKLE * slots / WORK)) < seconds:
        group = f"m{len(moments) % groups}"
        lanes.scheduler.after(moment, lambda group=group: lanes.send("MAIN", group=group, seconds=WORK))
        moments.append(lanes.scheduler.now + moment)
    return moments


def _served(lanes: SimulatedLanes, *, began: float, seconds: float, moments: list[float]) -> Served:
    slots = lanes.config.consumer.reserved_concurrency
    mine = [one for one in lanes.handled if one.lane == "MAIN"]
    waits = [one.first_started_at - one.sent_at for one in mine]
    done = Counter(round(one.sent_at, 6) for one in mine)
    still = [began + seconds - moment for moment in moments if not done[round(moment, 6)]]
    return Served(
        share=sum(one.finished_at - one.started_at for one in mine) / (slots * seconds),
        handled=len(mine),
        longest=max([*waits, *still], default=0.0),
        yielding=lanes.function.times.only_yielded / (slots * seconds),
    )


def measure(*, engine: EngineName, quick: bool, seed: int) -> Findings:
    """Run trickle and backlog at each number of slots; without `max_wait`, plain and without priority beside them."""
    seconds, all_slots = (QUICK_SECONDS, SLOTS[:2]) if quick else (SECONDS, SLOTS)
    runs = [(load, name, PATTERNS[engine], wait) for load, name, wait in OURS]
    runs += [("trickle", pattern.value, pattern, None) for pattern in OTHERS]
    found = {
        (slots, load, name): serve(
            slots,
            seconds=seconds,
            backlog=load == "backlog",
            max_wait=wait,
            pattern=pattern,
            seed=seed,
        )
        for slots in all_slots
        for load, name, pattern, wait in runs
    }

    def of(load: str, name: str) -> list[Served]:
        return [one for (_, its_load, its_name), one in found.items() if (its_load, its_name) == (load, name)]

    longest = max(one.longest for one in of("trickle", BOUNDED))
    few = in_few_groups(engine=engine, quick=quick, seed=seed)
    both = [*of("trickle", BOUNDED), *of("backlog", BOUNDED), *few.values()]
    figures = {
        "max_wait_overrun_seconds": round(max(0.0, longest - MAX_WAIT), 2),
        "longest_wait_s": round(longest, 1),
        "reserve_share": round(max(one.share for one in both), 4),
        "strict_longest_wait_s": round(min(one.longest for one in of("trickle", STRICT)), 1),
        "strict_share": round(max(one.share for one in of("trickle", STRICT)), 5),
    }
    figures["longest_waits"] = {
        str(slots): {
            name: round(one.longest, 1)
            for (its, load, name), one in found.items()
            if its == slots and load == "trickle"
        }
        for slots in all_slots
    }
    rows = [
        (f"{slots} slots", load, name, one.handled, one.share, one.longest, one.yielding)
        for (slots, load, name), one in found.items()
    ]
    rows += [
        (
            f"{slots} slots",
            f"backlog, HIGH in {groups}",
            BOUNDED,
            one.handled,
            one.share,
            one.longest,
            one.yielding,
        )
        for (slots, groups), one in few.items()
    ]
    columns = (
        "slots",
        "MAIN has a",
        "priority",
        "handled",
        "share of time",
        "longest wait s",
        "only yielded",
    )
    conditions = {
        "slots": all_slots,
        "seconds": seconds,
        "work_s": WORK,
        "reserve": RESERVE,
        "max_wait_s": MAX_WAIT,
        "trickle": TRICKLE,
    }
    return Findings(
        figures=figures,
        tables=[Table(title="MAIN under an endless flood of HIGH", columns=columns, rows=rows)],
        conditions=conditions,
    )


def judge(*, engine: EngineName, quick: bool, seed: int, unknowns: Unknowns | None = None) -> dict[str, Any]:
    """Return the figures with a target: at full size, or under one behaviour without the most slots."""
    served = {
        load: [
            serve(
                slots,
                seconds=QUICK_SECONDS if quick else SECONDS,
                backlog=load == "backlog",
                max_wait=MAX_WAIT,
                pattern=PATTERNS[engine],
                seed=seed,
                unknowns=unknowns,
            )
            for slots in (SLOTS[:1] if quick else SLOTS if unknowns is None else SLOTS[:2])
        ]
        for load in ("trickle", "backlog")
    }
    few = in_few_groups(engine=engine, quick=quick, seed=seed, unknowns=unknowns)
    longest = max(one.longest for one in served["trickle"])
    shares = [one.share for each in served.values() for one in each] + [one.share for one in few.values()]
    return {
        "max_wait_overrun_seconds": round(max(0.0, longest - MAX_WAIT), 2),
        "reserve_share": round(max(shares), 4),
    }


@dataclasses.dataclass(slots=True, kw_only=True)
class Flood:
    """
    Sends to the top lane as long as it runs, so much that it never falls empty.

    Attributes:
        lanes: where it is sent.
        work: seconds that a handler takes.
        groups: over so many groups, in turn.
        send: sends one message to a lane and a group; without it one that does not fail.

    """

    lanes: SimulatedLanes
    work: float
    groups: int
    send: Callable[[str, str], None] | None = None
    _sent: int = 0
    _due: float = 0.0
    _gaps: int = 0
    _open: bool = True

    def begin(self) -> None:
        """Send the first messages and see to the others."""
        self._send(self._slots * self._lane.batch_size * FIRST_BATCHES)
        self.lanes.scheduler.after(EVERY, self._go_on)

    def end(self) -> None:
        """
        Send no more.

        Raises:
            NotSaturatedError: at some moment the slots could hold all of the flood.

        """
        self._open = False
        if self._gaps:
            raise NotSaturatedError(f"the flood had {self._gaps} gaps, in which all of it had a slot")

    def _go_on(self) -> None:
        if not self._open:
            return
        counts = self.lanes.queues.live[self._lane.name].counts()
        self._gaps += counts.visible + counts.not_visible <= self._slots * self._lane.batch_size
        self._due += EVERY * RATE * self._slots / self.work
        whole = int(self._due)
        self._due -= whole
        self._send(whole)
        self.lanes.scheduler.after(EVERY, self._go_on)

    def _send(self, count: int) -> None:
        for _ in range(count):
            group = f"h{self._sent % self.groups}"
            if self.send is None:
                self.lanes.send(self._lane.name, group=group, seconds=self.work)
            else:
                self.send(self._lane.name, group)
            self._sent += 1

    @property
    def _slots(self) -> int:
        return self.lanes.config.consumer.reserved_concurrency

    @property
    def _lane(self) -> Lane:
        return self.lanes.config.lanes[0]


if __name__ == "__main__":
    sys.exit(
        run_engine(
            "bounded", measure, judge=judge, about="Whether max_wait bounds waits under an endless flood."
        )
    )
