"""The function in memory: its processes and their invocations, under a test's clock."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

from lanes.consumer.calls import failures_in
from lanes.consumer.signals import Yielded, deciding, is_attempt
from lanes.errors import Unavailable
from lanes.mapping.answer import read_answer
from lanes.mapping.rules import handled
from lanes.testing.calls import Calls, ProcessKilled
from lanes.testing.event import InvocationContext, sqs_event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from lanes.config import ConsumerSettings
    from lanes.consumer.handlers import HandlerContext, Registered
    from lanes.message import Message
    from lanes.testing.clock import FakeClock
    from lanes.testing.entry_point import Environment
    from lanes.testing.fifo.message import ReceivedMessage
    from lanes.testing.journal import Journal

INVOCATION = 0.02
"""Seconds of an invocation beside its handlers."""


class Invocations:
    """
    Invokes the consumer, in as many processes as run at once.

    Args:
        settings: of the consumer.
        clock: moved by every handler.
        journal: records failures.
        calls: those of the process that runs.
        handler_time: duration of one handler.
        new_environment: gives a new process.

    Attributes:
        running: number of invocations at this moment.
        started: handler starts by kind.
        total: number of invocations so far.
        after_handler: called after each handler that succeeds.
        away: the resources that are away; the handlers that need one raise `Unavailable` in place of their work.

    """

    def __init__(
        self,
        *,
        settings: ConsumerSettings,
        clock: FakeClock,
        journal: Journal,
        calls: Calls,
        handler_time: timedelta,
        new_environment: Callable[[], Environment],
    ) -> None:
        self._timeout = settings.function_timeout.total_seconds()
        self._clock = clock
        self._journal = journal
        self._calls = calls
        self._handler_time = handler_time.total_seconds()
        self._new_environment = new_environment
        self._warm: list[Environment] = []
        self._deadlines: list[float] = []
        self._requests = itertools.count(1)
        self._is_handling = False
        self.started: Counter[str] = Counter()
        self.total = 0
        self.after_handler: Callable[[], None] = lambda: None
        self.away: set[str] = set()

    @property
    def running(self) -> int:
        """Number of invocations at this moment."""
        return len(self._deadlines)

    def forget_environments(self) -> None:
        """Let the next invocations begin in new processes, as after a deployment."""
        self._warm.clear()

    def invoke(
        self, queue: str, messages: Sequence[ReceivedMessage], *, until: Callable[[], bool] = lambda: False
    ) -> Sequence[ReceivedMessage]:
        """
        Run the consumer on a batch of a queue; return the messages that are to be deleted.

        As soon as `until` holds between two handlers, the consumer sees that its time is over.
        """
        environment = self._warm.pop() if self._warm else self._new_environment()
        self.total += 1
        self._clock.advance(INVOCATION)
        context = InvocationContext(
            self._clock,
            seconds=self._timeout,
            request=f"request-{next(self._requests)}",
            is_cut_short=lambda: not self._is_handling and until(),
        )
        self._deadlines.append(context.deadline)
        try:
            answer = environment.handle(sqs_event(queue, messages), context)
        except ProcessKilled:
            self._calls.killed = False
            return ()
        finally:
            self._deadlines.pop()
        self._warm.append(environment)
        return handled(
            messages, read_answer(answer, message_ids=[message.message_id for message in messages])
        )

    def around(self, handler: Registered, argument: Any, context: HandlerContext) -> Any:
        """Run one handler: it takes its time, its error is recorded, and other slots run beside it."""
        if handler.resource in self.away:
            raise Unavailable(reason="away in this test")
        # Its own list: the handler may take messages out of the other.
        messages = list(argument) if isinstance(argument, list) else [argument]
        self.started.update(getattr(one, "kind", "raw body") for one in messages)
        deadline, began = self._deadlines[-1], self._clock.now
        self._is_handling = True
        try:
            result = handler(argument, context)
        except BaseException as raised:
            error = deciding(raised, unavailable=handler.unavailable)
            if isinstance(error, Yielded | KeyboardInterrupt):
                self._calls.killed |= isinstance(error, ProcessKilled)
                raise
            self._take_time(began, deadline)
            for message_id in context.message_ids or [context.message_id]:
                self._note_failed(message_id, context, error)
            raise
        finally:
            self._is_handling = False
        self._take_time(began, deadline)
        if context.message_ids:
            self._note_answer(handler, result, messages, context)
        self.after_handler()
        return result

    def _note_answer(
        self, handler: Registered, answer: Any, messages: Sequence[Message], context: HandlerContext
    ) -> None:
        """Record the failures that a batch handler returned; the consumer refuses a wrong answer by itself."""
        try:
            failures = failures_in(answer, messages)
        except (TypeError, ValueError) as refused:
            failures = dict.fromkeys((message.id for message in messages), refused)
        for message_id, message in zip(context.message_ids, messages, strict=True):
            if (failure := failures.get(message.id)) is not None:
                error = deciding(failure, unavailable=handler.unavailable)
                self._note_failed(message_id, context, error)

    def _note_failed(self, message_id: str, context: HandlerContext, error: BaseException) -> None:
        if isinstance(error, Unavailable) or not is_attempt(error):
            return
        self._journal.note_failed(message_id, lane=context.lane, attempt=context.attempt, error=error)

    def _take_time(self, began: float, deadline: float) -> None:
        """Let a handler's time pass unless it moved the clock; the process is killed at the function's timeout."""
        if self._clock.now == began:
            self._clock.advance(self._handler_time)
        if self._clock.now > deadline:
            self._calls.killed = True
            raise ProcessKilled
