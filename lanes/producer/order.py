"""
The order and the batches in which the messages of one lane are sent, and the treatment of failed ones.

Pure decisions: no calls, no threads, time is passed in as a number.

The order of a group is certain because at most one message of it is in flight at any moment, also within one batch:
the next one is sent after SQS has accepted the one before. A batch call may refuse any of its entries, and the
documentation of SQS does not exclude that it refuses an earlier entry of a group and accepts a later one. The cost is
one call per message for long runs of a single group; batches fill up from different groups.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING

from lanes.errors import AwsError
from lanes.fault_codes import is_about_message, is_throttle
from lanes.producer.flow import CallFlow
from lanes.producer.outgoing import Accepted, Outgoing, Refused
from lanes.producer.report import BLOCKED, LANE_FAILED, SentMessage, UnsentMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lanes.retries import RetryPolicy

# AWS: ten entries and 1,048,576 bytes in all (API_SendMessageBatch).
MAX_ENTRIES = 10
MAX_BYTES = 1024 * 1024

UNANSWERED = Refused(code="Unanswered", reason="the answer of SQS does not contain it", retryable=True)


class SendOrder:
    """
    The unsent messages of one lane, group by group.

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
        self.lane = lane
        self.sent: dict[int, SentMessage] = {}
        self.unsent: dict[int, UnsentMessage] = {}
        self._policy = policy
        self._jitter = jitter
        self._flow = CallFlow(concurrency, jitter)
        self._stopped: tuple[str, str] | None = None
        self._groups: dict[str, deque[Outgoing]] = {}
        self._ready: list[tuple[int, Outgoing]] = []
        self._delayed: list[tuple[float, int, Outgoing]] = []
        for item in items:
            self._add(item)

    def next_batch(self, now: float) -> list[Outgoing]:
        """Return the messages of the next call, or none if no message may be sent now."""
        while self._delayed and self._delayed[0][0] <= now:
            _, index, item = heapq.heappop(self._delayed)
            heapq.heappush(self._ready, (index, item))
        if not self._flow.may_start(now):
            return []
        batch: list[Outgoing] = []
        free_bytes = MAX_BYTES
        while self._ready and len(batch) < MAX_ENTRIES:
            first = self._ready[0][1]
            # A message that does not fit ends the batch: smaller ones from behind it would delay it again and again.
            # One that fits into no batch is left to SQS to refuse, or it would hold up its lane for ever.
            if batch and (batch[0].alone or first.alone or first.size_bytes > free_bytes):
                break
            _, item = heapq.heappop(self._ready)
            item.first_tried_at = min(item.first_tried_at, now)
            item.attempts += 1
            free_bytes -= item.size_bytes
            batch.append(item)
        if batch:
            self._flow.started()
        return batch

    def next_due(self) -> float | None:
        """Return the time of the next retry or the end of a pause, or None."""
        retry = self._delayed[0][0] if self._delayed else None
        return self._flow.next_due(retry, is_ready=bool(self._ready))

    def settle(
        self, batch: Sequence[Outgoing], answers: Mapping[int, Accepted | Refused], now: float
    ) -> None:
        """Apply the answers of a call, by index of the message."""
        answered = [(item, answers.get(item.index, UNANSWERED)) for item in batch]
        refused = [answer for _, answer in answered if isinstance(answer, Refused)]
        self._flow.ended(now, refused, accepted=len(refused) < len(batch))
        # One for the call, so that its refused messages fall due together and fill one batch again.
        jitter = self._jitter()
        for item, answer in answered:
            if isinstance(answer, Accepted):
                self._accept(item, answer)
            else:
                item.maybe_sent |= answer is UNANSWERED
                self._refuse(item, answer, now, jitter)

    def settle_failure(self, batch: Sequence[Outgoing], error: BaseException, now: float) -> None:
        """
        Apply the failure of a whole call; a permanent one ends the lane, as the next call would fail too.

        Messages of a call that was refused for one of them are sent again, each alone.
        """
        aws = error if isinstance(error, AwsError) else None
        code = aws.code if aws else type(error).__name__
        retryable = aws is not None and aws.retryable
        is_own_fault = not retryable and is_about_message(code)
        if is_own_fault and len(batch) > 1 and self._stopped is None:
            self._separate(batch, now)
            return
        for item in batch:
            item.maybe_sent |= aws is None or not aws.answered
        # With one try, the caller decides when the lane is tried again.
        if not is_own_fault and (not retryable or self._policy.max_attempts == 1):
            # Before the answers are applied: they are final then, and no message of the batch is tried again.
            self.stop(LANE_FAILED, f"cannot send to the lane: {error}")
        refused = Refused(code=code, reason=str(error) or code, retryable=retryable, of_call=True)
        self.settle(batch, {item.index: refused for item in batch}, now)

    def _separate(self, batch: Sequence[Outgoing], now: float) -> None:
        self._flow.ended(now, (), accepted=False)
        for item in batch:
            # That did not try the others.
            item.attempts -= 1
            item.alone = True
            heapq.heappush(self._ready, (item.index, item))

    def stop(self, code: str, reason: str) -> None:
        """Start no more calls and report all waiting messages as unsent for this reason."""
        self._stopped = self._stopped or (code, reason)
        waiting = [item for _, item in self._ready] + [item for _, _, item in self._delayed]
        self._ready.clear()
        self._delayed.clear()
        for item in waiting:
            self._give_up(item, Refused(code=code, reason=reason, retryable=False, of_call=True))

    def _add(self, item: Outgoing) -> None:
        group = self._groups.setdefault(item.message.message_group_id, deque())
        group.append(item)
        if len(group) == 1:
            # By the index, so that groups take turns in the order of your list.
            heapq.heappush(self._ready, (item.index, item))

    def _accept(self, item: Outgoing, answer: Accepted) -> None:
        self.sent[item.index] = SentMessage(
            id=item.message.id,
            lane=self.lane,
            message_id=answer.message_id,
            sequence_number=answer.sequence_number,
        )
        group = self._groups[item.message.message_group_id]
        group.popleft()
        if not group:
            del self._groups[item.message.message_group_id]
        # The next one of the group begins only now, so no answer of SQS can put it first.
        elif self._stopped is None:
            heapq.heappush(self._ready, (group[0].index, group[0]))
        else:
            code, reason = self._stopped
            self._give_up(group[0], Refused(code=code, reason=reason, retryable=False, of_call=True))

    def _refuse(self, item: Outgoing, answer: Refused, now: float, jitter: float) -> None:
        throttled = is_throttle(answer.code)
        # SQS has not seen the message, so that did not try it.
        item.attempts -= throttled
        if not answer.retryable or self._stopped is not None or self._policy.is_spent(item, now):
            self._give_up(item, answer)
            return
        due = self._flow.resumes_at if throttled else now + self._policy.delay(item.attempts, jitter)
        heapq.heappush(self._delayed, (due, item.index, item))

    def _give_up(self, item: Outgoing, answer: Refused) -> None:
        """Report a message as unsent and the later ones of its group with it, so that none overtakes it."""
        self._report(item, answer)
        blocked = Refused(
            code=self._stopped[0] if self._stopped is not None else BLOCKED,
            reason=f"message {item.message.id} of its group comes first and was not sent: {answer.reason}",
            retryable=False,
            of_call=True,
        )
        for later in list(self._groups.pop(item.message.message_group_id, ()))[1:]:
            self._report(later, blocked)

    def _report(self, item: Outgoing, answer: Refused) -> None:
        tries = f" (after {item.attempts} tries)" if item.attempts > 1 else ""
        self.unsent[item.index] = UnsentMessage(
            message=item.message,
            lane=self.lane,
            reason=f"{answer.code}: {answer.reason}{tries}",
            code=answer.code,
            maybe_sent=item.maybe_sent,
            is_own_fault=answer.is_own_fault,
        )
