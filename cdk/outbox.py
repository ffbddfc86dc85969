"""
The outbox: the table of entries, and the relay that brings them to the lanes.

Owns the construct ``Outbox``. The relay is a function behind the table's stream, which wakes it for new entries,
and a schedule, which wakes it for retries, ended locks and its figures.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from aws_cdk import Acknowledgment, CfnResource, Duration, RemovalPolicy, Stack, Validations
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IConstruct

from lanes import deployment
from lanes.outbox.telemetry import RelayMetric

from .alarm_rules import Severity
from .alarms import RUNBOOK, add_alarms
from .function_code import ARCHITECTURE, RUNTIME
from .lane_queues import LaneQueues
from .lanes_parameter import deployment_document
from .ledger import Ledger
from .outbox_alarms import outbox_rules
from .outbox_table import OutboxTable
from .priority_consumer import METRICS_NAMESPACE

RELAY_TIMEOUT = timedelta(minutes=2)
RELAY_MEMORY_MB = 512
SCHEDULE = timedelta(minutes=1)
# AWS: up to 10,000 records a batch (API_CreateEventSourceMapping). A batch only says that there is work; a large one
# is one invocation instead of many.
STREAM_BATCH = 1000


class Outbox(Construct):
    """
    A transactional outbox in DynamoDB.

    Applications write entries in their own transactions (:meth:`grant_add`); within about a second of a commit
    the relay sends them to their lanes, the most urgent first. Batch, retries, retention and windows come from
    ``[outbox]`` of the configuration.

    Example:
        >>> outbox = Outbox(
        ...     stack, "Outbox", queues=queues, ledger=ledger, code=consumer_code("lambdas/outbox_relay")
        ... )
        >>> outbox.grant_add(order_service_role)

    Args:
        scope: The construct that holds this one.
        construct_id: Its id there.
        queues: The lanes to send to.
        ledger: The consumer's table, which the deployment document names.
        code: The relay's code, usually ``consumer_code("lambdas/outbox_relay")``.
        handler: Module and function in it, ``handler.lambda_handler`` by default.
        oldest_age: The age of an unfinished entry from which on to alarm, 15 minutes by default. With
            ``lane_window`` set, entries wait here on purpose: choose what a backlog may take.
        actions: What alarms of a severity do, nothing by default.
        runbook: Where the pages of the runbook are, by default their folder in this repository.
        service: The name of the service in logs and metrics, the stack's name by default.
        log_level: The least severe level to log, ``INFO`` by default.
        log_retention: How long logs stay, one month by default.
        removal_policy: What becomes of table, failure queue and logs when they leave the stack. They stay by
            default.

    Attributes:
        table: The table, with its indexes.
        function: The relay.
        failures: Where Lambda and EventBridge put word of what the relay failed on. Nothing is lost with it: the
            entries are in the table.
        alarms: ``Abandoned``, ``OldestAge`` and ``Errors``.

    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        queues: LaneQueues,
        ledger: Ledger,
        code: lambda_.Code,
        handler: str = "handler.lambda_handler",
        oldest_age: timedelta = timedelta(minutes=15),
        actions: Mapping[Severity, Sequence[cloudwatch.IAlarmAction]] | None = None,
        runbook: str = RUNBOOK,
        service: str | None = None,
        log_level: str = "INFO",
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN,
    ) -> None:
        super().__init__(scope, construct_id)
        self._service = service or Stack.of(self).stack_name
        self.table = OutboxTable(self, "Entries", removal_policy=removal_policy)
        self.failures = self._add_failures(removal_policy)
        self.log_group = logs.LogGroup(self, "Logs", retention=log_retention, removal_policy=removal_policy)
        environment = {
            deployment.VARIABLE: deployment_document(queues=queues, ledger=ledger, outbox=self.table),
            "POWERTOOLS_SERVICE_NAME": self._service,
            "POWERTOOLS_METRICS_NAMESPACE": METRICS_NAMESPACE,
            "LOG_LEVEL": log_level,
        }
        self.function = self._add_function(code=code, handler=handler, environment=environment)
        self.log_group.grant_write(self.function)
        self.table.grant_relay(self.function)
        queues.grant_send(self.function)
        for lane in queues.lanes:
            lane.queue.grant(self.function, "sqs:GetQueueAttributes")
        self.mapping = self._add_mapping()
        self._add_schedule()
        added = add_alarms(
            self, outbox_rules(self, oldest_age=oldest_age), actions=actions or {}, runbook=runbook
        )
        self.alarms: dict[str, cloudwatch.AlarmBase] = {name: one.alarm for name, one in added.items()}

    def grant_add(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let an application add entries in its transactions, and nothing else."""
        return self.table.grant_add(grantee)

    def metric(
        self,
        metric: RelayMetric,
        *,
        statistic: str = "Sum",
        period: timedelta = timedelta(minutes=1),
    ) -> cloudwatch.Metric:
        """
        Give a figure that the relay reports.

        Args:
            metric: Which one.
            statistic: How a period's values become one, their sum by default, which suits counts.
            period: The length of a period, one minute by default.

        """
        return cloudwatch.Metric(
            namespace=METRICS_NAMESPACE,
            metric_name=metric.value,
            dimensions_map={"service": self._service},
            statistic=statistic,
            period=Duration.seconds(int(period.total_seconds())),
        )

    def _add_failures(self, removal_policy: RemovalPolicy) -> sqs.Queue:
        queue = sqs.Queue(
            self,
            "Failures",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
            removal_policy=removal_policy,
        )
        for finding in ("Serverless::Serverless-SQSRedrivePolicy", "AwsSolutions::AwsSolutions-SQS3"):
            reason = "It is a failure destination itself; its messages go nowhere further by themselves"
            _acknowledge(queue, finding, reason)
        return queue

    def _add_function(
        self, *, code: lambda_.Code, handler: str, environment: Mapping[str, str]
    ) -> lambda_.Function:
        function = lambda_.Function(
            self,
            "Relay",
            description="Sends the entries of the outbox to their lanes, the most urgent first",
            code=code,
            handler=handler,
            runtime=RUNTIME,
            architecture=ARCHITECTURE,
            environment=environment,
            timeout=Duration.seconds(int(RELAY_TIMEOUT.total_seconds())),
            memory_size=RELAY_MEMORY_MB,
            log_group=self.log_group,
            role=iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com")),
        )
        _acknowledge(
            function,
            "Serverless::Serverless-LambdaDLQ",
            "Only its schedule invokes it asynchronously, and the next minute makes up for a lost one",
        )
        _acknowledge(
            function,
            "Serverless::Serverless-LambdaTracing",
            "X-Ray needs a permission on every resource; a message's trace travels in its traceparent",
        )
        resource = function.node.default_child
        if isinstance(resource, CfnResource):
            # The CDK lists the role under DependsOn although the function refers to it.
            resource.add_metadata("cfn-lint", {"config": {"ignore_checks": ["W3005"]}})
        return function

    def _add_mapping(self) -> lambda_.EventSourceMapping:
        self.table.grant_stream(self.function)
        return lambda_.EventSourceMapping(
            self,
            "Mapping",
            target=self.function,
            event_source_arn=self.table.stream_arn,
            # AWS: LATEST may miss records while the mapping is being created (Developer Guide, "Using AWS Lambda
            # with Amazon DynamoDB").
            starting_position=lambda_.StartingPosition.TRIM_HORIZON,
            batch_size=STREAM_BATCH,
            # New entries alone: without the filter the relay's own marks would wake it again and again.
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
            # A record only says that there is work, and the schedule finds that as well: no reason to block a shard.
            retry_attempts=2,
            max_record_age=Duration.minutes(5),
            on_failure=event_sources.SqsDlq(self.failures),
        )

    def _add_schedule(self) -> None:
        events.Rule(
            self,
            "Schedule",
            description="Retries, ended locks and figures of the outbox",
            schedule=events.Schedule.rate(Duration.seconds(int(SCHEDULE.total_seconds()))),
            targets=[targets.LambdaFunction(self.function, dead_letter_queue=self.failures)],
        )


def _acknowledge(construct: IConstruct, finding: str, reason: str) -> None:
    Validations.of(construct).acknowledge(Acknowledgment(id=finding, reason=reason))
