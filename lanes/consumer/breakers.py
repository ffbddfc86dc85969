"""
Breakers: after a few calls in a row found their resource away, no record of it starts until a pause has ended.

Each environment judges by its own records, so no slot has to know of another.
"""

from __future__ import annotations

import dataclasses
import math
from collections import OrderedDict
from typing import TYPE_CHECKING

from lanes.consumer import telemetry as report
from lanes.consumer.signals import asked_delay, text_of
from lanes.metrics import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from lanes.config import Lane
    from lanes.consumer.telemetry import Telemetry
    from lanes.errors import Unavailable

# With one call in ten refused, three in a row are one in a thousand.
IN_A_ROW = 3
"""Calls in a row that find the resource away until its breaker opens."""

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"""Seconds of the first pause and of the longest; each is twice as long as the one before."""

LONGEST_ASKED = 15 * 60.0
"""Seconds of the longest pause that a handler may ask for: so soon is an outage noticed to be over."""

COMES_WITHIN = 5.0
"""Seconds after its return within which a record is received again, by its slot or another."""

LONGEST_SLEEP = 1.0
"""Seconds until a slot that waits for its resource looks again whether its process is to stop."""

REMEMBERED = 10_000
"""Messages that a breaker remembers."""

# With three, a resource that refuses half of its calls would make one attempt in three of them.
ENOUGH = 5
"""Calls of others that tell whether a message is to blame."""
SHARE = 0.8
"""Share of these calls that find the resource, if it is."""


@dataclasses.dataclass(slots=True, eq=False)
class Breaker:
    """
    One resource, as one environment finds it: closed, open for a pause, then half open for one try.

    Attributes:
        monotonic: returns seconds that no one sets back.
        clock: returns epoch seconds.
        failures: calls in a row that found it away.
        away_since: when the first of them did, in epoch seconds.

    """

    monotonic: Callable[[], float]
    clock: Callable[[], float]
    failures: int = 0
    away_since: float = 0.0
    _until: float = 0.0
    _told: set[str] = dataclasses.field(default_factory=set)
    _found: int = 0
    _refused: int = 0
    _since: OrderedDict[str, tuple[int, int]] = dataclasses.field(default_factory=OrderedDict)
    _comes_until: dict[int, float] = dataclasses.field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether enough calls in a row found the resource away: one record at a time starts, after each pause."""
        return self.failures >= IN_A_ROW

    @property
    def seconds_left(self) -> float:
        """The seconds until the next try; 0 if a record may start now."""
        return max(0.0, self._until - self.monotonic()) if self.is_open else 0.0

    def seconds_left_for(self, lane: Lane) -> float:
        """Return the seconds until a record of a lane may start: a record of a lane above that returns goes first."""
        if not self.is_open:
            return 0.0
        above = [until for position, until in self._comes_until.items() if position < lane.position]
        return max(0.0, max([self._until, *above]) - self.monotonic())

    def returns(self, lane: Lane, seconds: float) -> None:
        """Note that a record of a lane returns after so many seconds; a few messages alone don't have every try."""
        if len(self._told) > IN_A_ROW:
            self._comes_until[lane.position] = self.monotonic() + seconds + COMES_WITHIN

    def forgives(self, message_id: str) -> bool:
        """
        Whether a message that finds the resource away is not to blame, so that this is not an attempt.

        It is to blame if it said so before, and of the calls of others since then nearly all found the resource, the
        last one among them.
        """
        found, refused = self._since.pop(message_id, (self._found, self._refused))
        found, refused = self._found - found, self._refused - refused
        is_known = found + refused >= ENOUGH
        is_to_blame = is_known and not self.failures and found >= SHARE * (found + refused)
        if is_known:
            found = refused = 0
        # What it says now is not the call of another.
        self._since[message_id] = self._found - found, self._refused - refused + (not is_to_blame)
        if len(self._since) > REMEMBERED:
            self._since.popitem(last=False)
        return not is_to_blame

    def failed(self, message_ids: Collection[str], *, after: float | None = None, took: float = 0.0) -> float:
        """
        Note a call that found the resource away, and return the seconds after which its records return.

        `after` is the pause that the handler asked for, if it is more than none, `took` the length of the call. Where
        only a few messages said so, they stay away for as many tries: then another one is tried, and they can't make
        every try fail.
        """
        now = self.monotonic()
        if not self.failures:
            self.away_since = self.clock()
        self.failures += 1
        self._refused += len(message_ids)
        doublings = min(max(0, self.failures - IN_A_ROW), 10)
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**doublings)
        if after is not None and after > 0:
            pause = min(max(FIRST_PAUSE, after), LONGEST_ASKED)
        self._until = now + pause
        # A few more than decide: of an outage many messages tell.
        if len(self._told) <= IN_A_ROW:
            self._told.update(message_ids)
        few = len(self._told) if self.is_open and len(self._told) <= IN_A_ROW else 0
        shortest = max(1.0, math.floor(pause))
        return few * (shortest + took + COMES_WITHIN) if few else shortest

    def succeeded(self, message_id: str) -> None:
        """Note a record whose handler found the resource."""
        self._found += 1
        if self._since:
            self._since.pop(message_id, None)
        self.failures = 0
        self._told.clear()
        self._comes_until.clear()


