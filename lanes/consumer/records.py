"""What Lambda brought: the wire types of the SQS event and its answer, and the record read from them."""

from __future__ import annotations

import dataclasses
import json
from collections import deque
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from lanes.errors import ConfigurationError
from lanes.values import value_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

T = TypeVar("T")


class BatchItemFailure(TypedDict):
    """One record that is to stay in the queue."""

    itemIdentifier: str


class PartialBatchResponse(TypedDict):
    """The answer of a function whose mapping reports batch item failures; an empty list deletes the whole batch."""

    batchItemFailures: list[BatchItemFailure]


@value_type
class RawRecord:
    """
    One record of an SQS event, as the handler registered for raw bodies receives it.

    Times are epoch seconds. `receive_count` counts deliveries, whatever became of them; it is not the attempt. `entry`
    is the record as Lambda brought it.
    """

    message_id: str
    receipt_handle: str
    body: str
    group: str
    receive_count: int
    sent_at: float
    first_received_at: float
    deduplication_id: str
    attributes: Mapping[str, str]
    message_attributes: Mapping[str, Any]
    entry: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    @property
    def event(self) -> SQSRecord:
        """
        The record as Powertools for AWS Lambda has it: every attribute typed, and nested events of S3 and SNS.

        Powertools' event types are loaded when this is first asked for, which takes some 30 ms.
        """
        from lanes.aws.event_types import sqs_record

        return sqs_record(self.entry)

    def body_as(self, event_type: Callable[[Any], T]) -> T:
        """
        Give what the body says as an event type: a data class of Powertools, or whatever else takes parsed JSON.

        Args:
            event_type: `S3Event` or `EventBridgeEvent` of `aws_lambda_powertools.utilities.data_classes`, for example.

        Raises:
            ValueError: the body is not JSON.

        Example:
            >>> from aws_lambda_powertools.utilities.data_classes import EventBridgeEvent
            >>> def imported(record: RawRecord) -> str:
            ...     return record.body_as(EventBridgeEvent).detail_type

        """
        return event_type(json.loads(self.body))

    @classmethod
    def from_event(cls, record: Mapping[str, Any]) -> RawRecord:
        """Read one entry of `Records`; times arrive in milliseconds, counts as text."""
        message_id, attributes = record["messageId"], record["attributes"]
        sent_at = int(attributes["SentTimestamp"]) / 1000
        first = attributes.get("ApproximateFirstReceiveTimestamp")
        return cls(
            message_id=message_id,
            receipt_handle=record["receiptHandle"],
            body=record["body"],
            # AWS: only FIFO records have a group. A queue without groups has no order to keep.
            group=attributes.get("MessageGroupId", message_id),
            receive_count=int(attributes.get("ApproximateReceiveCount", "1")),
            sent_at=sent_at,
            first_received_at=int(first) / 1000 if first else sent_at,
            deduplication_id=attributes.get("MessageDeduplicationId", message_id),
            attributes=attributes,
            message_attributes=record.get("messageAttributes") or {},
            entry=record,
        )


def read_batch(event: Mapping[str, Any]) -> tuple[str, list[RawRecord]]:
    """
    Return the ARN of the queue and the records in the order SQS gave them.

    Raises:
        ConfigurationError: the event is not one of an SQS mapping. Raising keeps every record in its queue.

    """
    entries = event.get("Records")
    if not entries or not all(entry.get("eventSource") == "aws:sqs" for entry in entries):
        keys = sorted(event)[:5]
        raise ConfigurationError(
            [
                f"an event with the keys {keys} is no batch of SQS records; map the function to the lanes' queues only"
            ],
            source="event",
        )
    queues = {entry.get("eventSourceARN") for entry in entries}
    if len(queues) > 1:
        raise ConfigurationError(
            [f"the records are of {len(queues)} queues; a mapping of Lambda sends those of one"],
            source="event",
        )
    return entries[0]["eventSourceARN"], [RawRecord.from_event(entry) for entry in entries]


def oldest_first(records: Iterable[RawRecord]) -> list[RawRecord]:
    """Order records by when they were sent, those of one group in the order in which they came."""
    groups: dict[str, deque[RawRecord]] = {}
    for record in records:
        groups.setdefault(record.group, deque()).append(record)
    heads = [(waiting[0].sent_at, position, waiting) for position, waiting in enumerate(groups.values())]
    heapify(heads)
    ordered = []
    while heads:
        _, position, waiting = heads[0]
        ordered.append(waiting.popleft())
        if waiting:
            heapreplace(heads, (waiting[0].sent_at, position, waiting))
        else:
            heappop(heads)
    return ordered


def response_for(kept: Iterable[RawRecord]) -> PartialBatchResponse:
    """Answer that everything but `kept` may be deleted."""
    return {"batchItemFailures": [{"itemIdentifier": record.message_id} for record in kept]}
