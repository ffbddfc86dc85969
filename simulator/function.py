"""The function in virtual time: reserved concurrency, environments that stay warm, crashes and timeouts."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from lanes.config import Lane
    from lanes.testing.fifo.message import ReceivedMessage
    from simulator.kernel import Kernel
    from simulator.parameters import Unknowns


@dataclasses.dataclass(slots=True)
class InvocationContext:
    """Lambda's context, on virtual time."""

    kernel: Kernel
    aws_request_id: str
    deadline: float

    def get_remaining_time_in_millis(self) -> float:
        """Return the milliseconds until the function is ended."""
        return max(0.0, self.deadline - self.kernel.now) * 1000


@dataclasses.dataclass(slots=True)
class Environment:
    """One execution environment: a consumer and the time it has worked."""

    handle: Callable[[Mapping[str, Any], InvocationContext], Mapping[str, Any]]
    cold: bool = True


@dataclasses.dataclass(slots=True)
class SlotTimes:
    """Seconds of slot time by what they were used for."""

    invoked: float = 0.0
    invocations: int = 0
    only_yielded: float = 0.0


class SimulatedFunction:
    """
    A function with reserved concurrency.

    AWS: an invocation over the reserved concurrency is refused, a warm environment is reused, and takes one
    invocation at a time (Lambda developer guide, "Reserved concurrency", "Execution environment").

    Args:
        slots: reserved concurrency.
        timeout: seconds after which an invocation is killed, with its environment.
        make_handle: gives the handler of a new environment.
        queue_arn: gives the ARN of a lane's queue.

    """

    def __init__(
        self,
        *,
        slots: int,
        timeout: float,
        make_handle: Callable[[], Callable[[Mapping[str, Any], InvocationContext], Mapping[str, Any]]],
        queue_arn: Callable[[str], str],
        kernel: Kernel,
        unknowns: Unknowns,
        chance: Random,
    ) -> None:
        self._slots = slots
        self._timeout = timeout
        self._make_handle = make_handle
        self._queue_arn = queue_arn
        self._kernel = kernel
        self._unknowns = unknowns
        self._chance = chance
        self._warm: list[Environment] = []
        self._running = 0
        self.times = SlotTimes()

    @property
    def free(self) -> int:
        """Slots that nobody holds."""
        return self._slots - self._running

    def invoke(
        self, lane: Lane, messages: Sequence[ReceivedMessage], done: Callable[[set[str] | None], None]
    ) -> bool:
        """Start an invocation unless all slots are taken; return whether it started."""
        if self._running >= self._slots:
            return False
        self._running += 1
        environment = self._warm.pop() if self._warm else Environment(self._make_handle())
        self._kernel.spawn(lambda: self._run(environment, lane, messages, done))
        return True

    def _run(
        self,
        environment: Environment,
        lane: Lane,
        messages: Sequence[ReceivedMessage],
        done: Callable[[set[str] | None], None],
    ) -> None:
        kernel = self._kernel
        began = kernel.now
        kernel.sleep(self._unknowns.invoke + (self._unknowns.cold_start if environment.cold else 0.0))
        environment.cold = False
        self.times.invocations += 1
        context = InvocationContext(kernel, f"request-{self.times.invocations}", kernel.now + self._timeout)
        response = environment.handle(sqs_event(self._queue_arn(lane.name), messages), context)
        kept = {failure["itemIdentifier"] for failure in response["batchItemFailures"]}
        kernel.sleep(self._unknowns.invoke)
        spent = kernel.now - began
        self.times.invoked += spent
        if len(kept) == len(messages):
            self.times.only_yielded += spent
        self._warm.append(environment)
        self._running -= 1
        done(kept)


def sqs_event(queue_arn: str, messages: Sequence[ReceivedMessage]) -> dict[str, Any]:
    """
    Return the Lambda event of a batch.

    AWS: attribute values are text, times milliseconds (Lambda developer guide, "Using Lambda with Amazon SQS").
    """
    return {
        "Records": [
            {
                "messageId": message.message_id,
                "receiptHandle": message.receipt_handle,
                "body": message.body,
                "attributes": {
                    "ApproximateReceiveCount": str(message.receive_count),
                    "SentTimestamp": str(int(message.sent_at * 1000)),
                    "ApproximateFirstReceiveTimestamp": str(int(message.first_received_at * 1000)),
                    "MessageGroupId": message.group,
                    "MessageDeduplicationId": message.deduplication_id,
                    "SequenceNumber": str(message.sequence_number),
                },
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": queue_arn,
                "awsRegion": "us-east-1",
            }
            for message in messages
        ]
    }
