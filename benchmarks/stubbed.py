"""The consumer as it is deployed, with every call to AWS replaced by one that answers at once."""

from __future__ import annotations

import json
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import SqsFifoPartialProcessor, process_partial_response

from lanes.aws.telemetry.powertools import PowertoolsTelemetry
from lanes.bell import BODY
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from lanes.consumer import Consumer
from lanes.consumer.records import RawRecord
from lanes.consumer.runtime import Runtime
from lanes.depth import LaneDepth
from lanes.events import Event
from lanes.message import Message
from lanes.priority import Priority
from lanes.testing.clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

    from lanes.consumer.settlement import VisibilityChange
    from lanes.consumer.telemetry import Telemetry

EMPTY = LaneDepth(backlog=0, in_flight=0)


class EmptyQueues:
    """Queues above that are always empty, and every call of a consumer whose messages all succeed."""

    def depth(self, lane: str) -> LaneDepth:  # noqa: ARG002
        """Return that nothing is there."""
        return EMPTY

    def change_visibility(self, lane: str, changes: Sequence[VisibilityChange]) -> Sequence[str]:  # noqa: ARG002
        """Return that nothing was refused."""
        return ()


class Context:
    """Lambda's context with time enough."""

    aws_request_id = "4c5d9f3c-0f3e-5b3a-8a53-c1b8d4c0e2a1"

    def get_remaining_time_in_millis(self) -> int:
        """Return half a minute."""
        return 30_000


def event_of(records: int) -> dict[str, Any]:
    """Return the event of a first delivery of so many messages of one group, sent just now."""
    moment = str(int(time.time() * 1000))
    return {
        "Records": [
            {
                "messageId": f"0f8a3f0e-64a4-4d0c-9f35-{number:012d}",
                "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a",
                "body": Message(
                    kind="order.placed",
                    data={"order": number, "amount": 99.5},
                    id=f"order-{number}",
                    priority=Priority.LOW,
                ).to_body(),
                "attributes": {
                    "ApproximateReceiveCount": "1",
                    "SentTimestamp": moment,
                    "ApproximateFirstReceiveTimestamp": moment,
                    "MessageGroupId": "customer-7",
                    "MessageDeduplicationId": f"order-{number}",
                    "SequenceNumber": "18849496460467696128",
                },
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:MAIN.fifo",
                "awsRegion": "us-east-1",
            }
            for number in range(records)
        ]
    }


def handler(message: Any) -> None:
    """Do nothing, so that only the consumer's own time is left."""


def bare_loop(event: Mapping[str, Any], context: Any) -> dict[str, Any]:  # noqa: ARG001 - as Lambda calls it
    """Handle a batch like a minimal function."""
    for record in event["Records"]:
        handler(json.loads(record["body"]))
    return {"batchItemFailures": []}


class FullQueues(EmptyQueues):
    """
    Queues of a slot that receives: MAIN has the batches that were put into it, and every deletion succeeds.

    Args:
        clock: moved by every wait for a message.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.batches: deque[list[RawRecord]] = deque()
        self._clock = clock

    def receive(self, lane: str, *, maximum: int, visibility: int, wait: int) -> list[RawRecord]:  # noqa: ARG002
        """Return the next batch of MAIN, or nothing after the wait."""
        if lane == "MAIN" and self.batches:
            return self.batches.popleft()
        self._clock.advance(wait)
        return []

    def delete(self, lane: str, records: Sequence[RawRecord]) -> list[str]:  # noqa: ARG002
        """Return that nothing was refused."""
        return []


def powertools() -> Callable[..., Any]:
    """Return a function of Powertools' FIFO processor with a log line for each message, as the consumer has it."""
    processor, logger = SqsFifoPartialProcessor(), Logger(service="orders")

    def handle_record(record: SQSRecord) -> None:
        message = json.loads(record.body)
        handler(message)
        attributes = record.attributes
        logger.info(
            Event.MESSAGE_HANDLED.value,
            extra={
                "kind": message["type"],
                "id": message["id"],
                "group": attributes.message_group_id,
                "message_id": record.message_id,
                "receive_count": int(attributes.approximate_receive_count),
                "sent_at": int(attributes.sent_timestamp) / 1000,
                "started_at": time.time(),
            },
        )

    def handle(event: dict[str, Any], context: Any) -> Any:
        return process_partial_response(
            event=event, record_handler=handle_record, processor=processor, context=context
        )

    return handle


RECEIVES = 20
"""Batches that a slot of the benchmark receives in one invocation; a busy one receives thousands."""


def pull(telemetry: Telemetry | None = None) -> Callable[..., Any]:
    """Return a handle that serves its events by one invocation of the pull engine for every twenty of them."""
    clock = FakeClock()
    queues, made = FullQueues(clock), deployment("pull")
    consumer = Consumer(
        Runtime(
            deployment=made,
            queues=queues,  # type: ignore[arg-type]
            ledger=None,  # type: ignore[arg-type]
            telemetry=telemetry or PowertoolsTelemetry(environ={}),
            clock=clock,
            monotonic=clock,
            sleep=clock.advance,
        )
    )
    consumer.handler("order.placed")(handler)
    ring = event_of(1)
    (record,) = ring["Records"]
    record |= {"body": BODY, "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:bell.fifo"}

    def handle(event: Mapping[str, Any], context: Any) -> None:
        queues.batches.append([RawRecord.from_event(one) for one in event["Records"]])
        if len(queues.batches) == RECEIVES:
            consumer.handle(ring, context)
            assert not queues.batches  # noqa: S101 - what the figure is about

    return handle


def deployment(engine: str = "mappings") -> Deployment:
    """Return three lanes on one slot."""
    config = LanesConfig.from_dict({"consumer": {"engine": engine}})
    queues = {
        lane.name: LaneQueues(
            url=f"https://sqs/123456789012/{lane.name}.fifo",
            dead_letter_url=f"https://sqs/123456789012/{lane.name}-dead.fifo",
        )
        for lane in config.lanes
    }
    bell = "https://sqs/123456789012/bell.fifo" if engine == "pull" else None
    return Deployment(config=config, queues=queues, table="ledger", bell=bell)


def consumer(telemetry: Telemetry | None = None) -> Callable[..., Any]:
    """Return the handle of a consumer of three lanes on one slot, with the telemetry of a deployed one by default."""
    made = Consumer(
        Runtime(
            deployment=deployment(),
            queues=EmptyQueues(),  # type: ignore[arg-type]
            ledger=None,  # type: ignore[arg-type]
            telemetry=telemetry or PowertoolsTelemetry(environ={}),
        )
    )
    made.handler("order.placed")(handler)
    return made.handle
