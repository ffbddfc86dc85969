"""Targets of a plan: limits on the waits of lanes."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from lanes.config.table import nearest, parse_duration
from lanes.errors import ConfigurationError

from .presentation import seconds

if TYPE_CHECKING:
    from lanes.config import LanesConfig

    from .outcome import Outcome

FORM = re.compile(r"\s*(?P<lane>\S+)\s+(?P<figure>\S+)\s*<=?\s*(?P<limit>\S+)\s*")
FIGURES = {"p50": "p50", "p90": "p90", "p99": "p99", "max": "longest", "standstill": "standstill"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A lane's figure and its limit in seconds."""

    lane: str
    figure: str
    limit: float

    def miss(self, outcome: Outcome) -> float:
        """Return the figure over its limit: the target holds up to 1."""
        return float(getattr(outcome.lane(self.lane), FIGURES[self.figure])) / self.limit

    def __str__(self) -> str:
        return f"{self.lane} {self.figure} < {seconds(self.limit)}"


def parse_target(text: str, config: LanesConfig) -> Target:
    """
    Read "HIGH p99 < 2s".

    Raises:
        ConfigurationError: lists all problems.

    """
    source = f"--target {text!r}"
    match = FORM.fullmatch(text)
    if match is None:
        raise ConfigurationError(['write a target such as "HIGH p99 < 2s"'], source=source)
    problems = []
    names = {lane.name.casefold(): lane.name for lane in config.lanes}
    lane = names.get(match["lane"].casefold())
    if lane is None:
        problems.append(f"unknown lane {match['lane']!r}{nearest(match['lane'].upper(), names.values())}")
    if match["figure"] not in FIGURES:
        problems.append(f"unknown figure {match['figure']!r}{nearest(match['figure'], FIGURES)}")
    limit = parse_duration(match["limit"])
    if limit is None or not limit:
        problems.append(f"{match['limit']!r} is not a duration; write 500ms, 2s or 5m")
    if problems:
        raise ConfigurationError(problems, source=source)
    assert lane is not None and limit is not None  # noqa: PT018, S101 - for the type checker
    return Target(lane=lane, figure=match["figure"], limit=limit.total_seconds())
