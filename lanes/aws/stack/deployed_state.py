"""Read the deployed resources: queues, mappings, function, table and account."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.operate.lanes.deployed import AccountState, FunctionState, TableState
from lanes.operate.lanes.mappings import SWITCHES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

    from lanes.operate.history.audit import AuditEntry, AuditTrail
    from lanes.operate.lanes.mappings import Mappings


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
        dynamodb: DynamoDBClient,
        functions: Any,
        iam: Any,
        mappings: Mappings,
        audit: AuditTrail,
        table: str,
    ) -> None:
        self._sqs = sqs
        self._dynamodb = dynamodb
        self._functions = functions
        self._iam = iam
        self.mappings = mappings
        self._audit = audit
        self._table = table

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
            name=answer["FunctionName"],
            timeout=timedelta(seconds=answer["Timeout"]),
            memory_mb=answer["MemorySize"],
            variables=answer.get("Environment", {}).get("Variables", {}),
            role_arn=answer["Role"],
            reserved_concurrency=concurrency.get("ReservedConcurrentExecutions"),
            version=answer["Version"],
            # AWS: always present, also for the default group of /aws/lambda/ and the name (GetFunctionConfiguration).
            log_group=answer["LoggingConfig"]["LogGroup"],
        )

    def newest_version(self, name: str) -> int:
        """Return the newest published version of a function; 0 if there is none."""
        with aws_errors("ListVersionsByFunction"):
            pages = self._functions.get_paginator("list_versions_by_function").paginate(FunctionName=name)
            found = [one["Version"] for page in pages for one in page["Versions"]]
        return max((int(one) for one in found if one.isdecimal()), default=0)

    def table(self, name: str) -> TableState:
        """Return a table."""
        with aws_errors("DescribeTable"):
            table = self._dynamodb.describe_table(TableName=name)["Table"]
        with aws_errors("DescribeTimeToLive"):
            expiry = self._dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
        on = expiry.get("TimeToLiveStatus") in ("ENABLED", "ENABLING")
        return TableState(
            arn=table["TableArn"],
            status=table["TableStatus"],
            expires_by=expiry.get("AttributeName") if on else None,
            indexes=[index["IndexName"] for index in table.get("GlobalSecondaryIndexes", [])],
        )

    def account(self) -> AccountState:
        """Return the account's limits of Lambda."""
        with aws_errors("GetAccountSettings"):
            limit = self._functions.get_account_settings()["AccountLimit"]
        return AccountState(
            concurrency=limit["ConcurrentExecutions"], unreserved=limit["UnreservedConcurrentExecutions"]
        )

    def denied(self, role_arn: str, *, actions: Sequence[str], resource: str) -> list[str]:
        """Return the actions that a role lacks."""
        with aws_errors("SimulatePrincipalPolicy"):
            answer = self._iam.simulate_principal_policy(
                PolicySourceArn=role_arn, ActionNames=list(actions), ResourceArns=[resource]
            )
        return [
            one["EvalActionName"] for one in answer["EvaluationResults"] if one["EvalDecision"] != "allowed"
        ]
