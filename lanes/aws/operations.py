"""What an operator's front end needs of one deployment, built from the clients of a place."""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lanes.aws.audit import DynamoDBAuditTrail
from lanes.aws.copy_notes import CopyNotes
from lanes.aws.cost_figures import CloudWatchUse
from lanes.aws.dead_letter_queues import DeadLetterQueueCalls
from lanes.aws.deployed_state import DeployedStateCalls
from lanes.aws.errors import aws_errors
from lanes.aws.figure_history import CloudWatchHistory
from lanes.aws.figures import CloudWatchFigures
from lanes.aws.holds import DynamoDBHolds
from lanes.aws.lane_queue import LaneQueueCalls
from lanes.aws.ledger import INDEX, DynamoDBLedger, sortable
from lanes.aws.logs import LogCalls
from lanes.aws.mappings import MappingCalls
from lanes.aws.outbox_lookup import OutboxLookup
from lanes.aws.overrides import DynamoDBOverrides
from lanes.aws.sqs import SqsSender
from lanes.errors import AwsError, ConfigurationError
from lanes.operate.trace_reading import Tracer
from lanes.producer import Producer

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

    from lanes.aws.clients import Clients
    from lanes.consumer.yielding import LaneDepth
    from lanes.deployment import Deployment
    from lanes.operate.deployed import FunctionState
    from lanes.operate.figures import LaneFigures

SERVICE_VARIABLE = "POWERTOOLS_SERVICE_NAME"


class Operations:
    """
    Everything that verbs call, each part made when it is first used.

    Args:
        deployment: the lanes.
        clients: makes clients.
        stack_name: name of the stack; the consumer's metrics carry it unless its function says otherwise.
    """

    def __init__(self, *, deployment: Deployment, clients: Clients, stack_name: str) -> None:
        self.deployment = deployment
        self.stack_name = stack_name
        self._clients = clients

    @cached_property
    def dead_letters(self) -> DeadLetterQueueCalls:
        """The dead-letter queues."""
        copies = CopyNotes(table=self.deployment.table, client=self._dynamodb)
        return DeadLetterQueueCalls(deployment=self.deployment, client=self._sqs, copies=copies)

    @cached_property
    def depths(self) -> Depths:
        """Counts of all queues."""
        return Depths(deployment=self.deployment, sqs=self._sqs, dynamodb=self._dynamodb)

    @cached_property
    def overrides(self) -> DynamoDBOverrides:
        """The overrides of messages that wait in queues."""
        return DynamoDBOverrides(table=self.deployment.table, client=self._dynamodb)

    @cached_property
    def holds(self) -> DynamoDBHolds:
        """The held groups."""
        return DynamoDBHolds(table=self.deployment.table, client=self._dynamodb)

    @cached_property
    def mappings(self) -> MappingCalls:
        """The event source mappings."""
        return MappingCalls(deployment=self.deployment, client=self._client("lambda"), sqs=self._sqs)

    @cached_property
    def figures(self) -> ServiceFigures:
        """Figures over time."""
        return ServiceFigures(self)

    @cached_property
    def history(self) -> CloudWatchHistory:
        """The last hours; made at the first use, which asks for the function's name of the service."""
        return CloudWatchHistory(
            deployment=self.deployment, client=self.cloudwatch, service=self.service_name()
        )

    @cached_property
    def audit(self) -> DynamoDBAuditTrail:
        """The audit trail."""
        return DynamoDBAuditTrail(table=self.deployment.table, client=self._dynamodb, sts=self._client("sts"))

    @cached_property
    def state(self) -> DeployedStateCalls:
        """What is deployed, for checks."""
        return DeployedStateCalls(
            sqs=self._sqs,
            dynamodb=self._dynamodb,
            functions=self._client("lambda"),
            iam=self._client("iam"),
            mappings=self.mappings,
        )

    def function(self) -> FunctionState:
        """
        Return the function behind the lanes.

        Raises:
            ConfigurationError: the last lane has no mapping.
            AwsError: it can't be read.
        """
        lane = self.deployment.config.last_lane.name
        mappings = self.mappings.of_lane(lane)
        if not mappings:
            problem = f"no event source mapping is on the queue of {lane}, so its function is unknown; deploy the stack"
            raise ConfigurationError([problem], source=f"stack {self.stack_name}")
        return self.state.function(mappings[0].function_arn)

    def use(self) -> CloudWatchUse:
        """Return the figures for a bill; raises as `function` does."""
        function = self.function()
        return CloudWatchUse(
            deployment=self.deployment,
            function=function,
            service=function.variables.get(SERVICE_VARIABLE, self.stack_name),
            stack_name=self.stack_name,
            cloudwatch=self.cloudwatch,
            cloudformation=self._client("cloudformation"),
        )

    def logs(self, group: str | None = None) -> LogCalls:
        """Return the function's log, or another log group; raises as `function` does where none is given."""
        return LogCalls(client=self._client("logs"), group=group or self.function().log_group)

    def tracer(self, logs: LogCalls, *, note: Callable[[str], None]) -> Tracer:
        """Return what finds out what became of messages; `note` gets what could not be looked at."""
        outbox = self.deployment.outbox
        return Tracer(
            config=self.deployment.config,
            logs=logs,
            ledger=DynamoDBLedger(table=self.deployment.table, client=self._dynamodb),
            audit=self.audit,
            outbox=OutboxLookup(table=outbox, client=self._dynamodb) if outbox else None,
            note=note,
        )

    def producer(self, *, source: str) -> Producer:
        """Return a producer for these lanes."""
        return Producer(deployment=self.deployment, sqs=SqsSender(self._sqs), source=source)

    def service_name(self) -> str:
        """Return the name that the function's metrics carry; that of the stack where the function can't be read."""
        try:
            mappings = self.mappings.of_lane(self.deployment.config.last_lane.name)
            function = self.state.function(mappings[0].function_arn) if mappings else None
        except AwsError:
            function = None
        variables = function.variables if function is not None else {}
        return variables.get(SERVICE_VARIABLE, self.stack_name)

    @cached_property
    def cloudwatch(self) -> Any:
        """A client of CloudWatch."""
        return self._client("cloudwatch")

    @cached_property
    def _sqs(self) -> SQSClient:
        with aws_errors("Client"):
            return self._clients.sqs()

    @cached_property
    def _dynamodb(self) -> DynamoDBClient:
        with aws_errors("Client"):
            return self._clients.dynamodb()

    def _client(self, service: str) -> Any:
        with aws_errors("Client"):
            return self._clients.operations(service)


