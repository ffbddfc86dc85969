"""
The order and the batches in which the messages of one lane are sent, and the treatment of failed ones.

`LaneOrder` serves every sender, also one that adds rows of a table while it sends; `SendOrder` is that of a producer,
which reports each message.

Pure decisions: no calls, no threads, time is passed in as a number.

The order of a group is certain because at most one message of it is in flight at any moment, also within one batch:
the next one is sent after SQS has accepted the one before. A batch call may refuse any of its entries, and the
documentation of SQS does not exclude that it refuses an earlier entry of a group and accepts a later one. The cost is
one call per message for long runs of a single group; batches fill up from different groups.
"""

from __future__ import annotations

import heapq
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from lanes.errors import AwsError
from lanes.fault_codes import is_about_message, is_throttle
from lanes.producer.outgoing import (
    BLOCKED,
    LANE_FAILED,
    UNANSWERED,
    Accepted,
    Outgoing,
    Refused,
    SentMessage,
    UnsentMessage,
)
from lanes.retries import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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


class Sendable(Protocol):
    """A message to send, with the state of its tries."""

    attempts: int
    first_tried_at: float
    alone: bool

    @property
    def index(self) -> int:
        """Its place among all of its sender."""

    @property
    def size_bytes(self) -> int:
        """Its size in a call."""

    @property
    def message_group_id(self) -> str:
        """Its group."""


T = TypeVar("T", bound=Sendable)

# AWS: ten entries and 1,048,576 bytes in all (API_SendMessageBatch).
MAX_ENTRIES = 10
MAX_BYTES = 1024 * 1024

# Of one lane in the memory of a sender that adds messages while it sends.
MAX_HELD = 2_000
MAX_HELD_BYTES = 16 * MAX_BYTES


