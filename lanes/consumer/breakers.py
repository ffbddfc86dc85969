"""
Breakers: when three different messages in a row find their resource away, none starts until a pause has ended.

Each environment judges by its own records, so no slot has to know of another.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from lanes.consumer import telemetry as report
from lanes.consumer.signals import asked_delay, text_of
from lanes.metrics import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from lanes.config import Lane
    from lanes.consumer.ledger import Entry
    from lanes.consumer.telemetry import Telemetry
    from lanes.errors import Unavailable

# With one call in ten refused, three in a row are one in a thousand.
IN_A_ROW = 3
"""Different messages in a row that find the resource away until its breaker opens."""

SHORTEST, LONGEST = 1.0, 15 * 60.0
"""Bounds, in seconds, of the pause that a handler may ask for, and of the time that a message stays away alone."""

LONGEST_PAUSE = 60.0
"""Seconds of the longest pause that no handler asked for; each is twice as long as the one before."""

# With all of it, one call in ten refused costs 40 % more time instead of 10 %; with half of it, a fifth of the groups
# that is away for good takes a sixth of the calls instead of an eighth (docs/decisions.md#when-the-resource-is-away).
AGAIN_AFTER = 0.75
"""Share of the time for which a message had been away when it last said so, after which it is tried again."""

EARLY, IN_TURN = 6, 4
"""The pauses that grow; the tries of which one is by a message that has not said so, once they don't."""

GIVES_WAY = 2.0
"""Seconds after a pause for which messages that have said so leave the try to one that has not."""

TRIED_WITHIN = 5
"""Seconds within which several slots, whose pauses end together, have made their tries."""

MOST_PASSED, MOST_FULL = 10, 3
"""Batches that leave a try to others, at most, and full ones of them: those that fail are the oldest of their lane."""

LONGEST_SLEEP = 1.0
"""Seconds until a slot that waits for its resource looks again whether its process is to stop."""

REPORTED_EVERY = 60.0
"""Seconds between two reports of how long a resource has been away."""


class Away(NamedTuple):
    """How a message stays away: for so many seconds; since when, in epoch seconds; and whether others are handled."""

    seconds: float
    since: float
    is_alone: bool


