"""
How soon urgent messages of a backlog are finished: `python -m benchmarks.finish --json`.

A backlog of many groups, a fiftieth of it urgent, all of it sent at once: once all messages of one group are urgent,
once a fifth of five groups each. Without priority one queue takes everything in the order it was sent. The ideal is
what handlers' times and the order within groups allow: one group is handled by one slot, five groups by five.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from benchmarks.report import Findings, Table, run
from benchmarks.saturation import require_saturated
from benchmarks.slot_time import SPENT, Spent, spent
from lanes.config import LanesConfig
from simulator.world import Pattern, SimulatedLanes

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOTS = 5
GROUPS = 50
WORK = 0.2
RUNS = {
    "lanes": (Pattern.LANES, False),
    "waiting room": (Pattern.LANES, True),
    "plain": (Pattern.PLAIN, False),
    "none": (Pattern.NONE, False),
}
SUFFIXES = {"lanes": "", "waiting room": "_waiting_room", "plain": "_plain", "none": "_none"}
LIMIT = 1_000_000.0
"""Virtual seconds after which a run that has not ended is given up."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """
    What a run came to.

    Attributes:
        urgent: seconds from the start until the urgent messages were finished.
        everything: seconds until all were.
        spent: what the slots' time went into, as shares of it.

    """

    urgent: float
    everything: float
    spent: Spent


def messages(each: int, spread: int) -> Iterator[tuple[str, bool]]:
    """Give the group of each message, in the order sent, and whether it is urgent: `each` are, in `spread` groups."""
    for number in range(each):
        for group in range(GROUPS):
            yield f"g{group}", group < spread and number % spread == spread - 1


def finish(pattern: Pattern, *, room: bool = False, each: int, spread: int, seed: int) -> Finished:
    """Send everything at once and run until all of it is handled; `room` is the waiting room."""
    raw = {"consumer": {"reserved_concurrency": SLOTS, "waiting_room": room}}
    # No priority is one queue for all: with a queue for each lane, a mapping of its own would still favour a short one.
    config = LanesConfig.from_dict(raw | {"enabled": pattern is not Pattern.NONE})
    lanes = SimulatedLanes(config, pattern=pattern, seed=seed)
    numbers: Counter[tuple[str, str]] = Counter()
    urgent_ones = set()
    for group, urgent in messages(each, spread):
        lane = "HIGH" if urgent and pattern is not Pattern.NONE else "MAIN"
        lanes.send(lane, group=group, seconds=WORK)
        numbers[lane, group] += 1
        if urgent:
            urgent_ones.add((lane, group, numbers[lane, group]))
    began = lanes.kernel.now
    if not lanes.run(seconds=LIMIT, until=lambda: len(lanes.handled) >= lanes.sent):
        raise RuntimeError(f"{lanes.sent - len(lanes.handled)} messages were not handled in {LIMIT:.0f} s")
    everything = max(one.finished_at for one in lanes.handled) - began
    if pattern is Pattern.NONE:
        require_saturated(lanes, seconds=everything, work=WORK)
    last = max(one.finished_at for one in lanes.handled if (one.lane, one.group, one.number) in urgent_ones)
    return Finished(urgent=last - began, everything=everything, spent=spent(lanes, seconds=everything))


def measure(*, quick: bool, seed: int) -> Findings:
    """Run both spreads with and without the waiting room, under the plain pattern, and without priority."""
    each = 50 if quick else 500
    rows = []
    figures: dict[str, Any] = {}
    drains = dict.fromkeys(RUNS, 0.0)
    for spread, name in ((1, "one_group"), (5, "five_groups")):
        found = {
            kind: finish(pattern, room=room, each=each, spread=spread, seed=seed)
            for kind, (pattern, room) in RUNS.items()
        }
        none, possible = found["none"], GROUPS * spread / SLOTS
        for kind, one in found.items():
            speedup = none.urgent / one.urgent
            figures[f"speedup_{name}{SUFFIXES[kind]}"] = round(speedup, 2)
            figures[f"speedup_of_ideal_{name}{SUFFIXES[kind]}"] = round(speedup / possible, 3)
            drains[kind] = max(drains[kind], one.everything / none.everything)
            shares = dataclasses.astuple(one.spent)
            rows.append((f"urgent in {spread}", kind, one.urgent, speedup, one.everything, *shares))
    figures |= {f"drain_ratio{SUFFIXES[kind]}": round(drain, 4) for kind, drain in drains.items()}
    columns = ("groups", "priority", "urgent done s", "speedup", "all done s", *SPENT)
    conditions = {"slots": SLOTS, "groups": GROUPS, "messages": GROUPS * each, "urgent": each, "work_s": WORK}
    title = "until the urgent messages and all are finished"
    return Findings(
        figures=figures, tables=[Table(title=title, columns=columns, rows=rows)], conditions=conditions
    )


if __name__ == "__main__":
    sys.exit(run("finish", measure, about="Time to finish the urgent messages of a backlog."))