class LaneOrder(Generic[T]):
    """
    The unsent messages of one lane, group by group.

    Args:
        lane: name of the lane.
        concurrency: maximum number of calls in flight.
        policy: decides about retries.
        jitter: returns numbers from 0 to 1.
        ordered: whether groups have an order; else a call may have several messages of one.
    """

    def __init__(
        self,
        lane: str,
        *,
        concurrency: int,
        policy: RetryPolicy,
        jitter: Callable[[], float],
        ordered: bool = True,
    ) -> None:
        self.lane = lane
        self._policy = policy
        self._jitter = jitter
        self._ordered = ordered
        self._flow = CallFlow(concurrency, jitter)
        self._groups: dict[str, deque[T]] = {}
        self._ready: list[tuple[int, T]] = []
        # Tried before, so SQS may have them although no answer said so.
        self._repeats: list[tuple[int, T]] = []
        self._delayed: list[tuple[float, int, T]] = []
        self._held = self._held_bytes = 0

    @property
    def is_empty(self) -> bool:
        """Whether all messages have left."""
        return self._held == 0

    @property
    def is_full(self) -> bool:
        """Whether no more should be added for now."""
        return self._held >= MAX_HELD or self._held_bytes >= MAX_HELD_BYTES

    @property
    def has_batch(self) -> bool:
        """Whether a full batch is ready."""
        return len(self._ready) >= MAX_ENTRIES

    def add(self, item: T) -> None:
        """Add a message; indexes ascend."""
        self._held += 1
        self._held_bytes += item.size_bytes
        if self._ordered:
            group = self._groups.setdefault(item.message_group_id, deque())
            group.append(item)
            if len(group) > 1:
                return
        # By the index, so that groups take turns in the order of their messages.
        heapq.heappush(self._ready, (item.index, item))

    def next_batch(
        self, now: float, *, max_entries: int = MAX_ENTRIES, only_repeats: bool = False
    ) -> list[T]:
        """Return the messages of the next call, tried before or never, or none if no message may be sent now."""
        while self._delayed and self._delayed[0][0] <= now:
            _, _, item = heapq.heappop(self._delayed)
            self._make_ready(item)
        if not self._flow.may_start(now):
            return []
        batch: list[T] = []
        free_bytes = MAX_BYTES
        ready = self._repeats if self._repeats or only_repeats else self._ready
        while ready and len(batch) < max_entries:
            first = ready[0][1]
            # A message that does not fit ends the batch: smaller ones from behind it would delay it again and again.
            # One that fits into no batch is left to SQS to refuse, or it would hold up its lane for ever.
            if batch and (batch[0].alone or first.alone or first.size_bytes > free_bytes):
                break
            _, item = heapq.heappop(ready)
            free_bytes -= item.size_bytes
            batch.append(item)
        return batch

    def start(self, batch: list[T], now: float) -> list[T]:
        """Count the call of a batch, and return the messages that it has to carry."""
        for item in batch:
            # Throttled tries sent nothing, so their time does not count.
            if item.attempts == 0:
                item.first_tried_at = now
            item.attempts += 1
        self._flow.started()
        return batch

    def next_due(self, *, only_repeats: bool = False) -> float | None:
        """Return the time of the next retry or the end of a pause, or None."""
        retry = self._delayed[0][0] if self._delayed else None
        is_ready = bool(self._repeats) or bool(self._ready and not only_repeats)
        return self._flow.next_due(retry, is_ready=is_ready)

    def settle(self, batch: Sequence[T], answers: Sequence[Accepted | Refused], now: float) -> list[T]:
        """Apply the answers of a call, by place, and return the messages that are in the queue."""
        refused = [answer for answer in answers if isinstance(answer, Refused)]
        self._flow.ended(now, refused, accepted=len(refused) < len(batch))
        # One for the call, so that its refused messages fall due together and fill one batch again.
        jitter = self._jitter()
        accepted = []
        for item, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Accepted):
                accepted.append(item)
                self._accept(item, answer)
            else:
                self._refuse(item, answer, now, jitter)
        return accepted

    def settle_failure(self, batch: Sequence[T], error: BaseException, now: float) -> None:
        """
        Apply the failure of a whole call.

        Messages of a call that was refused for one of them are sent again, each alone.
        """
        aws = error if isinstance(error, AwsError) else None
        code = aws.code if aws else type(error).__name__
        retryable = aws is not None and aws.retryable
        if not retryable and is_about_message(code) and len(batch) > 1 and not self.is_stopped:
            self._separate(batch, now)
            return
        self._fail_call(batch, error)
        refused = Refused(code=code, reason=str(error) or code, retryable=retryable, of_call=True)
        self.settle(batch, [refused] * len(batch), now)

    @property
    def is_stopped(self) -> bool:
        """Whether no more calls start."""
        return False

    def _separate(self, batch: Sequence[T], now: float) -> None:
        self._flow.ended(now, (), accepted=False)
        for item in batch:
            # That did not try the others.
            item.attempts -= 1
            item.alone = True
            self._make_ready(item)

    def _make_ready(self, item: T) -> None:
        heapq.heappush(self._repeats if item.attempts else self._ready, (item.index, item))

    def _fail_call(self, batch: Sequence[T], error: BaseException) -> None:
        """Take note of the failure of a whole call, before its answers are applied."""

    def _accept(self, item: T, answer: Accepted) -> None:  # noqa: ARG002 - for reports
        self._leave(item)

    def _refuse(self, item: T, answer: Refused, now: float, jitter: float) -> None:
        throttled = is_throttle(answer.code)
        # SQS has not seen the message, so that did not try it.
        item.attempts -= throttled
        stuck = throttled and self._flow.is_stuck(now, after=self._policy.give_up_after)
        if not answer.retryable or self.is_stopped or stuck or self._policy.is_spent(item, now):
            self._give_up(item, answer)
            return
        due = self._flow.resumes_at if throttled else now + self._policy.delay(item.attempts, jitter)
        heapq.heappush(self._delayed, (due, item.index, item))

    def _give_up(self, item: T, answer: Refused) -> None:
        raise NotImplementedError

    def _leave(self, item: T) -> None:
        """Let a message leave; the next one of its group begins only now, so no answer of SQS can put it first."""
        self._held -= 1
        self._held_bytes -= item.size_bytes
        if not self._ordered:
            return
        group = self._groups[item.message_group_id]
        group.popleft()
        if group:
            self._begin(group[0])
        else:
            del self._groups[item.message_group_id]

    def _begin(self, item: T) -> None:
        self._make_ready(item)


