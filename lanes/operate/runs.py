"""Progress of runs: how many members have ended, exactly or from a sample of the chunks."""

from __future__ import annotations

import dataclasses
import math
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lanes.config.table import nearest
from lanes.errors import ConfigurationError
from lanes.runs import MEMBERS_PER_CHUNK, Counts, Head, State

if TYPE_CHECKING:
    from random import Random

    from lanes.runs import RunTable

# 80,000 members: twenty calls, and a share that is right to 0.35 %.
MOST_READ = 2_000
"""Chunks of a run that are all read; of a larger one so many at random, unless you ask for an exact reading."""

READ_TOGETHER = 100
RATE_SECONDS = 60.0
"""Seconds of the readings from which a rate is computed."""

ENOUGH = 2
CERTAIN = 0.98
"""Half the width of the 95 % interval of a share of one half, times the root of the number of members."""

RECENT = 30 * 86_400.0
"""Seconds within which a mistyped name is looked for."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """
    A reading of a run.

    Attributes:
        head: what the run is about.
        counts: its ends; from a sample, estimates that add up to the total.
        error: how far an estimate may be off, in members; 0 in an exact reading.
    """

    head: Head
    counts: Counts
    error: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether all chunks were read."""
        return self.error == 0

    @property
    def left(self) -> int | None:
        """Members without a recorded end; None before they are known."""
        return None if self.head.total is None else max(0, self.head.total - self.ended)

    @property
    def ended(self) -> int:
        """Members with a recorded end."""
        return self.counts.members - self.counts.left

    @property
    def is_over(self) -> bool:
        """Whether nothing more is awaited."""
        return self.head.state in (State.ENDED, State.CLOSED)

    @property
    def has_failed(self) -> bool:
        """Whether a run that is over has dead letters, or was closed with members left or before all were known."""
        return self.counts.dead_lettered > 0 or self.left != 0


class RunRate:
    """The rate of a run, from readings at times in epoch seconds; those older than a minute give way to newer ones."""

    def __init__(self) -> None:
        self._readings: list[tuple[float, int]] = []

    def add(self, at: float, ended: int) -> None:
        """Add the number of members that have ended at a time."""
        self._readings.append((at, ended))
        while len(self._readings) > ENOUGH and self._readings[1][0] <= at - RATE_SECONDS:
            del self._readings[0]

    @property
    def per_second(self) -> float | None:
        """Members that end in a second; None before that is known. In a sample they may seem to get fewer."""
        if len(self._readings) < ENOUGH:
            return None
        (since, before), (now, ended) = self._readings[0], self._readings[-1]
        return max(0, ended - before) / (now - since) if now > since else None

    def eta(self, left: int | None) -> float | None:
        """Return the seconds until none is left at this rate; None if that is not known."""
        return left / self.per_second if left is not None and self.per_second else None


def rate_so_far(reading: Progress, now: float) -> RunRate:
    """Return the rate of the whole time since a run was opened, up to its end or to a time in epoch seconds."""
    rate = RunRate()
    rate.add(reading.head.opened_at, 0)
    rate.add(reading.head.ended_at or now, reading.ended)
    return rate


def row_of(reading: Progress, rate: RunRate) -> dict[str, Any]:
    """
    Return a reading as command and page show it.

    `rate` is in members a second and `eta` in seconds; both are None where they are not known, as `total` and `left`
    are before all members are. `error` is how far the counts may be off.
    """
    counts, eta = reading.counts, rate.eta(reading.left)
    return {
        "run": reading.head.name,
        "state": reading.head.state.value,
        "total": reading.head.total,
        "done": counts.done,
        "dead_lettered": counts.dead_lettered,
        "cancelled": counts.cancelled,
        "expired": counts.expired,
        "left": reading.left,
        "rate": None if rate.per_second is None else round(rate.per_second, 3),
        "eta": None if reading.is_over or eta is None else round(eta),
        "exact": reading.is_exact,
        "error": reading.error,
        "strangers": counts.strangers + counts.unassigned,
    }


def find_run(table: RunTable, name: str) -> Head:
    """
    Return the head of a run.

    Raises:
        ConfigurationError: there is none of this name.
        AwsError: the table can't be read.
    """
    head = table.head(name)
    if head is None:
        recent = table.heads(since=time.time() - RECENT, limit=1000)
        known = nearest(name, [one.name for one in recent])
        problem = f"there is no run {name!r}{known}; list them with `lanes runs list --since 45d`"
        raise ConfigurationError([problem], source="runs")
    return head


def check_waiting(table: RunTable, name: str) -> None:
    """
    Check that members of a run may wait in lanes. Those of a closed run may: only its count has stopped.

    Raises:
        ConfigurationError: there is no such run, or it has ended.
        AwsError: the table can't be read.
    """
    head = find_run(table, name)
    if head.ended_at:
        ended = datetime.fromtimestamp(head.ended_at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        problem = (
            f"the run {name!r} ended at {ended}, so none of its messages waits. Select those that were redriven since "
            f"by their ids; `lanes dead-letters list --run {name}` lists its dead letters"
        )
        raise ConfigurationError([problem], source="runs")


def read_progress(table: RunTable, head: Head, *, random: Random, exact: bool = False) -> Progress:
    """Read the chunks of a run; raises `AwsError`."""
    if exact or head.chunks <= MOST_READ:
        return Progress(head=head, counts=_sum(table, head, range(head.chunks)))
    counts = _sum(table, head, sorted(random.sample(range(head.chunks), MOST_READ)))
    found = counts.members or counts.unassigned
    scale = head.total / counts.members if head.total and counts.members else head.chunks / MOST_READ
    estimate = Counts(
        **{name: math.floor(count * scale) for name, count in dataclasses.asdict(counts).items()}
    )
    whole = head.total or head.chunks * MEMBERS_PER_CHUNK
    return Progress(
        head=head, counts=estimate, error=max(1, math.ceil(whole * CERTAIN / math.sqrt(found or 1)))
    )


def _sum(table: RunTable, head: Head, indexes: range | list[int]) -> Counts:
    total = Counts()
    for start in range(0, len(indexes), READ_TOGETHER):
        for chunk in table.chunks(head.mark, indexes[start : start + READ_TOGETHER]):
            total += chunk.counts()
    return total
