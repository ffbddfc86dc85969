"""The consumer as it is deployed, with every call to AWS replaced by one that answers at once."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from lanes.aws.telemetry.powertools import PowertoolsTelemetry
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from lanes.consumer import Consumer
from lanes.consumer.runtime import Runtime
from lanes.depth import LaneDepth
from lanes.message import Message
from lanes.priority import Priority

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


def deployment() -> Deployment:
    """Return three lanes on one slot."""
    config = LanesConfig.from_dict({})
    queues = {
        lane.name: LaneQueues(
            url=f"https://sqs/123456789012/{lane.name}.fifo",
            dead_letter_url=f"https://sqs/123456789012/{lane.name}-dead.fifo",
        )
        for lane in config.lanes
    }
    return Deployment(config=config, queues=queues, table="ledger")


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
