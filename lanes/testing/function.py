"""The function in memory: the events it gets, its processes, and their invocations under a test's clock."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from lanes.consumer.calls import failures_in
from lanes.consumer.signals import Yielded, deciding, is_attempt
from lanes.errors import Unavailable
from lanes.mapping.event import sqs_record
from lanes.mapping.rules import handled, read_answer
from lanes.testing.calls import Calls, ProcessKilled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from lanes.config import ConsumerSettings
    from lanes.consumer import Consumer
    from lanes.consumer.handlers import HandlerContext, Registered
    from lanes.mapping.rules import Verdict
    from lanes.message import Message
    from lanes.testing.assertions import Journal
    from lanes.testing.clock import FakeClock
    from lanes.testing.fifo.message import ReceivedMessage


def _never() -> bool:
    return False


class InvocationContext:
    """
    Lambda's context.

    Args:
        clock: returns the time in epoch seconds.
        seconds: until the function is ended.
        request: the id of the invocation.
        is_cut_short: whether there is no time left already.

    """

    __slots__ = ("_is_cut_short", "aws_request_id", "clock", "deadline")

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        seconds: float,
        request: str,
        is_cut_short: Callable[[], bool] = _never,
    ) -> None:
        self.clock = clock
        self._is_cut_short = is_cut_short
        self.deadline = clock() + seconds
        self.aws_request_id = request

    def get_remaining_time_in_millis(self) -> float:
        """Return the milliseconds until the function is ended."""
        return 0.0 if self._is_cut_short() else max(0.0, self.deadline - self.clock()) * 1000


QUEUE_ARN = "arn:aws:sqs:eu-central-1:123456789012:{}.fifo"
SENDER_ID, SCHEDULER_ROLE_ID = "AIDASENDER", "AROASCHEDULER"
"""Ids of a user that sends, and of Scheduler's role."""


class ByScheduler(dict[str, Any]):
    """Attributes of a message that Scheduler sends."""


def sqs_event(queue: str, messages: Sequence[ReceivedMessage]) -> dict[str, Any]:
    """
    Return the Lambda event of a batch of a queue.

    AWS: attribute values are text, times milliseconds (Lambda developer guide, "Using Lambda with Amazon SQS").
    """
    return {"Records": [event_entry(queue, message) for message in messages]}


def event_entry(queue: str, message: ReceivedMessage) -> dict[str, Any]:
    """Return a message of a queue as one entry of `Records`."""
    return sqs_record(
        message_id=message.message_id,
        receipt_handle=message.receipt_handle,
        body=message.body,
        md5_of_body=hashlib.md5(message.body.encode(), usedforsecurity=False).hexdigest(),
        attributes=system_attributes(message),
        queue_arn=QUEUE_ARN.format(queue),
        # In a lane, attributes have the form of Lambda's event.
        message_attributes=message.attributes if isinstance(message.attributes, dict) else None,
    )


def system_attributes(message: ReceivedMessage) -> dict[str, str]:
    """Return the attributes that SQS itself gives a message."""
    return {
        "ApproximateReceiveCount": str(message.receive_count),
        "SentTimestamp": str(int(message.sent_at * 1000)),
        "ApproximateFirstReceiveTimestamp": str(int(message.first_received_at * 1000)),
        "MessageGroupId": message.group,
        "MessageDeduplicationId": message.deduplication_id,
        "SequenceNumber": str(message.sequence_number),
        "SenderId": f"{SCHEDULER_ROLE_ID}:session"
        if isinstance(message.attributes, ByScheduler)
        else SENDER_ID,
    }


def verdict_of(
    handle: Callable[[Mapping[str, Any], Any], Any],
    queue: str,
    messages: Sequence[ReceivedMessage],
    context: InvocationContext,
) -> Verdict:
    """Let a function handle a batch of a queue, and return the meaning of its answer."""
    answer = handle(sqs_event(queue, messages), context)
    return read_answer(answer, message_ids=[message.message_id for message in messages])


EntryPoint: TypeAlias = "Callable[[Any, Any], Any]"
"""A function as Lambda calls it: with the event and its context."""


@dataclass(frozen=True, slots=True)
class Environment:
    """
    One execution environment of a function.

    Attributes:
        consumer: handles its events.
        entry_point: called with them in place of the consumer if one is given.
        behind: the consumer that the entry point calls, whose place the other one takes.
    """

    consumer: Consumer
    entry_point: EntryPoint | None = None
    behind: Consumer | None = None

    def handle(self, event: Mapping[str, Any], context: Any) -> Any:
        """
        Handle an event and return the answer.

        Raises:
            TypeError: the entry point returned nothing.
        """
        if self.entry_point is None or self.behind is None:
            return self.consumer.handle(event, context)
        with self.behind.replaced_by(self.consumer):
            answer = self.entry_point(event, context)
        if answer is None:
            raise _dropped(self.entry_point)
        return answer


def _dropped(entry_point: EntryPoint) -> TypeError:
    name = getattr(entry_point, "__name__", repr(entry_point))
    return TypeError(
        f"{name} returned None in place of the consumer's answer; Lambda would delete every record, also those that "
        f"failed or yielded. Write `return consumer.handle(event, context)`, or `{name} = consumer.lambda_handler`"
    )


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
            verdict = verdict_of(environment.handle, queue, messages, context)
        except ProcessKilled:
            self._calls.killed = False
            return ()
        finally:
            self._deadlines.pop()
        self._warm.append(environment)
        return handled(messages, verdict)

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
