"""
The search for the cheapest settings under which targets hold, whatever AWS does where it documents nothing.

Slots are counted first, since they are what the resource behind bears and what stands reserved; among settings with as
few slots the one with the least dollars a day wins. The order of the search depends on nothing but its input.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from .load import play
from .outcome import outcome_of
from .parameters import variants
from .presentation import seconds
from .settings import Settings, alternatives, combined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.config import LanesConfig
    from lanes.operate.prices import Prices

    from .outcome import Outcome
    from .scenario import Scenario
    from .targets import Target

HOPELESS = 2.0
"""Where a target is missed by more, with and without a waiting room, nothing else is tried with as many slots."""


class BudgetSpentError(Exception):
    """No more runs are allowed."""


@dataclasses.dataclass(slots=True)
class Trial:
    """
    One choice of settings over the range of the unknowns.

    Attributes:
        outcomes: by the name of the unknowns; not all of them where a target was missed.
        missed: the target that was missed most, by how much, and under which unknowns; None where all held.

    """

    settings: Settings
    outcomes: dict[str, Outcome] = dataclasses.field(default_factory=dict)
    missed: tuple[float, Target, str] | None = None

    @property
    def worth(self) -> float:
        """How far the targets hold: 1 where all do, less the more one is missed."""
        return 1.0 if self.missed is None else 1 / self.missed[0]

    @property
    def dollars_a_day(self) -> float:
        """The most that it cost under any of the unknowns."""
        return max(outcome.totals.dollars_a_day for outcome in self.outcomes.values())

    def worst(self, target: Target) -> tuple[float, str]:
        """Return the greatest value of a target's figure in seconds, and under which unknowns it was."""
        return max((target.miss(outcome) * target.limit, name) for name, outcome in self.outcomes.items())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """
    What the search found.

    Attributes:
        best: the cheapest that holds, or None.
        closest: where none holds, the one that missed least.
        why: why the search ended without one, or before all was tried.
        runs: how many simulations it took.

    """

    config: LanesConfig
    targets: Sequence[Target]
    best: Trial | None
    closest: Trial | None
    runs: int
    why: str = ""

    def text(self) -> str:
        """Return the settings as a part of lanes.toml and what speaks for them, or what stood in the way."""
        if self.best is None:
            return self._nothing()
        evidence = [
            f"# {target}: {seconds(value)} at worst ({name})"
            for target in self.targets
            for value, name in [self.best.worst(target)]
        ]
        return "\n".join(
            [
                (
                    f"# Holds in {len(self.best.outcomes)} of {len(self.best.outcomes)} runs over what AWS "
                    f"does not document; {self.runs} runs in all."
                ),
                *evidence,
                f"# ${self.best.dollars_a_day:.2f} a day at most.",
                *([f"# {self.why}"] if self.why else []),
                self.best.settings.fragment(self.config),
            ]
        )

    def plain(self) -> dict[str, Any]:
        """Return the same as JSON-able data."""
        trial = self.best or self.closest
        return {
            "holds": self.best is not None,
            "why": self.why,
            "runs": self.runs,
            "settings": None if trial is None else trial.settings.fragment(self.config),
            "dollars_a_day": None if self.best is None else self.best.dollars_a_day,
            "targets": [
                {
                    "target": str(target),
                    "seconds": None if trial is None else trial.worst(target)[0],
                    "under": None if trial is None else trial.worst(target)[1],
                }
                for target in self.targets
            ],
        }

    def _nothing(self) -> str:
        lines = ["Nothing holds.", *([self.why] if self.why else [])]
        if self.closest is not None and self.closest.missed is not None:
            times, target, name = self.closest.missed
            lines += [
                (
                    f"The target that binds: {target}. It was {seconds(times * target.limit)} ({name}) with the "
                    f"settings that came closest:"
                ),
                self.closest.settings.fragment(self.config),
            ]
        return "\n".join(lines)


class Search:
    """
    Tries settings, the fewest slots first.

    Args:
        scenario: the load.
        config: the lanes as they are.
        targets: what has to hold.
        budget: the most runs.
        tell: is told what is tried.

    """

    def __init__(
        self,
        scenario: Scenario,
        config: LanesConfig,
        *,
        targets: Sequence[Target],
        prices: Prices,
        budget: int,
        tell: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._scenario = scenario
        self._config = config
        self._targets = targets
        self._prices = prices
        self._budget = budget
        self._tell = tell
        self._unknowns = dict(variants(scenario.unknowns))
        self._missed_under: dict[str, int] = dict.fromkeys(self._unknowns, 0)
        self._runs = 0
        self._closest: Trial | None = None

    def run(self, *, most_slots: int) -> Answer:
        """Return the cheapest settings with at most so many slots."""
        needed = self._scenario.slots_needed
        least = max(1, math.ceil(needed))
        if least > most_slots:
            return self._answer(
                None,
                f"What arrives keeps {needed:.1f} slots busy all the time; only {most_slots} may be used.",
            )
        best: Trial | None = None
        try:
            for slots in range(least, most_slots + 1):
                holding = list(self._holding(slots))
                if holding:
                    best = min(holding, key=lambda trial: trial.dollars_a_day)
                    break
        except BudgetSpentError:
            return self._answer(best, f"The budget of {self._budget} runs was spent before all was tried.")
        return self._answer(best, "" if best else f"No settings hold with up to {most_slots} slots.")

    def _holding(self, slots: int) -> list[Trial]:
        """Return the trials at a number of slots that hold; the budget may end them after the first."""
        tried: list[Trial] = []
        try:
            tried.append(self._try(Settings(slots=slots)))
            best = tried[0]
            for place, values in enumerate(alternatives(slots, self._config)):
                trials = [self._try(combined(best.settings, change)) for change in values]
                tried += trials
                best = max([best, *trials], key=lambda trial: (trial.worth, -trial.dollars_a_day))
                if place == 0 and best.worth < 1 / HOPELESS:
                    return []
        except BudgetSpentError:
            if not any(trial.missed is None for trial in tried):
                raise
        return [trial for trial in tried if trial.missed is None]

    def _try(self, settings: Settings) -> Trial:
        """Run over the unknowns, those under which most was missed first, up to the first miss."""
        trial = Trial(settings)
        config = settings.apply(self._config)
        for name in sorted(self._unknowns, key=lambda name: -self._missed_under[name]):
            outcome = self._outcome(config, name)
            trial.outcomes[name] = outcome
            miss, target = max(((one.miss(outcome), one) for one in self._targets), key=lambda pair: pair[0])
            if miss > 1:
                trial.missed = (miss, target, name)
                self._missed_under[name] += 1
                break
        self._report(trial)
        return trial

    def _outcome(self, config: LanesConfig, name: str) -> Outcome:
        if self._runs >= self._budget:
            raise BudgetSpentError
        self._runs += 1
        lanes = play(self._scenario, config, unknowns=self._unknowns[name])
        return outcome_of(lanes, self._scenario, self._prices)

    def _report(self, trial: Trial) -> None:
        words = trial.settings.words
        if trial.missed is None:
            self._tell(f"run {self._runs}: holds, ${trial.dollars_a_day:.2f} a day: {words}")
            return
        times, target, name = trial.missed
        if self._closest is None or self._closest.missed is None or times < self._closest.missed[0]:
            self._closest = trial
        self._tell(f"run {self._runs}: {target} missed, {seconds(times * target.limit)} ({name}): {words}")

    def _answer(self, best: Trial | None, why: str) -> Answer:
        return Answer(
            config=self._config,
            targets=self._targets,
            best=best,
            closest=None if best else self._closest,
            runs=self._runs,
            why=why,
        )
