"""Read the deployed resources: queues, mappings and function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.operate.check_rules import FunctionState
from lanes.operate.pause import SWITCHES

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

    from lanes.operate.audit import AuditEntry, AuditTrail
    from lanes.operate.pause import Mappings


MOST_AUDITED = 1000
"""Latest entries of the audit trail in which pauses are looked for: about 100 read units."""


class DeployedStateCalls:
    """
    Reads the deployed resources; every method raises `AwsError`.

    Attributes:
        mappings: the event source mappings.
    """

    def __init__(
        self,
        *,
        sqs: SQSClient,
        functions: Any,
        mappings: Mappings,
        audit: AuditTrail,
    ) -> None:
        self._sqs = sqs
        self._functions = functions
        self.mappings = mappings
        self._audit = audit

    def queue(self, url: str) -> dict[str, str]:
        """Return all attributes of a queue."""
        with aws_errors("GetQueueAttributes"):
            answer: Any = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
        return dict(answer["Attributes"])

    def queues(self, prefix: str) -> list[str]:
        """Return the URLs of the queues with names that begin so."""
        with aws_errors("ListQueues"):
            pages = self._sqs.get_paginator("list_queues").paginate(QueueNamePrefix=prefix)
            return [url for page in pages for url in page.get("QueueUrls", [])]

    def switches(self) -> list[AuditEntry]:
        """Return the pauses and resumes of the audit trail, the latest first."""
        entries = self._audit.entries(since=0.0, limit=MOST_AUDITED)
        return [entry for entry in entries if entry.action in SWITCHES]

    def function(self, arn: str) -> FunctionState:
        """Return a function."""
        with aws_errors("GetFunctionConfiguration"):
            answer = self._functions.get_function_configuration(FunctionName=arn)
        # The concurrency is that of the function: all its versions and aliases share it.
        with aws_errors("GetFunctionConcurrency"):
            concurrency = self._functions.get_function_concurrency(FunctionName=answer["FunctionName"])
        return FunctionState(
            variables=answer.get("Environment", {}).get("Variables", {}),
            reserved_concurrency=concurrency.get("ReservedConcurrentExecutions"),
            # AWS: always present, also for the default group of /aws/lambda/ and the name (GetFunctionConfiguration).
            log_group=answer["LoggingConfig"]["LogGroup"],
        )