@dataclasses.dataclass(slots=True, eq=False)
class Breaker:
    """
    One resource, as one environment finds it: closed, open for a pause, then half open for one try.

    Attributes:
        monotonic: returns seconds that no one sets back.
        clock: returns epoch seconds.
        since: when the first of the calls in a row found it away, in epoch seconds.
        tries: calls in a row that found it away.
        found_at: when a call found it last, in epoch seconds.
        pauses: pauses since then.
        passed: batches of lower lanes that have left the next try to other messages.
        is_left: whether the highest lane has left it, with only messages that have said so.
        reported_at: when its time was reported last, in seconds of `monotonic`.

    """

    monotonic: Callable[[], float]
    clock: Callable[[], float]
    since: float = 0.0
    tries: int = 0
    found_at: float = 0.0
    pauses: int = 0
    passed: int = 0
    is_left: bool = False
    reported_at: float = float("-inf")
    _until: float = 0.0
    _told: set[str] = dataclasses.field(default_factory=set)

    @property
    def is_open(self) -> bool:
        """Whether enough messages in a row found the resource away: one record at a time starts, after each pause."""
        return self.pauses > 0

    @property
    def seconds_left(self) -> float:
        """The seconds until the next try; 0 if a record may start now."""
        return max(0.0, self._until - self.monotonic()) if self.is_open else 0.0

    @property
    def is_early(self) -> bool:
        """Whether the pauses still grow: it may be a part of the resource that is away."""
        return self.pauses <= EARLY

    @property
    def is_for_others(self) -> bool:
        """
        Whether the next try is for a message that has not said so: every second one at first, later every fourth.

        A few messages that always say so must not have every try.
        """
        return self.is_open and (
            self.pauses % 2 == 1 if self.is_early else self.pauses % IN_TURN == IN_TURN - 1
        )

    @property
    def waits_for_others(self) -> bool:
        """Whether messages that have said so leave the try to others: only for a moment, as none may wait."""
        is_over = self.passed >= MOST_PASSED or self.monotonic() > self._until + GIVES_WAY
        return self.is_for_others and not is_over

    def found(self) -> None:
        """Note a call that found the resource."""
        self.found_at = self.clock()
        self.tries = self.pauses = self.passed = 0
        self.is_left = False
        self._told.clear()

    def failed(self, away: Mapping[str, Entry], *, asked: float) -> dict[str, Away]:
        """Note a call that found it away, with the entries of its records by id, and return how each stays away."""
        now, was_open, told = self.clock(), self.is_open, set(self._told)
        alone = {one for one, entry in away.items() if not was_open and 0 < entry.away_since < self.found_at}
        if len(alone) < len(away):
            self._count(away.keys() - alone, asked=asked)
        found = {}
        for one, entry in away.items():
            # None of the others was handled meanwhile, so that its time begins again.
            is_first = not entry.away_since or was_open or one in told
            since = now if is_first else entry.away_since
            # To the last time that it said so: since then it may have waited in its lane for something else.
            waited = AGAIN_AFTER * (entry.noted_at - since) if one in alone else now - self.since
            seconds = min(max(SHORTEST, asked, waited), LONGEST)
            found[one] = Away(
                seconds if one in alone or not self.is_open else self.seconds_left, since, one in alone
            )
        return found

    def _count(self, message_ids: Collection[str], *, asked: float) -> None:
        """Count a call that found it away; begin the next pause if they are enough."""
        if not self._told:
            self.since = self.clock()
        self.tries += 1
        self.passed, self.is_left = 0, False
        if len(self._told) < IN_A_ROW:
            self._told.update(message_ids)
        if len(self._told) >= IN_A_ROW:
            pause = min(LONGEST_PAUSE, SHORTEST * 2.0 ** min(self.pauses, EARLY))
            self.pauses += 1
            self._until = self.monotonic() + (min(max(SHORTEST, asked), LONGEST) if asked > 0 else pause)


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

    def open(self, resource: str) -> Breaker | None:
        """Return the breaker of a resource that was away at the last calls, so that one record tries it."""
        breaker = self.known.get(resource)
        if breaker is None or not breaker.is_open:
            return None
        now = self._monotonic()
        # By time, not at each try: a pause may be longer than the period of an alarm.
        if now - breaker.reported_at >= REPORTED_EVERY:
            breaker.reported_at = now
            self._report_time(breaker.since)
        return breaker

    def _report_time(self, since: float) -> None:
        self._telemetry.milliseconds(Metric.AWAY, max(0.0, self._clock() - since) * 1000)

    def wait(self, pause: float, *, left: float) -> None:
        """Let a moment of a pause pass, at most the seconds that are left."""
        self._sleep(min(pause, left, LONGEST_SLEEP))

    def judge(
        self,
        lane: Lane,
        resource: str,
        *,
        found: bool,
        away: Mapping[str, tuple[Entry, Unavailable]],
    ) -> Mapping[str, Away]:
        """Note whether a call found its resource, and the records that say it is away; return how they stay away."""
        breaker = self.known.get(resource)
        if breaker is None:
            if not away:
                return {}
            breaker = self.known[resource] = Breaker(self._monotonic, self._clock)
        if found:
            if breaker.is_open:
                seconds = max(0.0, self._clock() - breaker.since)
                report.resource_back(self._telemetry, lane, resource, seconds=seconds)
            breaker.found()
        if not away:
            return {}
        asked = max(delay.total_seconds() if (delay := asked_delay(one)) else 0.0 for _, one in away.values())
        ways = breaker.failed({one: entry for one, (entry, _) in away.items()}, asked=asked)
        self._telemetry.count(Metric.UNAVAILABLE, len(away))
        if alone := [way.since for way in ways.values() if way.is_alone]:
            self._report_time(min(alone))
        if breaker.is_open:
            report.resource_away(
                self._telemetry,
                lane,
                resource,
                reason=text_of(next(iter(away.values()))[1]),
                since=breaker.since,
                tries=breaker.tries,
                next_at=self._clock() + breaker.seconds_left,
            )
        return ways
