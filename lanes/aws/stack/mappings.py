"""The event source mappings on the queues of a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.config.deployment import VARIABLE, Deployment, pointed
from lanes.errors import AwsError, ConfigurationError
from lanes.operate.pause import LaneMapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_sqs import SQSClient

# Without it every return of the function is a success, and Lambda deletes the records that yielded.
REPORTS = "ReportBatchItemFailures"


class MappingCalls:
    """
    The event source mappings of one deployment; every method raises `AwsError`.

    A mapping is found by its queue. It is the consumer's if its function has the document of this deployment.
    """

    def __init__(self, *, deployment: Deployment, client: Any, sqs: SQSClient) -> None:
        self._queues = deployment.queues
        self._table = deployment.table
        self._bell = deployment.bell
        self._client = client
        self._sqs = sqs
        self._arns: dict[str, str] = {}
        self._consumers: dict[str, bool] = {}

    def of_lane(self, lane: str) -> list[LaneMapping]:
        """Return the consumer's mappings on a lane's queue."""
        return [one for one, is_consumer in self._on_lane(lane) if is_consumer]

    def others(self, lane: str) -> list[LaneMapping]:
        """Return the mappings of other functions on a lane's queue."""
        return [one for one, is_consumer in self._on_lane(lane) if not is_consumer]

    def of_bell(self) -> list[LaneMapping]:
        """Return the mappings on the bell; none in the mapped engine."""
        return [] if self._bell is None else self.of_queue(self._bell)

    def of_queue(self, url: str) -> list[LaneMapping]:
        """Return the mappings on a queue."""
        return list(self._list(EventSourceArn=self._arn(url)))

    def of_function(self, arn: str) -> list[LaneMapping]:
        """Return the mappings to a function: to all its versions and aliases, whatever the qualifier of `arn`."""
        # All of the region: AWS does not document whether a name also finds the mappings to aliases
        # (API_ListEventSourceMappings).
        return [one for one in self._list() if _unqualified(one.function_arn) == _unqualified(arn)]

    def _on_lane(self, lane: str) -> list[tuple[LaneMapping, bool]]:
        """Return the mappings on a lane's queue, each with whether it is the consumer's."""
        found = self.of_queue(self._queues[lane].url)
        # The only mapping on a queue of the stack is the stack's, and to read its function would need a further right.
        if len(found) == 1 and not self._queues[lane].existing and self._bell is None:
            return [(found[0], True)]
        return [(one, self._is_consumer(one.function_arn)) for one in found]

    def _list(self, **where: str) -> Iterator[LaneMapping]:
        with aws_errors("ListEventSourceMappings"):
            for page in self._client.get_paginator("list_event_source_mappings").paginate(**where):
                yield from map(_mapping, page["EventSourceMappings"])

    def _is_consumer(self, arn: str) -> bool:
        """Whether a function is the consumer of this deployment, or an earlier version of it."""
        if arn not in self._consumers:
            self._consumers[arn] = self._table == table_of(self._variables(arn))
        return self._consumers[arn]

    def _variables(self, arn: str) -> dict[str, str]:
        try:
            with aws_errors("GetFunctionConfiguration"):
                answer = self._client.get_function_configuration(FunctionName=arn)
        except AwsError as error:
            # AWS: a mapping outlives its function (API_DeleteFunction).
            if error.code == "ResourceNotFoundException":
                return {}
            raise
        return dict(answer.get("Environment", {}).get("Variables", {}))

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


def table_of(variables: dict[str, str]) -> str | None:
    """Return the table of the deployment that a function serves; None if it serves none."""
    if (found := pointed(variables.get(VARIABLE))) is not None:
        return found["table"]
    try:
        return Deployment.from_env(variables).table
    except ConfigurationError:
        return None


def _unqualified(arn: str) -> list[str]:
    return arn.split(":")[:7]


def _mapping(entry: Any) -> LaneMapping:
    return LaneMapping(
        uuid=entry["UUID"],
        state=entry["State"],
        function_arn=entry["FunctionArn"],
        batch_size=int(entry["BatchSize"]),
        maximum_concurrency=(entry.get("ScalingConfig") or {}).get("MaximumConcurrency"),
        reports_failures=REPORTS in (entry.get("FunctionResponseTypes") or []),
        source_arn=entry.get("EventSourceArn") or "",
    )
