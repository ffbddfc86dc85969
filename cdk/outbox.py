"""
The outbox: a table of entries, and a relay that sends them to the lanes.

The relay is a function. The stream of the table invokes it for new entries; a schedule invokes it for retries, expired
locks and metrics.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Unpack

import jsii
from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lanes.config.table import format_duration
from lanes.errors import ConfigurationError
from lanes.outbox.dynamodb.table import GLOBAL_INDEXES
from lanes.outbox.telemetry import RelayMetric

from .alarms.rule import (
    PERIOD,
    RUNBOOK,
    AlarmRule,
    Section,
    Severity,
    add_alarms,
    age_problems,
    alarm_period,
    throttled_writes,
)
from .encryption import SENDING, allow_events, grant_key
from .function.code import relay_code
from .function.lambda_function import (
    METRICS_NAMESPACE,
    RELAY,
    FunctionProps,
    add_function,
    own_variables,
    service_of,
)
from .parameter import deployment_document, fit_environment
from .props import checked
from .queues.lane_queue import add_failure_queue
from .queues.lane_queues import LaneQueues
from .rights import FixedRole, allow
from .tables.ledger import Ledger
from .tables.outbox import OutboxTable

RELAY_TIMEOUT = timedelta(minutes=2)
RELAY_MEMORY_MB = 512
SCHEDULE = timedelta(minutes=1)
# AWS: up to 10,000 records a batch (API_CreateEventSourceMapping). A batch only wakes the relay, so one large batch
# saves many invocations.
STREAM_BATCH = 1000
CRASHES = 3
"""Crashes of the relay in a period that are more than a transient fault; its schedule runs it every minute."""
LANE_FAILURES = 5
"""Rounds of a period in which a lane accepted nothing; in an outage a relay has more in its first seconds."""


class Outbox(Construct):
    """
    A transactional outbox in DynamoDB.

    Your application writes entries in its own transactions (:meth:`grant_add`). Within about a second of a commit the
    relay sends them to their lanes, the most urgent first. Batch size, retries, retention and windows come from
    ``[outbox]`` of the configuration.

    Example:
        >>> outbox = Outbox(stack, "Outbox", queues=queues, ledger=ledger)
        >>> outbox.grant_add(order_service_role)

    Args:
        scope: The parent construct.
        construct_id: The id in the parent.
        queues: The lanes to send to.
        ledger: The table of the consumer, for the deployment document.
        code: The code of the relay, by default that of this library; name its ``handler`` with it.
        oldest_age: The age of an unfinished entry that raises an alarm, 15 minutes by default. With ``lane_window``
            set, entries wait here on purpose: choose the longest wait that you accept.
        actions: The actions of the alarms by severity, none by default.
        runbook: The URL of the runbook, by default its file in this repository.
        removal_policy: Whether to keep or delete table, failure queue and logs with the stack. They are kept by
            default.
        deletion_protection: Whether AWS refuses to delete the table, see :class:`Ledger`.
        **function_props: Handler, service name, log, VPC, layers, tracing and role of the function, see
            :class:`FunctionProps`.

    Attributes:
        table: The table, with its indexes.
        function: The relay.
        live: Its alias ``live``, which the mapping and the schedule invoke.
        failures: The queue where Lambda and EventBridge report failed invocations. No entry is lost with them: all
            entries are in the table.
        lanes: The names of the lanes.
        alarms: ``Abandoned``, ``<lane>Waits``, ``OldestAge``, ``Silent``, ``Errors``, ``Failures`` and
            ``TableThrottles``.
        rules: The rules of these alarms.

    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        queues: LaneQueues,
        ledger: Ledger,
        code: lambda_.Code | None = None,
        oldest_age: timedelta = timedelta(minutes=15),
        actions: Mapping[Severity, Sequence[cloudwatch.IAlarmAction]] | None = None,
        runbook: str = RUNBOOK,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        deletion_protection: bool = False,
        **function_props: Unpack[FunctionProps],
    ) -> None:
        super().__init__(scope, construct_id)
        self._service = service_of(self, function_props)
        self.lanes: Sequence[str] = tuple(one.lane.name for one in queues.lanes)
        self.table = OutboxTable(
            self,
            "Entries",
            encryption_key=queues.encryption_key,
            removal_policy=removal_policy,
            deletion_protection=deletion_protection,
        )
        self.failures = add_failure_queue(
            self, "Failures", removal_policy, encryption_key=queues.encryption_key
        )
        document = deployment_document(queues=queues, ledger=ledger, outbox=self.table)
        variables, parameter = fit_environment(
            self, own_variables(self, document, function_props), table=ledger.table.table_name
        )
        self.function, self.live, self.log_group, self._grantee = add_function(
            self,
            "Relay",
            description="Sends the entries of the outbox to their lanes, the most urgent first",
            code=code or relay_code(),
            environment=variables,
            timeout=RELAY_TIMEOUT,
            memory_mb=RELAY_MEMORY_MB,
            removal_policy=removal_policy,
            encryption_key=queues.encryption_key,
            without_dead_letter_queue="Only its schedule invokes it asynchronously, and does so again a minute later",
            props={"handler": RELAY, **function_props},
        )
        if parameter is not None:
            allow(self._grantee, ["ssm:GetParameter"], [parameter.parameter_arn])
        self.table.grant_relay(self._grantee)
        queues.grant_send(self._grantee)
        for lane in queues.lanes:
            lane.grant_count(self._grantee)
        self.mapping = self._add_mapping()
        if isinstance(self._grantee, FixedRole):
            self._grantee.report(self)
        self._add_schedule()
        self.rules = tuple(outbox_rules(self, self._service, oldest_age=oldest_age))
        added = add_alarms(self, self.rules, actions=actions or {}, runbook=runbook)
        self.alarms: dict[str, cloudwatch.AlarmBase] = {name: one.alarm for name, one in added.items()}

    def grant_add(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let your application add entries in its transactions, and nothing else."""
        return self.table.grant_add(grantee)

    def metric(
        self,
        metric: RelayMetric,
        *,
        lane: str | None = None,
        statistic: str = "Sum",
        period: timedelta = timedelta(minutes=1),
    ) -> cloudwatch.Metric:
        """
        Give a metric that the relay reports.

        Args:
            metric: The metric.
            lane: The lane, for ``OutboxLaneFailures`` and ``OutboxPendingInLane``; no other metric has one.
            statistic: The statistic of each period, by default the sum, which suits counts.
            period: The length of a period, one minute by default.

        """
        return relay_metric(self._service, metric, lane=lane, statistic=statistic, period=period)

    def _add_mapping(self) -> lambda_.EventSourceMapping:
        self.table.grant_stream(self._grantee)
        self.failures.grant(self._grantee, "sqs:SendMessage")
        if (key := self.failures.encryption_master_key) is not None:
            grant_key(key, self._grantee, SENDING, scope=self, service="sqs")
            allow_events(key, self)
        return lambda_.EventSourceMapping(
            self,
            "Mapping",
            target=self.live,
            event_source_arn=self.table.stream_arn,
            # AWS: LATEST may miss records while the mapping is being created (Developer Guide, "Using AWS Lambda
            # with Amazon DynamoDB").
            starting_position=lambda_.StartingPosition.TRIM_HORIZON,
            batch_size=STREAM_BATCH,
            # Only new entries: the relay's own updates would invoke it again and again.
            filters=[
                lambda_.FilterCriteria.filter(
                    {
                        "eventName": lambda_.FilterRule.is_equal("INSERT"),
                        "dynamodb": {
                            "Keys": {"pk": {"S": [{"prefix": "entry#"}, {"prefix": "group#"}]}},
                        },
                    }
                )
            ],
            # A record only wakes the relay, and so does the schedule: a failing record must not block its shard.
            retry_attempts=2,
            max_record_age=Duration.minutes(5),
            on_failure=FailureQueue(self.failures),
        )

    def _add_schedule(self) -> None:
        events.Rule(
            self,
            "Schedule",
            description="Retries, expired locks and metrics of the outbox",
            schedule=events.Schedule.rate(Duration.seconds(int(SCHEDULE.total_seconds()))),
            targets=[targets.LambdaFunction(self.live, dead_letter_queue=self.failures)],
        )


@jsii.implements(lambda_.IEventSourceDlq)
class FailureQueue:
    """
    The queue of batches that a mapping gave up. The CDK's own one grants more than sending.

    Args:
        queue: The queue.

    """

    def __init__(self, queue: sqs.IQueue) -> None:
        self._queue = queue

    def bind(
        self, target: lambda_.IEventSourceMapping, target_handler: lambda_.IFunction
    ) -> lambda_.DlqDestinationConfig:
        """Name the queue to the mapping."""
        del target, target_handler
        return lambda_.DlqDestinationConfig(destination=self._queue.queue_arn)


class RelayAlarms(Construct):
    """
    The alarms of a relay outside Lambda, for an outbox in your SQL database.

    The relay logs its figures in CloudWatch's embedded metric format; send its log to CloudWatch.

    Args:
        scope: The parent construct.
        construct_id: The id in the parent.
        lanes: The names of the lanes.
        service: The service name of the relay, its variable ``POWERTOOLS_SERVICE_NAME``.
        oldest_age: The age of an unfinished entry that raises an alarm, 15 minutes by default.
        actions: The actions of the alarms by severity, none by default.
        runbook: The URL of the runbook, by default its file in this repository.

    Attributes:
        alarms: ``Abandoned``, ``<lane>Waits``, ``OldestAge`` and ``Silent``.
        rules: The rules of these alarms.

    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        lanes: Sequence[str],
        service: str,
        oldest_age: timedelta = timedelta(minutes=15),
        actions: Mapping[Severity, Sequence[cloudwatch.IAlarmAction]] | None = None,
        runbook: str = RUNBOOK,
    ) -> None:
        super().__init__(scope, construct_id)
        self.rules = tuple(relay_rules(service, lanes, oldest_age=oldest_age))
        added = add_alarms(self, self.rules, actions=actions or {}, runbook=runbook)
        self.alarms: dict[str, cloudwatch.AlarmBase] = {name: one.alarm for name, one in added.items()}


