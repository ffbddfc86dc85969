"""Everything that an operator's front end calls on one deployed stack."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from lanes.aws.cloudwatch.figures import CloudWatchFigures
from lanes.aws.cloudwatch.logs import LogCalls
from lanes.aws.queues.bell import sender_bell
from lanes.aws.queues.dead_letter_queues import DeadLetterQueueCalls
from lanes.aws.queues.depths import Depths
from lanes.aws.queues.sending import SqsSender
from lanes.aws.scheduler import SchedulerCalls, later_of
from lanes.aws.stack.deployed_state import DeployedStateCalls
from lanes.aws.stack.mappings import MappingCalls
from lanes.aws.table.audit import DynamoDBAuditTrail, RedriveRecords
from lanes.aws.table.ledger import DynamoDBLedger
from lanes.aws.table.overrides import DynamoDBOverrides
from lanes.aws.table.runs import DynamoDBRuns
from lanes.aws.table.slots import DynamoDBPauses, DynamoDBSlots
from lanes.errors import AwsError, ConfigurationError
from lanes.fault_codes import Cause, cause_of
from lanes.operate.move import count_met
from lanes.operate.pause import PulledLanes, ServedLanes
from lanes.operate.recent import RecentWorkReader
from lanes.operate.tracer import Tracer
from lanes.outbox.dynamodb.operations import find_entry
from lanes.outbox.dynamodb.store import DynamoDBOutboxStore
from lanes.producer import Producer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

    from lanes.aws.clients import Clients
    from lanes.config.deployment import Deployment
    from lanes.operate.check_rules import FunctionState
    from lanes.operate.pause import LaneMapping, Mappings
    from lanes.outbox.store import OutboxStatus

SERVICE_VARIABLE = "POWERTOOLS_SERVICE_NAME"
OUTBOX_COUNTED = 1_000
"""Entries that a status counts at most: more would make it slow."""


class Operations:
    """
    The parts of one deployed stack, each created at its first use.

    Args:
        deployment: the lanes.
        clients: creates clients.
        stack_name: name of the stack, and of the service in the consumer's metrics unless its function sets another.
        user: returns the name of the user for whom the caller acts, for the audit trail; empty for none.
    """

    def __init__(
        self,
        *,
        deployment: Deployment,
        clients: Clients,
        stack_name: str,
        user: Callable[[], str] = lambda: "",
    ) -> None:
        self.deployment = deployment
        self.stack_name = stack_name
        self._clients = clients
        self._user = user

    @cached_property
    def dead_letters(self) -> DeadLetterQueueCalls:
        """The dead-letter queues."""
        redrives = RedriveRecords(table=self.deployment.table, client=self._dynamodb)
        return DeadLetterQueueCalls(deployment=self.deployment, client=self._sqs, redrives=redrives)

    @cached_property
    def depths(self) -> Depths:
        """Counts of all queues."""
        return Depths(deployment=self.deployment, sqs=self._sqs, dynamodb=self._dynamodb)

    @cached_property
    def overrides(self) -> DynamoDBOverrides:
        """The overrides of waiting messages."""
        return DynamoDBOverrides(table=self.deployment.table, client=self._dynamodb)

    @cached_property
    def runs(self) -> DynamoDBRuns:
        """The runs that are followed to their end."""
        return DynamoDBRuns(table=self.deployment.table, client=self._dynamodb)

    @cached_property
    def mappings(self) -> Mappings:
        """The event source mappings that serve the lanes."""
        calls = MappingCalls(
            deployment=self.deployment, client=self._clients.operations("lambda"), sqs=self._sqs
        )
        pauses = DynamoDBPauses(table=self.deployment.table, client=self._dynamodb)
        if self.deployment.bell is None:
            is_shared = self.deployment.config.serves_in_place
            return ServedLanes(calls=calls, pauses=pauses) if is_shared else calls
        bell = sender_bell(self.deployment, self._sqs)
        return PulledLanes(calls=calls, pauses=pauses, ring=bell.resumed)

    @cached_property
    def figures(self) -> CloudWatchFigures:
        """Rates and ages of the last minutes, and the last hours; the first use reads the service's name."""
        return CloudWatchFigures(
            deployment=self.deployment, client=self.cloudwatch, service=self.service_name
        )

    @cached_property
    def audit(self) -> DynamoDBAuditTrail:
        """The audit trail."""
        return DynamoDBAuditTrail(
            table=self.deployment.table,
            client=self._dynamodb,
            sts=self._clients.operations("sts"),
            user=self._user,
        )

    @cached_property
    def state(self) -> DeployedStateCalls:
        """The deployed resources, for checks."""
        return DeployedStateCalls(
            sqs=self._sqs,
            functions=self._clients.operations("lambda"),
            mappings=self.mappings,
            audit=self.audit,
        )

    def function(self) -> FunctionState:
        """
        Return the function behind the lanes.

        Raises:
            ConfigurationError: the last lane that has a queue has no mapping.
            AwsError: it could not be read.
        """
        mappings: Sequence[LaneMapping] = ()
        for lane in reversed(self.deployment.config.lanes):
            try:
                mappings = self.mappings.of_lane(lane.name)
            except AwsError as error:
                # Of a lane whose queue is gone nothing is known, and the others have the same function.
                if cause_of(error.code) is not Cause.MISSING:
                    raise
                continue
            break
        if not mappings:
            problem = (
                f"no event source mapping serves {lane.name}, so its function is unknown; deploy the stack"
            )
            raise ConfigurationError([problem], source=f"stack {self.stack_name}")
        return self.state.function(mappings[0].function_arn)

    def logs(self, group: str | None = None) -> LogCalls:
        """Return the function's log, or another log group; without a group it raises the errors of `function`."""
        return LogCalls(client=self._clients.operations("logs"), group=group or self.function().log_group)

    def tracer(self, logs: LogCalls, *, note: Callable[[str], None]) -> Tracer:
        """Return a tracer of messages; `note` receives a note about each source that could not be read."""
        outbox = self.deployment.outbox
        return Tracer(
            config=self.deployment.config,
            logs=logs,
            ledger=DynamoDBLedger(table=self.deployment.table, client=self._dynamodb).read,
            audit=self.audit,
            outbox=partial(find_entry, self._dynamodb, outbox) if outbox else None,
            note=note,
        )

    def recent_work(self, logs: LogCalls) -> RecentWorkReader:
        """Return the reader of waits, failures, running invocations and resources away."""
        consumer = self.deployment.config.consumer
        slots = DynamoDBSlots(table=self.deployment.table, client=self._dynamodb)
        # Elsewhere the environments write no presence records: see `lanes.consumer.engines.presence`.
        has_presence = not self.deployment.config.receives and consumer.reserved_concurrency > 1
        return RecentWorkReader(
            logs,
            presence=(lambda: slots.read("").peers) if has_presence else None,
            function_timeout=consumer.function_timeout,
        )

    def outbox_status(self) -> OutboxStatus | None:
        """Return the status of the outbox, with counts up to a limit; None without one; raises `AwsError`."""
        if self.deployment.outbox is None:
            return None
        store = DynamoDBOutboxStore(table=self.deployment.outbox, client=self._dynamodb)
        return store.status(limit=OUTBOX_COUNTED)

    def overrides_met(self, *, note: Callable[[str], None]) -> Mapping[str, int | None]:
        """Return the number of messages that each active override has met; `note` receives sentences about gaps."""
        return count_met(
            self.overrides.active().overrides,
            cancellations=lambda since, limit: self.overrides.cancellations(since=since, limit=limit),
            logs=self.logs,
            note=note,
        )

    def producer(self, *, source: str) -> Producer:
        """Return a producer for these lanes."""
        sender = SqsSender.to_lanes(self.deployment, self._sqs)
        later = later_of(self.deployment, self._clients)
        return Producer(deployment=self.deployment, sqs=sender, source=source, later=later)

    @cached_property
    def schedules(self) -> SchedulerCalls:
        """
        The schedules of the stack, periodic ones and messages for later.

        Raises:
            ConfigurationError: the stack has none.
        """
        if self.deployment.scheduler is None:
            problem = "this stack has no schedules; write [[schedules]] or scheduler = true in lanes.toml and deploy"
            raise ConfigurationError([problem], source=f"stack {self.stack_name}")
        return SchedulerCalls(self.deployment.scheduler, self._clients.operations("scheduler"))

    # The metrics' dimension is this name, which you may set on the function.
    def service_name(self) -> str:
        """Return the service name in the function's metrics; the stack's name if the function can't be read."""
        try:
            return self.function().variables.get(SERVICE_VARIABLE, self.stack_name)
        # An operator without the right to read the function sees the figures of the default name.
        except (AwsError, ConfigurationError):
            return self.stack_name

    @cached_property
    def cloudwatch(self) -> Any:
        """The client of CloudWatch."""
        return self._clients.operations("cloudwatch")

    @cached_property
    def _sqs(self) -> SQSClient:
        return self._clients.sqs()

    @cached_property
    def _dynamodb(self) -> DynamoDBClient:
        return self._clients.dynamodb()
