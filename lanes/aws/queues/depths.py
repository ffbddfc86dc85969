"""Counts of the queues of a deployment and of its parked messages, and the messages that block their groups."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lanes.aws.queues.dead_letter_queues import DeadLetterQueueCalls
from lanes.aws.queues.lane_queue import LaneQueueCalls, depth_of
from lanes.aws.table.items import query_pages, sortable
from lanes.aws.table.ledger import entry_of
from lanes.depth import LaneDepth

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

    from lanes.config.deployment import Deployment
    from lanes.consumer.ledger import Entry

DUE_FOR = 60.0
"""Seconds for which a message whose next try is due counts as blocking; later it may have ended."""


class Depths:
    """Counts of queues, parked messages; every method raises `AwsError`."""

    def __init__(self, *, deployment: Deployment, sqs: SQSClient, dynamodb: DynamoDBClient) -> None:
        self._lanes = LaneQueueCalls(deployment=deployment, client=sqs)
        self._dead = DeadLetterQueueCalls(deployment=deployment, client=sqs)
        self._bell = deployment.bell
        self._sqs = sqs
        self._table = deployment.table
        self._dynamodb = dynamodb

    def depth(self, lane: str) -> LaneDepth:
        """Return the counts of a lane's queue."""
        return self._lanes.depth(lane)

    def dead_letters(self, lane: str) -> LaneDepth:
        """Return the counts of a lane's dead-letter queue."""
        return self._dead.dead_letters(lane)

    def bell(self) -> LaneDepth:
        """Return the counts of the bell's queue; zeros without a bell."""
        if self._bell is None:
            return LaneDepth(backlog=0, in_flight=0)
        return depth_of(self._sqs, self._bell)

    def parked(self, lane: str) -> int:
        """Return the number of messages of a lane that are parked now."""
        pages = query_pages(
            self._dynamodb,
            TableName=self._table,
            KeyConditionExpression="parked_lane = :lane AND parked_until > :now",
            ExpressionAttributeValues={":lane": {"S": lane}, ":now": {"S": sortable(time.time())}},
            # AWS: a count is charged like the items that it counts; only the answer is smaller (API_Query).
            Select="COUNT",
        )
        return sum(page["Count"] for page in pages)

    def blocking(self, lane: str) -> list[Entry]:
        """Return the entries of a lane's messages that block their groups, but for those that are tried now."""
        since = time.time() - DUE_FOR
        pages = query_pages(
            self._dynamodb,
            TableName=self._table,
            KeyConditionExpression="parked_lane = :lane AND parked_until > :since",
            FilterExpression="attribute_exists(blocking)",
            ExpressionAttributeValues={":lane": {"S": lane}, ":since": {"S": sortable(since)}},
        )
        return [entry_of(item) for page in pages for item in page["Items"]]
