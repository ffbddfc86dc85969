"""A deployed stack for operators: its mappings, queues and function, and one object with all that a front end calls."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from lanes.aws.audit import DynamoDBAuditTrail, RedriveRecords
from lanes.aws.bell import sender_bell
from lanes.aws.cloudwatch import CloudWatchFigures, LogCalls
from lanes.aws.dead_letters import DeadLetterQueueCalls, Depths
from lanes.aws.errors import aws_errors
from lanes.aws.ledger import DynamoDBLedger
from lanes.aws.overrides import DynamoDBOverrides
from lanes.aws.runs import DynamoDBRuns
from lanes.aws.scheduler import SchedulerCalls, later_of
from lanes.aws.sending import SqsSender
from lanes.aws.slots import DynamoDBPauses, DynamoDBSlots
from lanes.config.deployment import VARIABLE, Deployment, pointed
from lanes.errors import AwsError, ConfigurationError
from lanes.fault_codes import Cause, cause_of
from lanes.operate.check_rules import FunctionState
from lanes.operate.move import count_met
from lanes.operate.pause import SWITCHES, LaneMapping, PulledLanes, ServedLanes
from lanes.operate.recent import RecentWorkReader
from lanes.operate.tracer import Tracer
from lanes.outbox.dynamodb.operations import find_entry
from lanes.outbox.dynamodb.store import DynamoDBOutboxStore
from lanes.producer import Producer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

    from lanes.aws.clients import Clients
    from lanes.operate.audit import AuditEntry, AuditTrail
    from lanes.operate.pause import Mappings
    from lanes.outbox.store import OutboxStatus

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
