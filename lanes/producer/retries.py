"""How often and for how long a message is tried, as pure decisions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol


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
