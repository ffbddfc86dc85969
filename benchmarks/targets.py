"""What each benchmark is held to: the one place where the limits stand."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """
    A limit of one figure: a number that it may not pass, or the value that it must have.

    Attributes:
        figure: name of the figure in the benchmark's JSON object.
        least: the figure is at least this.
        most: the figure is at most this.
        exactly: the figure is this.

    """

    figure: str
    least: float | None = None
    most: float | None = None
    exactly: bool | int | None = None

    def is_held_by(self, value: Any) -> bool:
        """Whether a figure keeps the limit; one that could not be taken (None) does not."""
        if value is None:
            return False
        if self.exactly is not None:
            return bool(value == self.exactly)
        above = self.least is None or value >= self.least
        return bool(above and (self.most is None or value <= self.most))

    def __str__(self) -> str:
        if self.exactly is not None:
            return str(self.exactly).lower()
        return f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"


TARGETS: Mapping[str, tuple[Target, ...]] = {
    "wait": (
        Target(figure="deep_over_shallow_p50", most=1.05),
        Target(figure="p99_over_plain", most=1.25),
        Target(figure="drain_over_none", most=1.15),
    ),
    "finish": (
        Target(figure="speedup_of_ideal_one_group", least=0.9),
        Target(figure="speedup_of_ideal_five_groups", least=0.9),
        Target(figure="drain_ratio", most=1.01),
        Target(figure="speedup_of_ideal_one_group_waiting_room", least=0.9),
        Target(figure="speedup_of_ideal_five_groups_waiting_room", least=0.9),
        Target(figure="drain_ratio_waiting_room", most=1.01),
    ),
    "idle": (
        Target(figure="busy_over_none", least=0.95),
        Target(figure="yield_time_share", most=0.02),
    ),
    "purity": (
        Target(figure="healthy_dead_lettered", exactly=0),
        Target(figure="failed_attempts_exact", exactly=True),
        Target(figure="lost", exactly=0),
        Target(figure="order_kept", exactly=True),
    ),
    "bounded": (
        Target(figure="max_wait_held", exactly=True),
        Target(figure="reserve_share", most=0.06),
        Target(figure="max_wait_held_waiting_room", exactly=True),
        Target(figure="reserve_share_waiting_room", most=0.06),
    ),
    "calls": (),
    "policies": (Target(figure="better_in_both", exactly=0),),
    "defaults": (Target(figure="better_in_both", exactly=0),),
    "overhead": (
        Target(figure="us_per_record_batch_1", most=60),
        Target(figure="us_per_record_batch_10", most=20),
    ),
    "scale": (
        Target(figure="flatness", most=1.1),
        Target(figure="flatness_under_trickle", most=1.1),
        Target(figure="flatness_under_trickle_waiting_room", most=1.1),
    ),
    "soak": (Target(figure="breaches", exactly=0),),
    "enqueue": (
        Target(figure="ratio_to_boto3_batch", least=3),
        Target(figure="ratio_to_tutorial_loop", least=25),
    ),
    "outbox": (
        Target(figure="claim_cost_ratio_100k_over_100", most=1.05),
        Target(figure="claim_rows_ratio_100k_over_100_postgresql", most=1.05),
    ),
}


def verdicts(benchmark: str, figures: Mapping[str, Any]) -> dict[str, bool]:
    """Return for each target of a benchmark whether its figure holds it."""
    return {
        target.figure: target.is_held_by(figures.get(target.figure)) for target in TARGETS.get(benchmark, ())
    }
