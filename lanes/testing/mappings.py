"""The event source mappings and the function behind them, one invocation after the other, under a test's clock."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
from collections import Counter, deque
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from lanes.consumer.handlers import Yielded
from lanes.mapping.answer import read_answer
from lanes.mapping.rules import MappingRules, handled, is_expired
from lanes.mapping.settings import MappingSettings
from lanes.testing.event import QUEUE_ARN, sqs_event
from lanes.testing.fifo.errors import FifoQueueError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from lanes.config import Lane, LanesConfig
    from lanes.consumer.consumer import Consumer
    from lanes.consumer.handlers import HandlerContext
    from lanes.mapping.rules import Batch
    from lanes.testing.clock import FakeClock
    from lanes.testing.fifo.message import ReceivedMessage
    from lanes.testing.fifo.queue import FifoQueue
    from lanes.testing.journal import Journal

INVOCATION = 0.02
"""Seconds of an invocation beside its handlers."""


class ProcessKilled(KeyboardInterrupt):
    """
    The process of the function ends here, as by Lambda's timeout or for want of memory; a handler may raise it.

    Not an `Exception`, so that a handler's own `except Exception` lets it pass.
    """


class KillableCalls:
    """
    The calls of one process: once it is killed, its calls have no effect.

    Before each call, other processes do `meanwhile`.
    """

    def __init__(self) -> None:
        self.killed = False
        self.meanwhile: Callable[[], None] = lambda: None

    def make(self, operation: str) -> contextlib.AbstractContextManager[None]:  # noqa: ARG002
        """Let the call pass, unless the process was killed."""
        if self.killed:
            raise ProcessKilled
        self.meanwhile()
        return contextlib.nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationContext:
    """Lambda's context, with a deadline on the test's clock."""

    clock: FakeClock
    aws_request_id: str
    deadline: float

    def get_remaining_time_in_millis(self) -> float:
        """Return the milliseconds until the function is ended."""
        return max(0.0, self.deadline - self.clock.now) * 1000


class Mappings:
    """
    Invokes the consumer with batches of the lanes.

    Each mapping follows the rules of `lanes.mapping`: it receives batches as soon as it can, whether a slot is free or
    not, up to its maximum concurrency. A free slot goes to the highest lane with a batch; AWS documents no order, and
    the consumer answers a wrong one with a yield. With several slots, other invocations run between two records of
    one, as they would beside it.

    Args:
        config: the lanes.
        queues: their queues, by name.
        clock: moved by every handler.
        journal: records failures and deletions.
        calls: those of the process that runs.
        handler_time: duration of one handler.
        new_environment: gives the consumer of a new process.

    """

    def __init__(
        self,
        *,
        config: LanesConfig,
        queues: Mapping[str, FifoQueue],
        clock: FakeClock,
        journal: Journal,
        calls: KillableCalls,
        handler_time: timedelta,
        new_environment: Callable[[], Consumer],
    ) -> None:
        self._config = config
        self._queues = queues
        self._clock = clock
        self._journal = journal
        self._calls = calls
        self._handler_time = handler_time.total_seconds()
        self._new_environment = new_environment
        self._warm: list[Consumer] = []
        self._deadlines: list[float] = []
        self._requests = itertools.count(1)
        self._rules = {lane.name: _rules(lane) for lane in config.lanes}
        self._waiting: dict[str, deque[Batch[ReceivedMessage]]] = {
            lane.name: deque() for lane in config.lanes
        }
        self._outside = contextvars.copy_context()
        calls.meanwhile = self._receive
        self.started: Counter[str] = Counter()
        self.invocations = 0

    def step(self) -> bool:
        """Run one invocation if a lane has work; return whether one ran."""
        self._outside = contextvars.copy_context()
        return self._invoke_next()

    def next_moment(self) -> float | None:
        """Return the next time at which a message becomes visible by itself; None if no message is hidden."""
        moments = [queue.next_event_at() for queue in self._queues.values()]
        return min((moment for moment in moments if moment is not None), default=None)

    def forget_environments(self) -> None:
        """Let the next invocations begin in new processes, as after a deployment."""
        self._warm.clear()

    def around(
        self, handler: Callable[[Any, HandlerContext], Any], argument: Any, context: HandlerContext
    ) -> Any:
        """Run one handler: it takes its time, its error is recorded, and other slots run beside it."""
        self.started[getattr(argument, "kind", "raw body")] += 1
        deadline = self._deadlines[-1]
        try:
            result = handler(argument, context)
        except ProcessKilled:
            self._calls.killed = True
            raise
        except (Yielded, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._take_time(deadline)
            self._journal.note_failed(
                context.message_id, lane=context.lane, attempt=context.attempt, error=error
            )
            raise
        self._take_time(deadline)
        self._run_beside()
        return result

    def _take_time(self, deadline: float) -> None:
        """Let the handler's time pass; the process is killed at the function's timeout."""
        self._clock.advance(self._handler_time)
        if self._clock.now > deadline:
            self._calls.killed = True
            raise ProcessKilled

    def _run_beside(self) -> None:
        """Let each free slot run one invocation."""
        for _ in range(self._config.consumer.reserved_concurrency - len(self._deadlines)):
            # Another process: the priority block of the paused handler does not apply to it.
            self._outside.copy().run(self._invoke_next)

    def _receive(self) -> None:
        """Let every mapping receive as much as it may."""
        for lane in self._config.lanes:
            rules, queue = self._rules[lane.name], self._queues[lane.name]
            while queue.is_receivable() and rules.start():
                messages = queue.receive(rules.settings.receive_size)
                self._waiting[lane.name].append(rules.take(messages, now=self._clock.now))

    def _drop_expired(self, lane: str) -> None:
        waiting = self._waiting[lane]
        while waiting and is_expired(waiting[0], now=self._clock.now):
            waiting.popleft()
            self._rules[lane].finish()

    def _invoke_next(self) -> bool:
        """Run one invocation for the highest lane with a batch; return whether there is one."""
        self._receive()
        for lane in self._config.lanes:
            self._drop_expired(lane.name)
            if self._waiting[lane.name]:
                self._invoke(lane)
                return True
        return False

    def _invoke(self, lane: Lane) -> None:
        consumer = self._warm.pop() if self._warm else self._new_environment()
        messages = self._waiting[lane.name].popleft().messages
        for message in messages:
            # Known already, unless the consumer itself sent it to this lane.
            self._journal.note_sent(
                lane.name, message.body, group=message.group, message_id=message.message_id
            )
        self.invocations += 1
        self._clock.advance(INVOCATION)
        deadline = self._clock.now + self._config.consumer.function_timeout.total_seconds()
        context = InvocationContext(
            clock=self._clock, aws_request_id=f"request-{next(self._requests)}", deadline=deadline
        )
        self._deadlines.append(deadline)
        try:
            answer = consumer.handle(sqs_event(QUEUE_ARN.format(lane.name), messages), context)
        except ProcessKilled:
            self._calls.killed = False
            return
        finally:
            self._deadlines.pop()
            self._rules[lane.name].finish()
        self._warm.append(consumer)
        verdict = read_answer(answer, message_ids=[message.message_id for message in messages])
        self._delete(self._queues[lane.name], handled(messages, verdict))

    def _delete(self, queue: FifoQueue, messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            # A receipt that is old by now belongs to a record that was received again.
            with contextlib.suppress(FifoQueueError):
                queue.delete(message.receipt_handle)
                self._journal.note_deleted(message.message_id)


def _rules(lane: Lane) -> MappingRules[ReceivedMessage]:
    settings = MappingSettings(
        batch_size=lane.batch_size, maximum_concurrency=lane.maximum_concurrency, reports_failures=True
    )
    # Nothing is throttled here, so chance decides nothing.
    return MappingRules(settings, visibility_timeout=lane.visibility_timeout, random=Random(0))  # noqa: S311
