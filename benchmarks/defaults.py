"""
What each default costs and spares beside other choices: `python -m benchmarks.defaults --json`.

One setting of `lanes.toml` at a time, at 1, 3 and 10 slots, throttled as by default and with the waiting room, under
the loads of `benchmarks.policies`. Figures are those of the choice over those of the default, as the geometric mean
over the loads. What is judged is that no choice beats its default both in the wait at the top and in the work done.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from typing import TYPE_CHECKING, Any

from benchmarks.choices import CHOICES, DELAYS, FAULTY, ROOMS, USUAL, Choice
from benchmarks.policies import LOADS, MARGIN, SECONDS, SLOTS, Played, played
from benchmarks.report import Findings, Table, run
from benchmarks.saturation import require_saturated
from benchmarks.scenarios import meet
from simulator.parameters import Unknowns, variants
from simulator.world import Pattern

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.scenarios import Load
    from simulator.world import SimulatedLanes

SCALE = 0.4
"""Share of the time that the comparison of policies takes for a load."""

COMPARED = "high_p50", "high_p99", "medium_p99", "work", "calls"

LEAST = 1e-3
"""Stands for a figure that is nothing, so that ratios can be taken."""

RANGE_SLOTS, RANGE_LOAD = 3, "bursts"
"""Where the range of what AWS leaves open is looked at."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """
    A choice at so many slots, over the default.

    Attributes:
        high_p50, high_p99, medium_p99, work, calls: geometric means over the loads.
        worst_p99: the same at the load where it is worst.

    """

    choice: Choice
    room: bool
    slots: int
    high_p50: float
    high_p99: float
    medium_p99: float
    work: float
    calls: float
    worst_p99: float

    @property
    def is_better(self) -> bool:
        """Whether it beats the default both at the top and in work."""
        return self.high_p99 < 1 - MARGIN and self.work > 1 + MARGIN

    @property
    def words(self) -> str:
        """Say what was tried where."""
        slots = f"{self.slots} slots" if self.slots > 1 else "1 slot"
        return f"{self.choice.setting} {self.choice.value}, {slots}{', waiting room' if self.room else ''}"


FIGURES = "high_p50", "high_p99", "worst_p99", "medium_p99", "work", "calls"


class Bench:
    """Plays choices under one seed; `scale` shortens the loads."""

    def __init__(self, *, seed: int, scale: float, unknowns: Unknowns | None = None) -> None:
        self._seed = seed
        self._scale = scale
        self._unknowns = unknowns or Unknowns()
        self._worked: dict[tuple[str, int], float] = {}
        self._usual: dict[tuple[str, int, bool], Played] = {}

    def tried(self, choice: Choice, *, slots: int, room: bool, loads: Sequence[str] | None = None) -> Tried:
        """
        Play a choice and its default.

        Raises:
            NotSaturatedError: a load left slots unused without priority.

        """
        found = [self._over_usual(choice, name, slots=slots, room=room) for name in loads or choice.loads]

        def mean(figure: str) -> float:
            return math.exp(sum(math.log(one[figure]) for one in found) / len(found))

        return Tried(
            choice=choice,
            room=room,
            slots=slots,
            **{figure: mean(figure) for figure in COMPARED},
            worst_p99=max(one["high_p99"] for one in found),
        )

    def _over_usual(self, choice: Choice, name: str, *, slots: int, room: bool) -> dict[str, float]:
        key = name, slots, room
        if key not in self._usual:
            self._usual[key] = self._played(USUAL, name, slots=slots, room=room)
        mine, usual = self._played(choice, name, slots=slots, room=room), self._usual[key]
        return {
            figure: (getattr(mine, figure) or LEAST) / (getattr(usual, figure) or LEAST)
            for figure in COMPARED
        }

    def _played(self, choice: Choice, name: str, *, slots: int, room: bool) -> Played:
        raw = choice.raw(slots, room=room)
        lanes = self._meet(name, Pattern.LANES, raw, slots=slots)
        return played(lanes, worked=self._worked_without(name, slots))

    def _worked_without(self, name: str, slots: int) -> float:
        """Return the seconds of work without priority."""
        if (name, slots) not in self._worked:
            lanes = self._meet(name, Pattern.NONE, {}, slots=slots)
            load = self._load(name, slots)
            # Under what AWS leaves open it is the same load, also where pollers come so late that slots stand empty.
            if self._unknowns == Unknowns():
                require_saturated(lanes, seconds=load.seconds, work=load.work)
            self._worked[name, slots] = lanes.meter.worked
        return self._worked[name, slots]

    def _meet(self, name: str, pattern: Pattern, raw: Mapping[str, Any], *, slots: int) -> SimulatedLanes:
        load = self._load(name, slots)
        return meet(load, slots=slots, pattern=pattern, raw=raw, unknowns=self._unknowns, seed=self._seed)

    def _load(self, name: str, slots: int) -> Load:
        load = FAULTY.get(name) or LOADS[name]
        return dataclasses.replace(
            load, seconds=load.seconds * SECONDS[slots] * self._scale, groups=20 * slots
        )


def measure(*, quick: bool, seed: int) -> Findings:
    """Try all choices, and the yield delays over the range of what AWS leaves open."""
    scale = 0.1 if quick else SCALE
    bench = Bench(seed=seed, scale=scale)
    tried = [
        bench.tried(choice, slots=slots, room=room)
        for room in ROOMS
        for choice in (CHOICES[::9] if quick else CHOICES)
        for slots in (SLOTS[:1] if quick else SLOTS)
        if room in choice.rooms and choice.differs(slots, room=room)
    ]
    ranges = {
        name: Bench(seed=seed, scale=scale, unknowns=one)
        for name, one in list(variants(Unknowns()).items())[: 2 if quick else None]
    }
    tables = [
        _table([one for one in tried if one.room is room], title=title)
        for room, title in (
            (False, "throttled: over the default"),
            (True, "with the waiting room: over the default"),
        )
    ]
    return Findings(
        figures={
            "better_in_both": len(better_everywhere(tried)),
            "better_everywhere": better_everywhere(tried),
            "better_somewhere": [one.words for one in tried if one.is_better],
        },
        tables=[*tables, _range_table(ranges, DELAYS[:1] if quick else DELAYS)],
        conditions={
            "seconds": SECONDS,
            "scale": SCALE,
            "loads": {name: dataclasses.asdict(load) for name, load in {**LOADS, **FAULTY}.items()},
        },
    )


def _table(tried: Sequence[Tried], *, title: str) -> Table:
    """Return a row for each choice, with a column for each figure at each number of slots."""
    all_slots = sorted({one.slots for one in tried})
    by_choice: dict[str, dict[int, Tried]] = {}
    for one in tried:
        by_choice.setdefault(f"{one.choice.setting} {one.choice.value}", {})[one.slots] = one
    return Table(
        title=f"{title}, at so many slots",
        columns=(
            "choice",
            *(f"{figure.replace('_', ' ')}, {slots}" for figure in FIGURES for slots in all_slots),
        ),
        rows=[
            (words, *(getattr(some.get(slots), figure, None) for figure in FIGURES for slots in all_slots))
            for words, some in by_choice.items()
        ],
    )


def _range_table(benches: Mapping[str, Bench], delays: Sequence[Choice]) -> Table:
    """Return a row for each thing that AWS leaves open, with columns for each yield delay."""
    others = [choice for choice in delays if choice.differs(RANGE_SLOTS, room=False)]
    found = {
        name: [bench.tried(choice, slots=RANGE_SLOTS, room=False, loads=(RANGE_LOAD,)) for choice in others]
        for name, bench in benches.items()
    }
    return Table(
        title=f"throttled: yield delays at {RANGE_SLOTS} slots under {RANGE_LOAD}, over what AWS leaves open",
        columns=("what", *(f"{words}, {one.value}" for one in others for words in ("high p99", "work"))),
        rows=[
            (name, *(figure for one in some for figure in (one.high_p99, one.work)))
            for name, some in found.items()
        ],
    )


def better_everywhere(tried: Sequence[Tried]) -> list[str]:
    """
    Return the choices that beat their default both at the top and in work, at each number of slots.

    Where a choice is the default, it does not beat it.
    """
    by_choice: dict[str, list[Tried]] = {}
    for one in tried:
        words = f"{one.choice.setting} {one.choice.value}{', waiting room' if one.room else ''}"
        by_choice.setdefault(words, []).append(one)
    return [words for words, some in by_choice.items() if sum(one.is_better for one in some) == len(SLOTS)]


if __name__ == "__main__":
    sys.exit(run("defaults", measure, about="What each default costs and spares beside other choices."))