class SendOrder(LaneOrder[Outgoing]):
    """
    The messages of a producer in one lane, and a report of each.

    Args:
        lane: name of the lane.
        items: the messages in the order given.
        concurrency: maximum number of calls in flight.
        policy: decides about retries.
        jitter: returns numbers from 0 to 1.
    """

    def __init__(
        self,
        lane: str,
        items: Iterable[Outgoing],
        *,
        concurrency: int,
        policy: RetryPolicy,
        jitter: Callable[[], float],
    ) -> None:
        super().__init__(lane, concurrency=concurrency, policy=policy, jitter=jitter)
        self.sent: dict[int, SentMessage] = {}
        self.unsent: dict[int, UnsentMessage] = {}
        self._stopped: tuple[str, str] | None = None
        for item in items:
            self.add(item)

    @property
    def is_stopped(self) -> bool:
        """Whether no more calls start."""
        return self._stopped is not None

    def stop(self, code: str, reason: str) -> None:
        """Start no more calls and report all waiting messages as unsent for this reason."""
        self._stopped = self._stopped or (code, reason)
        waiting = [item for _, item in self._ready + self._repeats]
        waiting += [item for _, _, item in self._delayed]
        self._ready.clear()
        self._repeats.clear()
        self._delayed.clear()
        for item in waiting:
            self._give_up(item, Refused(code=code, reason=reason, retryable=False, of_call=True))

    def _fail_call(self, batch: Sequence[Outgoing], error: BaseException) -> None:
        """Stop after a permanent failure, as the next call would fail too."""
        aws = error if isinstance(error, AwsError) else None
        retryable = aws is not None and aws.retryable
        for item in batch:
            item.maybe_sent |= aws is None or not aws.answered
        is_own_fault = not retryable and aws is not None and is_about_message(aws.code)
        # With one try, the caller decides when the lane is tried again.
        if not is_own_fault and (not retryable or self._policy.max_attempts == 1):
            # Before the answers are applied: they are final then, and no message of the batch is tried again.
            self.stop(LANE_FAILED, f"cannot send to the lane: {error}")

    def _accept(self, item: Outgoing, answer: Accepted) -> None:
        self.sent[item.index] = SentMessage(
            id=item.message.id,
            lane=self.lane,
            message_id=answer.message_id,
            sequence_number=answer.sequence_number,
        )
        self._leave(item)

    def _begin(self, item: Outgoing) -> None:
        if self._stopped is None:
            super()._begin(item)
        else:
            code, reason = self._stopped
            self._give_up(item, Refused(code=code, reason=reason, retryable=False, of_call=True))

    def _refuse(self, item: Outgoing, answer: Refused, now: float, jitter: float) -> None:
        item.maybe_sent |= answer is UNANSWERED
        super()._refuse(item, answer, now, jitter)

    def _give_up(self, item: Outgoing, answer: Refused) -> None:
        """Report a message as unsent and the later ones of its group with it, so that none overtakes it."""
        self._report(item, answer)
        blocked = Refused(
            code=self._stopped[0] if self._stopped is not None else BLOCKED,
            reason=f"message {item.message.id} of its group comes first and was not sent: {answer.reason}",
            retryable=False,
            of_call=True,
        )
        for later in list(self._groups.pop(item.message_group_id, ()))[1:]:
            self._report(later, blocked)

    def _report(self, item: Outgoing, answer: Refused) -> None:
        self._held -= 1
        self._held_bytes -= item.size_bytes
        tries = f" (after {item.attempts} tries)" if item.attempts > 1 else ""
        self.unsent[item.index] = UnsentMessage(
            message=item.message,
            lane=self.lane,
            reason=f"{answer.code}: {answer.reason}{tries}",
            code=answer.code,
            maybe_sent=item.maybe_sent,
            is_own_fault=answer.is_own_fault,
        )
