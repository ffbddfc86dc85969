"""
Find the cheapest settings that meet your targets under every plausible AWS behaviour.

Fewer slots come first, since your resource must tolerate them and your account reserve them. Among settings with as few
slots, the fewest dollars a day win. The same input gives the same search.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from .load import play
from .outcome import outcome_of
from .presentation import seconds
from .settings import Settings, alternatives, combined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.config import LanesConfig

    from .outcome import Outcome
    from .prices import Prices
    from .scenario import Scenario
    from .targets import Target

HOPELESS = 2.0
"""If a target is missed by a larger factor, no other setting is tried with this number of slots."""


class BudgetSpentError(Exception):
    """No more runs are allowed."""


@dataclasses.dataclass(slots=True)
class Trial:
    """
    One choice of settings, run over the range of the unknowns.

    Attributes:
        outcomes: by the name of the unknowns; incomplete if a target was missed.
        missed: the factor of the largest miss, its target and its unknowns; None if all targets held.

    """

    settings: Settings
    outcomes: dict[str, Outcome] = dataclasses.field(default_factory=dict)
    missed: tuple[float, Target, str] | None = None

    @property
    def worth(self) -> float:
        """Closeness to the targets: 1 if all hold, less for a larger miss."""
        return 1.0 if self.missed is None else 1 / self.missed[0]

    @property
    def dollars_a_day(self) -> float:
        """Highest cost under any of the unknowns."""
        return max(outcome.totals.dollars_a_day for outcome in self.outcomes.values())

    def worst(self, target: Target) -> tuple[float, str]:
        """Return the greatest value of a target's figure in seconds, and its unknowns."""
        return max((target.miss(outcome) * target.limit, name) for name, outcome in self.outcomes.items())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """
    The result of a search.

    Attributes:
        best: the cheapest settings that hold, or None.
        closest: if none hold, the ones with the smallest miss.
        trials: the settings tried, in their order.
        reason: why the search ended without settings, or before all were tried.
        runs: number of simulations.

    """

    config: LanesConfig
    targets: Sequence[Target]
    best: Trial | None
    closest: Trial | None
    runs: int
    trials: Sequence[Trial]
    reason: str = ""

    def text(self) -> str:
        """Return the settings as a part of lanes.toml with their evidence, or the reason why none hold."""
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
                    f"# Holds in {len(self.best.outcomes)} of {len(self.best.outcomes)} runs over undocumented AWS "
                    f"behaviour; {self.runs} runs in all."
                ),
                *evidence,
                f"# ${self.best.dollars_a_day:.2f} a day at most.",
                *([f"# {self.reason}"] if self.reason else []),
                self.best.settings.fragment(self.config),
            ]
        )

    def plain(self) -> dict[str, Any]:
        """Return the same as JSON-able data."""
        trial = self.best or self.closest
        return {
            "holds": self.best is not None,
            "reason": self.reason,
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
        lines = ["No settings hold.", *([self.reason] if self.reason else [])]
        if self.closest is not None and self.closest.missed is not None:
            times, target, name = self.closest.missed
            lines += [
                (
                    f"The binding target: {target}. It was {seconds(times * target.limit)} ({name}) with the closest "
                    f"settings:"
                ),
                self.closest.settings.fragment(self.config),
            ]
        return "\n".join(lines)


class Search:
    """
    Try settings, the fewest slots first.

    Args:
        scenario: the load.
        config: your lanes.
        targets: all of them must hold.
        budget: maximum number of runs.
        report: called with a line per trial.

    """

    def __init__(
        self,
        scenario: Scenario,
        config: LanesConfig,
        *,
        targets: Sequence[Target],
        prices: Prices,
        budget: int,
        report: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._scenario = scenario
        self._config = config
        self._targets = targets
        self._prices = prices
        self._budget = budget
        self._report_line = report
        self._unknowns = dict(scenario.variants)
        self._missed_under: dict[str, int] = dict.fromkeys(self._unknowns, 0)
        self._runs = 0
        self._closest: Trial | None = None
        self._trials: list[Trial] = []

    def run(self, *, max_slots: int) -> Answer:
        """Return the cheapest settings with at most this number of slots."""
        needed = self._scenario.slots_needed
        fewest = max(1, math.ceil(needed))
        if fewest > max_slots:
            return self._answer(
                None,
                f"The arrivals keep {needed:.1f} slots busy all the time; --max-slots allows {max_slots}.",
            )
        best: Trial | None = None
        try:
            for slots in range(fewest, max_slots + 1):
                holding = list(self._holding(slots))
                if holding:
                    best = min(holding, key=lambda trial: trial.dollars_a_day)
                    break
        except BudgetSpentError:
            return self._answer(
                best, f"The budget of {self._budget} runs was spent before all settings were tried."
            )
        return self._answer(best, "" if best else f"No settings hold with up to {max_slots} slots.")

    def _holding(self, slots: int) -> list[Trial]:
        """Return the trials at a number of slots that hold; the budget may end them after the first."""
        tried: list[Trial] = []
        try:
            tried.append(self._try(Settings(slots=slots)))
            best = tried[0]
            if best.worth < 1 / HOPELESS:
                return []
            for values in alternatives(slots, self._config):
                trials = [self._try(combined(best.settings, change)) for change in values]
                tried += trials
                best = max([best, *trials], key=lambda trial: (trial.worth, -trial.dollars_a_day))
        except BudgetSpentError:
            if not any(trial.missed is None for trial in tried):
                raise
        return [trial for trial in tried if trial.missed is None]

    def _try(self, settings: Settings) -> Trial:
        """Run over the unknowns, those with the most misses first, up to the first miss."""
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
        self._trials.append(trial)
        self._report(trial)
        return trial

    def _outcome(self, config: LanesConfig, name: str) -> Outcome:
        if self._runs >= self._budget:
            raise BudgetSpentError
        self._runs += 1
        lanes = play(self._scenario, config, unknowns=self._unknowns[name])
        return outcome_of(lanes, self._scenario, self._prices)

    def _report(self, trial: Trial) -> None:
        settings = trial.settings.description
        if trial.missed is None:
            self._report_line(f"run {self._runs}: holds, ${trial.dollars_a_day:.2f} a day: {settings}")
            return
        times, target, name = trial.missed
        if self._closest is None or self._closest.missed is None or times < self._closest.missed[0]:
            self._closest = trial
        missed = f"{target} missed, {seconds(times * target.limit)} ({name})"
        self._report_line(f"run {self._runs}: {missed}: {settings}")

    def _answer(self, best: Trial | None, reason: str) -> Answer:
        return Answer(
            config=self._config,
            targets=self._targets,
            best=best,
            closest=None if best else self._closest,
            runs=self._runs,
            trials=self._trials,
            reason=reason,
        )
