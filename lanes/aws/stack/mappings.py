"""The event source mappings on the queues of a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.operate.lanes.mappings import LaneMapping

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

    from lanes.config.deployment import Deployment

# Without it every return of the function is a success, and Lambda deletes the records that yielded.
REPORTS = "ReportBatchItemFailures"


class MappingCalls:
    """
    The event source mappings of one deployment; every method raises `AwsError`.

    A mapping is found by its queue.
    """

    def __init__(self, *, deployment: Deployment, client: Any, sqs: SQSClient) -> None:
        self._queues = deployment.queues
        self._bell = deployment.bell
        self._client = client
        self._sqs = sqs
        self._arns: dict[str, str] = {}

    def of_lane(self, lane: str) -> list[LaneMapping]:
        """Return the mappings on a lane's queue."""
        return self.of_queue(self._queues[lane].url)

    def of_bell(self) -> list[LaneMapping]:
        """Return the mappings on the bell; none in the mapped engine."""
        return [] if self._bell is None else self.of_queue(self._bell)

    def of_queue(self, url: str) -> list[LaneMapping]:
        """Return the mappings on a queue."""
        arn = self._arn(url)
        with aws_errors("ListEventSourceMappings"):
            pages = self._client.get_paginator("list_event_source_mappings").paginate(EventSourceArn=arn)
            return [_mapping(entry) for page in pages for entry in page["EventSourceMappings"]]

    def enable(self, lane: str, mapping: LaneMapping, *, enabled: bool) -> LaneMapping:  # noqa: ARG002
        """Start to enable or disable a mapping."""
        with aws_errors("UpdateEventSourceMapping"):
            return _mapping(self._client.update_event_source_mapping(UUID=mapping.uuid, Enabled=enabled))

    def _arn(self, url: str) -> str:
        if url not in self._arns:
            with aws_errors("GetQueueAttributes"):
                answer = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
            self._arns[url] = answer["Attributes"]["QueueArn"]
        return self._arns[url]


def _mapping(entry: Any) -> LaneMapping:
    return LaneMapping(
        uuid=entry["UUID"],
        state=entry["State"],
        function_arn=entry["FunctionArn"],
        batch_size=int(entry["BatchSize"]),
        maximum_concurrency=(entry.get("ScalingConfig") or {}).get("MaximumConcurrency"),
        reports_failures=REPORTS in (entry.get("FunctionResponseTypes") or []),
    )
