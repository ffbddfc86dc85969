"""
How often and for how long a message is tried, how a lane pauses in an outage, and which reports a log gets of it.

Pure: no calls, time and chance are passed in as numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Tried(Protocol):
    """A message with the number of its tries and the time of the first."""

    attempts: int
    first_tried_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """
    How often and for how long a producer tries to send a message.

    Attributes:
        max_attempts: maximum number of calls for one message; SQS refuses a throttled one unseen, so it does not count.
        backoff_base: maximum first delay; it doubles each time, and a delay is at least half of its maximum.
        backoff_max: maximum delay.
        give_up_after: time since the first try after which no new one begins.
    """

    # The pauses of ten tries add up to 43 s at most: longer outages than that are an error of `send_many`.
    max_attempts: int = 10
    backoff_base: timedelta = timedelta(milliseconds=200)
    backoff_max: timedelta = timedelta(seconds=10)
    # AWS: a repeat is dropped within five minutes (SQSDeveloperGuide/using-messagededuplicationid-property).
    # A later try could send a message twice if the first answer was lost.
    give_up_after: timedelta = timedelta(minutes=3)

    def is_spent(self, item: Tried, now: float) -> bool:
        """Check whether a message has no tries left."""
        waited = now - item.first_tried_at
        return item.attempts >= self.max_attempts or waited >= self.give_up_after.total_seconds()

    def delay(self, attempts: int, jitter: float) -> float:
        """Return the delay in seconds after a number of tries; jitter from 0 to 1."""
        bound = self.backoff_base.total_seconds() * 2.0 ** min(attempts - 1, 30)
        return min(bound, self.backoff_max.total_seconds()) * (0.5 + jitter / 2)


# The longest pause is the longest time that a lane stands still after its outage.
PAUSES = RetryPolicy(backoff_base=timedelta(milliseconds=100), backoff_max=timedelta(seconds=30))
REPORTED_EVERY = timedelta(minutes=1)
SILENCE = timedelta(minutes=10)
"""Time without a failure after which an outage is over: records that wait for its end return within less."""


@dataclass(slots=True)
class _Wait:
    failures: int
    until: float


class LanePauses:
    """
    The pauses of the lanes that can't be reached, throttle or refuse everybody.

    A pause doubles with each failure, up to a bound. From the second on, one entry is tried after it, the most urgent.

    Args:
        chance: returns numbers from 0 to 1 that spread the pauses.
        policy: the first pause and the bound.
        free: number of failures in a row without a pause.

    Attributes:
        waits: the lanes that have accepted nothing since their last failure.

    """

    def __init__(self, chance: Callable[[], float], policy: RetryPolicy = PAUSES, *, free: int = 0) -> None:
        self._chance = chance
        self._policy = policy
        self._free = free
        self.waits: dict[str, _Wait] = {}

    def is_paused(self, lane: str, now: float) -> bool:
        """Whether a lane waits for its next try."""
        wait = self.waits.get(lane)
        # A longer rest than any pause is from before the clock was set back.
        return wait is not None and 0 < wait.until - now <= self._policy.backoff_max.total_seconds()

    def limits(self, now: float) -> Mapping[str, int]:
        """Return how many entries may be claimed of each lane that fails: none in a pause, one after it."""
        paused = {lane: 0 for lane in self.waits if self.is_paused(lane, now)}
        return {lane: 1 for lane, wait in self.waits.items() if wait.failures > 1} | paused

    def failed(self, lane: str, now: float) -> int:
        """Note that a lane accepted nothing; return the number of failures in a row."""
        wait = self.waits.setdefault(lane, _Wait(0, now))
        wait.failures += 1
        if (pauses := wait.failures - self._free) > 0:
            wait.until = now + self._policy.delay(pauses, self._chance())
        return wait.failures

    def accepted(self, lane: str) -> None:
        """Note that a lane accepted a message."""
        self.waits.pop(lane, None)

    def resumes_at(self) -> float | None:
        """Return when the next lane is tried again; None if none waits."""
        return min((wait.until for wait in self.waits.values()), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """
    A report of an outage.

    Attributes:
        of: name of the lane, or of what else fails.
        cause: why it fails, such as `throttled`.
        reason: the last failure, for people.
        since: time of the first failure.
        failures: number of failures until now.
        error: the first failure, in the first report of an outage.
    """

    of: str
    cause: str
    reason: str
    since: float
    failures: int
    error: BaseException | None = None


@dataclass(slots=True)
class _Known:
    outage: Outage
    reported_at: float
    failed_at: float


class OutageLog:
    """
    Decides which failures to report: the first of an outage, then one a minute with a count.

    Args:
        over_after: time without a failure after which an outage is over although no success was noted.
    """

    def __init__(self, *, over_after: timedelta = timedelta.max) -> None:
        self._over_after = over_after.total_seconds()
        self._known: dict[str, _Known] = {}

    def failed(
        self, of: str, *, cause: str, reason: str, now: float, error: BaseException | None
    ) -> Outage | None:
        """Note a failure; return the report to write now, if any."""
        known = self._known.get(of)
        if known is None or now - known.failed_at >= self._over_after:
            first = Outage(of=of, cause=cause, reason=reason, since=now, failures=1)
            self._known[of] = _Known(first, now, now)
            # What is kept has no error: its traceback would keep the records of that moment.
            return replace(first, error=error)
        since, failures = known.outage.since, known.outage.failures + 1
        known.outage = Outage(of=of, cause=cause, reason=reason, since=since, failures=failures)
        known.failed_at = now
        # A report in the future is one from before the clock was set back.
        if 0 <= now - known.reported_at < REPORTED_EVERY.total_seconds():
            return None
        known.reported_at = now
        return known.outage

    def latest(self, of: str) -> Outage:
        """Return an outage as its last failure left it; one must be known."""
        return self._known[of].outage

    def ended(self, of: str) -> Outage | None:
        """Note a success; return the outage that it ends, if any."""
        known = self._known.pop(of, None)
        return None if known is None else known.outage
