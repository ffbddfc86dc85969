"""The flow of calls to one lane: their number in flight, and pauses while SQS throttles it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from lanes.fault_codes import is_throttle
from lanes.retries import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.producer.outgoing import Refused

# The first pause is about a round trip to SQS. In a model with limits of 6 to 600 calls a second and one or four tasks,
# 50 ms send less where throttles are rare, 10 ms throttle more calls, and ten seconds at most leave a limit unused that
# tasks share.
PAUSES = RetryPolicy(backoff_base=timedelta(milliseconds=20), backoff_max=timedelta(seconds=1))


class CallFlow:
    """
    Limits the calls in flight, as TCP does: half at a failure, and one more after as many successes as there are calls.

    A throttle pauses the lane too. A pause doubles from one throttle to the next until SQS accepts a call. Calls that
    were in flight at a failure fail for the same reason, so they count once.

    Args:
        concurrency: maximum number of calls in flight.
        jitter: returns numbers from 0 to 1 that spread the pauses.
    """

    def __init__(self, concurrency: int, jitter: Callable[[], float]) -> None:
        self._calls = 0
        self.resumes_at = 0.0
        self._max_calls = self._allowed_calls = float(concurrency)
        self._jitter = jitter
        self._same_round = 0
        self._throttles = 0
        self._throttled_since: float | None = None

    def may_start(self, now: float) -> bool:
        """Whether a call may start now."""
        return now >= self.resumes_at and self._calls < int(self._allowed_calls)

    def next_due(self, retry: float | None, *, is_ready: bool) -> float | None:
        """Return the time of the next retry, or of the end of the pause that keeps ready messages back, if any."""
        # With a call in flight, its end may let them start.
        pause = self.resumes_at if is_ready and not self._calls else None
        return min((at for at in (retry, pause) if at is not None), default=None)

    def is_stuck(self, now: float, *, after: timedelta) -> bool:
        """Whether SQS has throttled all calls for that long."""
        since = self._throttled_since
        return since is not None and now - since >= after.total_seconds()

    def started(self) -> None:
        """Count a call that starts."""
        self._calls += 1

    def ended(self, now: float, refused: Sequence[Refused], *, accepted: bool) -> None:
        """Count a call that ended, by its refusals and whether SQS accepted a message of it."""
        self._calls -= 1
        known = self._same_round > 0
        self._same_round -= known
        if accepted:
            self._throttles, self._throttled_since = 0, None
        if not any(answer.retryable for answer in refused):
            self._allowed_calls = min(self._allowed_calls + 1 / self._allowed_calls, self._max_calls)
        elif not known:
            self._allowed_calls = max(self._allowed_calls / 2, 1.0)
            self._same_round = self._calls
            if any(is_throttle(answer.code) for answer in refused):
                self._pause(now)

    def _pause(self, now: float) -> None:
        self._throttles += 1
        if self._throttled_since is None:
            self._throttled_since = now
        self.resumes_at = now + PAUSES.delay(self._throttles, self._jitter())