def relay_metric(
    service: str,
    metric: RelayMetric,
    *,
    lane: str | None = None,
    statistic: str = "Sum",
    period: timedelta = timedelta(minutes=1),
) -> cloudwatch.Metric:
    """Give a metric of the relay with this service name: see :meth:`Outbox.metric`."""
    return cloudwatch.Metric(
        namespace=METRICS_NAMESPACE,
        metric_name=metric.value,
        dimensions_map={"service": service, **({} if lane is None else {"lane": lane})},
        statistic=statistic,
        period=Duration.seconds(int(period.total_seconds())),
    )


def relay_rules(service: str, lanes: Sequence[str], *, oldest_age: timedelta) -> Iterator[AlarmRule]:
    """
    Give the rules of a relay, wherever it runs.

    Args:
        service: The service name of the relay.
        lanes: The names of the lanes.
        oldest_age: The age of an unfinished entry that raises an alarm.

    Raises:
        ConfigurationError: The age isn't positive.

    """
    if problems := age_problems("oldest_age", oldest_age):
        raise ConfigurationError(problems, source="outbox")
    yield AlarmRule(
        name="Abandoned",
        severity=Severity.WARNING,
        metric=relay_metric(service, RelayMetric.ABANDONED, period=PERIOD),
        threshold=1,
        description="The relay abandoned entries of the outbox.",
        first_step="`lanes outbox list --state ABANDONED` shows why.",
        section=Section.OUTBOX_ABANDONED,
    )
    for lane in lanes:
        yield AlarmRule(
            name=f"{lane}Waits",
            severity=Severity.CRITICAL,
            metric=relay_metric(service, RelayMetric.LANE_FAILURES, lane=lane, period=PERIOD),
            threshold=LANE_FAILURES,
            description=f"Lane {lane} accepts nothing from the outbox; its entries wait.",
            first_step="the metric's dimension `cause`, and `outbox_lane_waits` in the relay's log, name the cause.",
            section=Section.OUTBOX_LANE_WAITS,
            lane=lane,
        )
    yield AlarmRule(
        name="OldestAge",
        severity=Severity.CRITICAL,
        metric=relay_metric(service, RelayMetric.OLDEST_AGE, statistic="Maximum", period=PERIOD),
        threshold=oldest_age.total_seconds(),
        description=f"An entry of the outbox has waited {format_duration(oldest_age)}.",
        first_step="`lanes outbox status` shows whether entries fail, wait for their lane, or are too many.",
        section=Section.OUTBOX_OLDEST_AGE,
    )
    # A relay that never starts has no errors, and reports no age.
    yield AlarmRule(
        name="Silent",
        severity=Severity.CRITICAL,
        metric=relay_metric(service, RelayMetric.WAITING, statistic="SampleCount", period=PERIOD),
        threshold=1,
        below=True,
        periods=3,
        description="The relay of the outbox has reported nothing.",
        first_step="look whether the relay starts, and whether its log reaches CloudWatch.",
        section=Section.OUTBOX_ERRORS,
    )