class Depths:
    """Counts of lanes, dead-letter queues and parked messages; every method raises `AwsError`."""

    def __init__(self, *, deployment: Deployment, sqs: SQSClient, dynamodb: DynamoDBClient) -> None:
        self._lanes = LaneQueueCalls(deployment=deployment, client=sqs)
        self._dead = DeadLetterQueueCalls(deployment=deployment, client=sqs)
        self._table = deployment.table
        self._dynamodb = dynamodb

    def depth(self, lane: str) -> LaneDepth:
        """Return the counts of a lane's queue."""
        return self._lanes.depth(lane)

    def dead_letters(self, lane: str) -> LaneDepth:
        """Return the counts of a lane's dead-letter queue."""
        return self._dead.dead_letters(lane)

    def parked(self, lane: str) -> int:
        """Return how many messages of a lane are parked at this moment."""
        count = 0
        start: dict[str, Any] = {}
        while True:
            with aws_errors("Query"):
                page = self._dynamodb.query(
                    TableName=self._table,
                    IndexName=INDEX,
                    KeyConditionExpression="parked_lane = :lane AND parked_until > :now",
                    ExpressionAttributeValues={":lane": {"S": lane}, ":now": {"S": sortable(time.time())}},
                    Select="COUNT",
                    **start,
                )
            count += page["Count"]
            if "LastEvaluatedKey" not in page:
                return count
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


class ServiceFigures:
    """Figures from CloudWatch, under the service name that the deployed function reports."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._figures: CloudWatchFigures | None = None

    def read(self) -> dict[str, LaneFigures]:
        """Return what is known, by lane."""
        if self._figures is None:
            self._figures = CloudWatchFigures(
                deployment=self._operations.deployment,
                client=self._operations.cloudwatch,
                service=self._operations.service_name(),
            )
        return self._figures.read()
