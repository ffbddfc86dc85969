"""Progress of runs: how many members have ended, exactly or from a sample of the chunks."""

from __future__ import annotations

import dataclasses
import math
import time
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

from lanes.config.table import nearest
from lanes.errors import ConfigurationError
from lanes.runs import COUNTS, Counts, End, Head, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lanes.runs import Chunk, RunTable

# 80,000 members: twenty calls, and a share of one half that is right to 0.35 % of the total.
MOST_READ = 2_000
"""Chunks of a run that are all read; of a larger one so many at random, unless you ask for an exact reading."""

READ_TOGETHER = 100
RATE_SECONDS = 60.0
"""Seconds of the readings from which a rate is computed."""

ENOUGH = 2
CERTAIN = 1.96
"""Half the width of a 95 % interval, in standard deviations."""

UNSEEN = 3
"""A sample without an end of some kind leaves so many of them possible in its place, with 95 %: exp(-3) is 5 %."""

RECENT = 30 * 86_400.0
"""Seconds within which a mistyped name is looked for."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """
    A reading of a run.

    Attributes:
        head: what the run is about.
        counts: its ends; of a large run estimates.
        errors: how far each of them is off at most, in 95 of 100 runs; zeros in an exact reading.
    """

    head: Head
    counts: Counts
    errors: Counts = dataclasses.field(default_factory=Counts)

    @property
    def is_exact(self) -> bool:
        """Whether the counts are those of all members."""
        return self.errors == Counts()

    @property
    def left(self) -> int | None:
        """Members without a recorded end; None before they are known."""
        return None if self.head.total is None else max(0, self.head.total - self.ended)

    @property
    def ended(self) -> int:
        """Members with a recorded end."""
        return self.counts.ended

    @property
    def is_over(self) -> bool:
        """Whether nothing more is awaited."""
        return self.head.state in (State.ENDED, State.CLOSED)

    @property
    def has_failed(self) -> bool:
        """
        Whether a run that is over has dead letters, or was closed with members left or before all were known.

        A large run that has ended counts as failed while its dead letters may be dead.
        """
        if self.head.state is State.CLOSED and not self.is_exact:
            return True
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
    are before all members are. `errors` has how far each count may be off; all are 0 where `exact` is true.
    """
    counts, errors, eta = reading.counts, reading.errors, rate.eta(reading.left)
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
        "strangers": counts.strangers + counts.unassigned,
        "errors": {
            **{name: getattr(errors, name) for name in (*(end.value for end in End), "left")},
            "strangers": errors.strangers + errors.unassigned,
        },
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


def read_progress(table: RunTable, head: Head, *, exact: bool = False) -> Progress:
    """
    Read how far a run is: exactly if it is small or you ask for it, and otherwise with errors.

    The chunks of a sample follow from the run's name. Every reading has the same ones, so that one after the other can
    be compared, and a hash has spread the members over the chunks, so that none is a better choice. A large run that
    has ended is not read at all: its head has the counts of its end, and a redrive since can only have moved those
    members that were not done.

    Raises:
        AwsError: the table can't be read.
    """
    if exact or head.chunks <= MOST_READ:
        counts = sum((chunk.counts() for chunk in _read(table, head, range(head.chunks))), Counts())
        return Progress(head=head, counts=counts)
    if head.final is not None:
        moved = head.final.ended - head.final.done
        errors = Counts(**dict.fromkeys((end.value for end in End), moved))
        return Progress(head=head, counts=head.final, errors=errors)
    chosen = Random(head.name).sample(range(head.chunks), MOST_READ)  # noqa: S311 - a sample
    sample = [chunk.counts() for chunk in _read(table, head, sorted(chosen))]
    # A chunk without an item has no end and is not sealed.
    sample += [Counts()] * (MOST_READ - len(sample))
    return _estimate(head, sample)


def _estimate(head: Head, sample: list[Counts]) -> Progress:
    """
    Estimate the counts of a run, and their errors, from those of some of its chunks.

    Once all chunks are sealed by the share of the members, whose total is known, and before by that of the chunks
    (Cochran, Sampling Techniques, 2.4 and 6.3: the mean and the ratio of a simple random sample).
    """
    weights, whole = [one.members for one in sample], head.total or 0
    if not head.sealed_at or not any(weights):
        weights, whole = [1] * len(sample), head.chunks
    drawn = sum(weights)
    scale, unread = whole / drawn, 1 - len(sample) / head.chunks
    found, errors = {}, {}
    for name in COUNTS:
        # What is left is the total without the ends, so it is as uncertain as they are.
        values = [one.ended if name == "left" else getattr(one, name) for one in sample]
        share = sum(values) / drawn
        spread = math.sqrt(
            unread * sum((value - share * weight) ** 2 for value, weight in zip(values, weights, strict=True))
        )
        found[name] = math.floor(sum(getattr(one, name) for one in sample) * scale)
        errors[name] = math.ceil(scale * (CERTAIN * spread + UNSEEN))
    return Progress(head=head, counts=Counts(**found), errors=Counts(**errors))


def _read(table: RunTable, head: Head, indexes: Sequence[int]) -> Iterator[Chunk]:
    for start in range(0, len(indexes), READ_TOGETHER):
        yield from table.chunks(head.mark, indexes[start : start + READ_TOGETHER])