def outbox_rules(outbox: Outbox, service: str, *, oldest_age: timedelta) -> Iterator[AlarmRule]:
    """
    Give the rules of one outbox.

    Args:
        outbox: The outbox to watch.
        service: The service name of its relay.
        oldest_age: The age of an unfinished entry that raises an alarm.

    """
    yield from relay_rules(service, outbox.lanes, oldest_age=oldest_age)
    yield AlarmRule(
        name="Errors",
        severity=Severity.CRITICAL,
        metric=outbox.function.metric_errors(period=alarm_period(), statistic="Sum"),
        threshold=CRASHES,
        description="The relay of the outbox crashed or ran out of time, several times.",
        first_step="read the relay's log at that time.",
        section=Section.OUTBOX_ERRORS,
    )
    yield AlarmRule(
        name="Failures",
        severity=Severity.WARNING,
        metric=outbox.failures.metric_approximate_number_of_messages_visible(
            period=alarm_period(), statistic="Maximum"
        ),
        threshold=1,
        description="Lambda or EventBridge could not deliver events to the relay; they are in its failure queue.",
        first_step="`lanes outbox status` shows whether entries are published all the same.",
        section=Section.OUTBOX_ERRORS,
    )
    yield throttled_writes(
        outbox.table.table,
        indexes=[*GLOBAL_INDEXES],
        first_step="`lanes outbox status` shows how many entries are claimed and published.",
    )
