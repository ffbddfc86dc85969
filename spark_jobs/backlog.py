"""Holding back: a job stops sending to a lane while enough messages wait there."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lanes.aws.errors import aws_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mypy_boto3_sqs import SQSClient

# A reading costs a call, so a task that is held back asks this often, and one that sends at least this often.
READ_SECONDS = 2.0
WAITING: Literal["ApproximateNumberOfMessages"] = "ApproximateNumberOfMessages"


@dataclass(slots=True)
class _Reading:
    at: float
    room: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneBacklog:
    """
    Keeps what waits in each lane at a bound, together with the other tasks.

    AWS: the count is approximate (API_GetQueueAttributes), so the bound is as well.

    Attributes:
        sqs: client that reads the counts.
        queue_urls: by name of the lane.
        most: messages that may wait in a lane.
        tasks: how many tasks share what room there is.
        clock: monotonic seconds.
        pause: waits for so many seconds.
    """

    sqs: SQSClient
    queue_urls: Mapping[str, str]
    most: int
    tasks: int
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    _readings: dict[str, _Reading] = field(default_factory=dict)

    def wait(self, lane: str, messages: int) -> None:
        """Return when so many more messages may be sent to a lane."""
        reading = self._readings.get(lane)
        if reading is None or self.clock() - reading.at >= READ_SECONDS:
            reading = self._read(lane)
        while reading.room <= 0:
            self.pause(READ_SECONDS)
            reading = self._read(lane)
        reading.room -= messages

    def _read(self, lane: str) -> _Reading:
        with aws_errors("GetQueueAttributes"):
            answer = self.sqs.get_queue_attributes(QueueUrl=self.queue_urls[lane], AttributeNames=[WAITING])
        room = (self.most - int(answer["Attributes"][WAITING])) / self.tasks
        reading = self._readings[lane] = _Reading(at=self.clock(), room=room)
        return reading
