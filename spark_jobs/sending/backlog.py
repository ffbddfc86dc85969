"""The backlog limit: a task stops sending to a lane while enough messages wait there."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lanes.aws.errors import aws_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mypy_boto3_sqs import SQSClient

# Each reading costs a call. A task reads this often while it is held back, and at most this often while it sends.
READ_SECONDS = 2.0
HELD_SECONDS = 30.0
VISIBLE: Literal["ApproximateNumberOfMessages"] = "ApproximateNumberOfMessages"


@dataclass(slots=True)
class _Reading:
    at: float
    allowance: float
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneBacklog:
    """
    Keeps the backlog of each lane below a limit, together with the other tasks.

    AWS: the count is approximate (API_GetQueueAttributes), so the limit is as well.

    Attributes:
        sqs: Client that reads the counts.
        queue_urls: Queue URLs by lane name.
        max_messages: Maximum backlog of a lane.
        tasks: Number of tasks that share the allowance.
        clock: Monotonic seconds.
        pause: Waits for a number of seconds.
        held: Receives lane and backlog when a pause begins, and each `HELD_SECONDS` of it.
    """

    sqs: SQSClient
    queue_urls: Mapping[str, str]
    max_messages: int
    tasks: int
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    held: Callable[[str, int], object] = lambda _lane, _messages: None
    _readings: dict[str, _Reading] = field(default_factory=dict)

    def wait(self, lane: str, messages: int) -> None:
        """Return when you may send this many more messages to a lane."""
        reading = self._readings.get(lane)
        if reading is None or self.clock() - reading.at >= READ_SECONDS:
            reading = self._read(lane)
        said_at: float | None = None
        while reading.allowance <= 0:
            if said_at is None or self.clock() - said_at >= HELD_SECONDS:
                said_at = self.clock()
                self.held(lane, reading.messages)
            self.pause(READ_SECONDS)
            reading = self._read(lane)
        reading.allowance -= messages

    def _read(self, lane: str) -> _Reading:
        messages = visible(self.sqs, self.queue_urls[lane])
        allowance = (self.max_messages - messages) / self.tasks
        reading = self._readings[lane] = _Reading(at=self.clock(), allowance=allowance, messages=messages)
        return reading


def visible(sqs: SQSClient, queue_url: str) -> int:
    """
    Read the approximate number of messages that wait in a queue.

    Raises:
        AwsError: The call failed.
    """
    with aws_errors("GetQueueAttributes"):
        answer = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=[VISIBLE])
    return int(answer["Attributes"][VISIBLE])
