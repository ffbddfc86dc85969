"""The targets of all benchmarks."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """
    The limit of one figure: a minimum, a maximum, or an exact value.

    Attributes:
        figure: name of the figure in the benchmark's JSON object.
        at_least: minimum.
        at_most: maximum.
        exactly: the only allowed value.

    """

    figure: str
    at_least: float | None = None
    at_most: float | None = None
    exactly: bool | int | None = None

    def is_held_by(self, value: Any) -> bool:
        """Whether a figure is within the limit; a missing one (None) is not."""
        if value is None:
            return False
        if self.exactly is not None:
            return bool(value == self.exactly)
        above = self.at_least is None or value >= self.at_least
        return bool(above and (self.at_most is None or value <= self.at_most))

    def __str__(self) -> str:
        if self.exactly is not None:
            return str(self.exactly).lower()
        return f"at least {self.at_least:g}" if self.at_least is not None else f"at most {self.at_most:g}"


TARGETS: Mapping[str, tuple[Target, ...]] = {
    "wait": (
        # The measured 1.19, 1.89, 3.31 and 1.25, and a tenth more.
        Target(figure="deep_over_shallow_p50", at_most=1.31),
        Target(figure="p99_over_plain", at_most=2.1),
        Target(figure="p99_over_plain_any_depth", at_most=3.6),
        Target(figure="drain_over_none", at_most=1.38),
    ),
    "finish": (
        Target(figure="speedup_of_ideal_one_group", at_least=0.9),
        Target(figure="speedup_of_ideal_five_groups", at_least=0.9),
        Target(figure="drain_ratio", at_most=1.01),
    ),
    "idle": (
        # The measured 0.706 and 0.091, and a tenth less or more.
        Target(figure="busy_over_none", at_least=0.64),
        Target(figure="yield_time_share", at_most=0.1),
    ),
    "purity": (
        Target(figure="healthy_dead_lettered", exactly=0),
        Target(figure="failed_attempts_exact", exactly=True),
        Target(figure="lost", exactly=0),
        Target(figure="order_kept", exactly=True),
    ),
    "bounded": (
        Target(figure="max_wait_held", exactly=True),
        Target(figure="reserve_share", at_most=0.06),
    ),
    "calls": (),
    "overhead": (
        Target(figure="us_per_record_batch_1", at_most=60),
        Target(figure="us_per_record_batch_10", at_most=30),
    ),
    "scale": (
        Target(figure="flatness", at_most=1.1),
        Target(figure="flatness_under_trickle", at_most=1.1),
    ),
    "soak": (Target(figure="breaches", exactly=0),),
    "enqueue": (
        Target(figure="ratio_to_boto3_batch", at_least=3),
        Target(figure="ratio_to_tutorial_loop", at_least=25),
    ),
    "outbox": (
        Target(figure="claim_cost_ratio_100k_over_100", at_most=1.05),
        Target(figure="claim_rows_ratio_100k_over_100_postgresql", at_most=1.05),
    ),
}


def verdicts(benchmark: str, figures: Mapping[str, Any]) -> dict[str, bool]:
    """Return for each target of a benchmark whether it holds."""
    return {
        target.figure: target.is_held_by(figures.get(target.figure)) for target in TARGETS.get(benchmark, ())
    }