class Breakers:
    """
    The breakers of one environment, by the names of their resources.

    Args:
        telemetry: receives each call after which a slot pauses for a resource, and that it is back.
        clock: returns epoch seconds.
        monotonic: returns seconds that no one sets back.
        sleep: lets seconds pass.

    Attributes:
        known: those of resources that were ever away.

    """

    def __init__(
        self,
        *,
        telemetry: Telemetry,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._sleep = sleep
        self._telemetry = telemetry
        self._clock = clock
        self._monotonic = monotonic
        self.known: dict[str, Breaker] = {}

    def is_open(self, resource: str) -> bool:
        """Whether a resource was away at the last calls, so that one record tries it."""
        breaker = self.known.get(resource)
        return breaker is not None and breaker.is_open

    def seconds_left(self, resource: str) -> float:
        """Return the seconds until a record of a resource may start; 0 if it may now."""
        breaker = self.known.get(resource)
        return 0.0 if breaker is None else breaker.seconds_left

    def seconds_left_for(self, lane: Lane, resource: str) -> float:
        """Return the seconds until a record of a lane may start; 0 if it may now."""
        breaker = self.known.get(resource)
        return 0.0 if breaker is None else breaker.seconds_left_for(lane)

    def returns(self, lane: Lane, resource: str, seconds: float) -> None:
        """Note that a record of a lane returns after so many seconds for a resource that is away."""
        if (breaker := self.known.get(resource)) is not None:
            breaker.returns(lane, seconds)

    def wait(self, pause: float, *, left: float) -> None:
        """Let a moment of a pause pass, at most the seconds that are left."""
        self._sleep(min(pause, left, LONGEST_SLEEP))

    @property
    def are_closed(self) -> bool:
        """Whether no resource is away."""
        return not any(one.is_open for one in self.known.values())

    def judge(
        self,
        lane: Lane,
        resource: str,
        *,
        found: Collection[str],
        away: Mapping[str, Unavailable],
        took: float,
    ) -> Mapping[str, float]:
        """
        Note a call of some seconds, by the SQS ids of the records that found the resource, and that say it is away.

        Return the records that are not to blame, with the seconds after which they return.
        """
        breaker = self.known.get(resource)
        if breaker is None:
            if not away:
                return {}
            breaker = self.known[resource] = Breaker(self._monotonic, self._clock)
        was_open, since = breaker.is_open, breaker.away_since
        for message_id in found:
            breaker.succeeded(message_id)
        if was_open and found:
            seconds = max(0.0, self._clock() - since)
            report.resource_back(self._telemetry, lane, resource, seconds=seconds)
        forgiven = {one: signal for one, signal in away.items() if breaker.forgives(one)}
        if not forgiven:
            return {}
        asked = [
            delay.total_seconds() for one in forgiven.values() if (delay := asked_delay(one)) is not None
        ]
        seconds = breaker.failed(list(forgiven), after=max(asked, default=None), took=took)
        self._telemetry.count(Metric.UNAVAILABLE, len(forgiven))
        if breaker.is_open:
            reason = text_of(next(iter(forgiven.values())))
            report.resource_away(
                self._telemetry,
                lane,
                resource,
                reason=reason,
                since=breaker.away_since,
                tries=breaker.failures,
                next_at=self._clock() + breaker.seconds_left,
            )
        return dict.fromkeys(forgiven, seconds)
