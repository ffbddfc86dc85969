"""
The consumer: one function behind all lanes, and per lane the event source mapping that feeds it.

Owns the construct ``PriorityConsumer`` and what the function may do: consume the lanes, send messages on to
another lane, put them into the dead-letter queues, keep its ledger, write its log. Nothing else.
"""

from collections.abc import Mapping
from datetime import timedelta

from aws_cdk import Acknowledgment, Annotations, CfnResource, Duration, RemovalPolicy, Stack, Validations
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from lanes import deployment
from lanes.config import Tracing
from lanes.consumer.telemetry import Metric
from lanes.errors import ConfigurationError

from .function_code import ARCHITECTURE, RUNTIME
from .lane_queues import LaneQueue, LaneQueues
from .lanes_parameter import deployment_document
from .ledger import Ledger
from .outbox_table import OutboxTable

METRICS_NAMESPACE = "PriorityLanes"

# AWS: all environment variables of a function together have at most 4 KB (AWS Lambda Developer Guide,
# quotas).
ENVIRONMENT_LIMIT_BYTES = 4096

# What a reference becomes when it's deployed: a queue's name has at most 80 characters and its URL 60 more.
REFERENCE_BYTES = 140


class PriorityConsumer(Construct):
    """
    A function that handles the messages of all lanes and yields to the more urgent ones.

    Its concurrency, timeout and memory, and each mapping's batch size and maximum concurrency, come from the
    configuration of ``queues``. The code must hand its events to ``lanes.Consumer``.

    Example:
        >>> consumer = PriorityConsumer(
        ...     stack, "Consumer", queues=queues, ledger=ledger, code=consumer_code("functions/orders")
        ... )
        >>> orders_table.grant_read_write_data(consumer.function)

    Args:
        scope: The construct that holds this one.
        construct_id: Its id there.
        queues: The lanes to consume.
        ledger: Where the consumer remembers attempts, yields and handled messages.
        outbox: The outbox that handlers may write to, none by default; granting it is the app's.
        code: The function's code, usually from :func:`consumer_code`. It runs on Python 3.14, arm64.
        handler: Module and function in it, ``handler.lambda_handler`` by default.
        environment: Further environment variables, none by default. Names that this construct sets are
            refused.
        service: The name of the service in logs and metrics, the stack's name by default. It keeps the figures
            of two consumers in one account apart.
        log_level: The least severe level to log, ``INFO`` by default.
        log_retention: How long logs stay, one month by default.
        removal_policy: What becomes of the logs when they leave the stack. They stay by default.

    Raises:
        ConfigurationError: The environment is too large or sets a name of this construct.

    Attributes:
        function: The function.
        log_group: Its logs.
        mappings: The event source mapping of each lane, by the lane's name.

    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        queues: LaneQueues,
        ledger: Ledger,
        code: lambda_.Code,
        outbox: OutboxTable | None = None,
        handler: str = "handler.lambda_handler",
        environment: Mapping[str, str] | None = None,
        service: str | None = None,
        log_level: str = "INFO",
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN,
    ) -> None:
        super().__init__(scope, construct_id)
        self._settings = queues.config.consumer
        self._concurrency = queues.config.function_concurrency
        self._is_traced = self._settings.tracing is Tracing.XRAY
        self._service = service or Stack.of(self).stack_name
        self.log_group = logs.LogGroup(self, "Logs", retention=log_retention, removal_policy=removal_policy)
        self.function = self._add_function(
            code=code,
            handler=handler,
            environment=_merged(
                {
                    deployment.VARIABLE: deployment_document(queues=queues, ledger=ledger, outbox=outbox),
                    "POWERTOOLS_SERVICE_NAME": self._service,
                    "POWERTOOLS_METRICS_NAMESPACE": METRICS_NAMESPACE,
                    "LOG_LEVEL": log_level,
                },
                environment or {},
                references=2 * len(queues.lanes) + (1 if outbox is None else 2),
            ),
        )
        self._acknowledge_findings()
        self.log_group.grant_write(self.function)
        ledger.grant_keep(self.function)
        self.mappings = {queue.lane.name: self._add_mapping(queue) for queue in queues.lanes}
        self._explain(queues)

    def metric(
        self,
        metric: Metric | str,
        lane: str,
        *,
        statistic: str = "Sum",
        period: timedelta = timedelta(minutes=1),
        label: str | None = None,
    ) -> cloudwatch.Metric:
        """
        Give a figure that the consumer itself reports for one lane.

        Args:
            metric: Which figure; counts of messages, or times in milliseconds. Receives have one for each cause,
                named by ``lanes.consumer.telemetry.receives``.
            lane: The lane's name.
            statistic: How a period's values become one, their sum by default, which suits counts.
            period: The length of a period, one minute by default.
            label: What graphs call it, the metric's name by default.

        """
        return cloudwatch.Metric(
            namespace=METRICS_NAMESPACE,
            metric_name=str(metric),
            dimensions_map={"lane": lane, "service": self._service},
            statistic=statistic,
            period=Duration.seconds(int(period.total_seconds())),
            label=label or str(metric),
        )

    def _add_function(
        self, *, code: lambda_.Code, handler: str, environment: Mapping[str, str]
    ) -> lambda_.Function:
        return lambda_.Function(
            self,
            "Function",
            description="Handles the messages of all priority lanes, the most urgent first",
            code=code,
            handler=handler,
            runtime=RUNTIME,
            architecture=ARCHITECTURE,
            environment=environment,
            timeout=Duration.seconds(int(self._settings.function_timeout.total_seconds())),
            memory_size=self._settings.memory_mb,
            reserved_concurrent_executions=self._concurrency,
            # AWS: after 16 hops of messages that handlers send to their own lanes Lambda would refuse the
            # batch, and its messages would go to the dead-letter queue untried (Developer Guide, "recursive
            # loop detection"). Sending on is ordinary here, and the reserved concurrency bounds a loop.
            recursive_loop=lambda_.RecursiveLoop.ALLOW,
            tracing=lambda_.Tracing.ACTIVE if self._is_traced else None,
            log_group=self.log_group,
            # A role of its own: the usual managed policy may write to every log group of the account.
            role=iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com")),
        )

    def _add_mapping(self, queue: LaneQueue) -> lambda_.EventSourceMapping:
        queue.grant_consume(self.function)
        queue.grant_dead_letter(self.function)
        # What an operator prioritizes while it waits is sent on, to any lane; it needs no further right.
        queue.grant_send(self.function)
        mapping = lambda_.EventSourceMapping(
            self,
            f"{queue.lane.name}Mapping",
            target=self.function,
            event_source_arn=queue.queue.queue_arn,
            batch_size=queue.lane.batch_size,
            max_concurrency=queue.lane.maximum_concurrency,
            report_batch_item_failures=True,
            metrics_config=lambda_.MetricsConfig(metrics=[lambda_.MetricType.EVENT_COUNT]),
        )
        _acknowledge(
            mapping,
            "Serverless::Serverless-LambdaEventSourceMappingDestination",
            "A mapping of SQS takes no failure destination; given-up messages go to the dead-letter queue",
        )
        return mapping

    def _acknowledge_findings(self) -> None:
        _acknowledge(
            self.function,
            "Serverless::Serverless-LambdaDLQ",
            "It serves asynchronous invocations only, and this function is invoked by its mappings",
        )
        if self._is_traced and self.function.role is not None:
            _acknowledge(
                self.function.role,
                "AwsSolutions::AwsSolutions-IAM5[Resource::*]",
                "X-Ray's two calls to put traces know no resource (Service Authorization Reference, AWS X-Ray)",
            )
        else:
            _acknowledge(
                self.function,
                "Serverless::Serverless-LambdaTracing",
                "X-Ray needs a permission on every resource; a message's trace travels in its traceparent",
            )
        resource = self.function.node.default_child
        if isinstance(resource, CfnResource):
            # The CDK lists the role under DependsOn although the function refers to it.
            resource.add_metadata("cfn-lint", {"config": {"ignore_checks": ["W3005"]}})

    def _explain(self, queues: LaneQueues) -> None:
        annotations = Annotations.of(self)
        for number, note in enumerate(queues.config.notes(), start=1):
            annotations.add_info_v2(f"lanes:note{number}", note)
        # AWS: reserving must leave a minimum unreserved in the account (PutFunctionConcurrency), which a new
        # account's quota of 10 can't.
        annotations.add_info_v2(
            "lanes:accountConcurrency",
            f"The function reserves {self._concurrency} of the account's concurrent "
            "executions. Lambda keeps up to 100 of them unreserved, so a new account, whose quota can be as "
            "low as 10, refuses any reservation and the deployment fails. Look at `aws lambda "
            "get-account-settings`, and ask for more under Service Quotas, AWS Lambda, Concurrent "
            "executions.",
        )


def _acknowledge(construct: IConstruct, finding: str, reason: str) -> None:
    Validations.of(construct).acknowledge(Acknowledgment(id=finding, reason=reason))


def _merged(own: Mapping[str, str], extra: Mapping[str, str], *, references: int) -> dict[str, str]:
    environment = {**own, **extra}
    problems = [
        f"environment sets {name}, which PriorityConsumer sets itself; use another name, or the prop for it"
        for name in sorted(own.keys() & extra.keys())
    ]
    size = (
        sum(len(text.encode()) for item in environment.items() for text in item)
        + references * REFERENCE_BYTES
    )
    if size > ENVIRONMENT_LIMIT_BYTES:
        problems.append(
            f"the function's environment can take {size} bytes and Lambda allows {ENVIRONMENT_LIMIT_BYTES}; "
            "use fewer lanes, or keep further settings in a parameter"
        )
    if problems:
        raise ConfigurationError(problems)
    return environment
