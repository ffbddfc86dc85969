"""
The time to finish the urgent messages of a backlog: `python -m benchmarks.finish --json`.

A backlog of many groups, a fiftieth of it urgent, is sent at once: first with one urgent group, then with a fifth of
five groups each. Without priority one queue takes all messages in the order of sending. The ideal is the limit of
handler times and order: one slot handles one group, five slots five groups.
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
from simulator.simulated_lanes import Pattern, SimulatedLanes

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOTS = 5
GROUPS = 50
WORK = 0.2
SUFFIXES = {Pattern.LANES: "", Pattern.PLAIN: "_plain", Pattern.NONE: "_none"}
LIMIT = 1_000_000.0
"""Virtual seconds after which a run is stopped."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """
    The result of a run.

    Attributes:
        urgent: seconds until the urgent messages were finished.
        everything: seconds until all messages were.
        spent: shares of slot time by use.

    """

    urgent: float
    everything: float
    spent: Spent


def messages(each: int, spread: int) -> Iterator[tuple[str, bool]]:
    """Yield each message's group and whether it is urgent, in the order sent: `each` are, in `spread` groups."""
    for number in range(each):
        for group in range(GROUPS):
            yield f"g{group}", group < spread and number % spread == spread - 1


def finish(pattern: Pattern, *, each: int, spread: int, seed: int) -> Finished:
    """Send everything at once and run until all of it is handled."""
    raw = {"consumer": {"reserved_concurrency": SLOTS}}
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
    began = lanes.scheduler.now
    if not lanes.run(seconds=LIMIT, until=lambda: len(lanes.handled) >= lanes.sent):
        raise RuntimeError(f"{lanes.sent - len(lanes.handled)} messages were not handled in {LIMIT:.0f} s")
    everything = max(one.finished_at for one in lanes.handled) - began
    if pattern is Pattern.NONE:
        require_saturated(lanes, seconds=everything, work=WORK)
    last = max(one.finished_at for one in lanes.handled if (one.lane, one.group, one.number) in urgent_ones)
    return Finished(urgent=last - began, everything=everything, spent=spent(lanes, seconds=everything))


def measure(*, quick: bool, seed: int) -> Findings:
    """Run both spreads with this product, the plain pattern, and no priority."""
    each = 50 if quick else 500
    rows = []
    figures: dict[str, Any] = {}
    drains = dict.fromkeys(Pattern, 0.0)
    for spread, name in ((1, "one_group"), (5, "five_groups")):
        found = {pattern: finish(pattern, each=each, spread=spread, seed=seed) for pattern in Pattern}
        none, possible = found[Pattern.NONE], GROUPS * spread / SLOTS
        for pattern, one in found.items():
            speedup = none.urgent / one.urgent
            figures[f"speedup_{name}{SUFFIXES[pattern]}"] = round(speedup, 2)
            figures[f"speedup_of_ideal_{name}{SUFFIXES[pattern]}"] = round(speedup / possible, 3)
            drains[pattern] = max(drains[pattern], one.everything / none.everything)
            shares = dataclasses.astuple(one.spent)
            rows.append((f"urgent in {spread}", pattern.value, one.urgent, speedup, one.everything, *shares))
    figures |= {f"drain_ratio{SUFFIXES[pattern]}": round(drain, 4) for pattern, drain in drains.items()}
    columns = ("groups", "priority", "urgent done s", "speedup", "all done s", *SPENT)
    conditions = {"slots": SLOTS, "groups": GROUPS, "messages": GROUPS * each, "urgent": each, "work_s": WORK}
    title = "until the urgent messages and all are finished"
    return Findings(
        figures=figures, tables=[Table(title=title, columns=columns, rows=rows)], conditions=conditions
    )


if __name__ == "__main__":
    sys.exit(run("finish", measure, about="Time to finish the urgent messages of a backlog."))
