"""
The consumer: one function for all lanes, and an event source mapping for each lane, or one for the bell.

Its role may consume the lanes, send messages to them and to their dead-letter queues, ring and answer the bell, keep
the ledger and write the log.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Unpack

from aws_cdk import Annotations, Duration, RemovalPolicy
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lanes import bell
from lanes.config import deployment
from lanes.errors import ConfigurationError
from lanes.events import Event
from lanes.metrics import Metric

from .function.lambda_function import (
    ENTRY_POINT,
    HANDLER,
    METRICS_NAMESPACE,
    ForeignMappings,
    FunctionProps,
    add_function,
    add_queue_mapping,
    own_variables,
    service_of,
)
from .parameter import deployment_document, fit_environment
from .props import checked
from .queues.bell import Bell
from .queues.lane_queue import LaneQueue
from .queues.lane_queues import LaneQueues
from .rights import FixedRole, allow
from .schedules import Schedules
from .tables.ledger import Ledger
from .tables.outbox import OutboxTable

# Apart from the consumer's own metrics, which have the lane as a dimension.
LOG_NAMESPACE = f"{METRICS_NAMESPACE}/Log"
INTERRUPTED = "InterruptedBatches"

FOREIGN = (
    "It handles the lanes only: each batch would fail, and spend its receives until SQS dead-letters it. Make a FIFO "
    "queue a lane with LaneQueues(existing=...), or map the source to a function of its own that sends with a Producer"
)


class PriorityConsumer(Construct):
    """
    A function that handles the messages of all lanes and yields to more urgent ones.

    Concurrency, timeout and memory of the function, and batch size and maximum concurrency of each mapping, come from
    the configuration of ``queues``. Your code must pass its events to ``lanes.Consumer``. With ``engine = "pull"`` the
    function receives from the lanes itself, and its one mapping is on the bell.

    Example:
        >>> consumer = PriorityConsumer(
        ...     stack, "Consumer", queues=queues, ledger=ledger, code=consumer_code("functions/orders")
        ... )
        >>> orders_table.grant_read_write_data(consumer.function)

    Args:
        scope: The parent construct.
        construct_id: The id in the parent.
        queues: The lanes to consume.
        ledger: The table for attempts, yields and handled messages.
        code: The code of the function, usually from :func:`consumer_code`. It runs on Python 3.14, arm64.
        outbox: The outbox table that your handlers write to, none by default. Grant access to it yourself.
        schedules: The schedules, by default none. Pass yours, so that two messages of a schedule never overlap and
            handlers can send messages for later.
        environment: More environment variables, none by default. You cannot replace those of this construct.
        removal_policy: Whether to keep or delete the logs with the stack. They are kept by default.
        **function_props: Handler, service name, log, VPC, layers, tracing and role of the function, see
            :class:`FunctionProps`.

    Raises:
        ConfigurationError: The environment is too large or sets a variable of this construct.

    Attributes:
        ledger: The table of the consumer.
        function: The function.
        live: The alias ``live``, which the mappings invoke.
        log_group: Its log group.
        mappings: The event source mapping of each lane, by lane name; in the pull engine only that of the bell, as
            ``bell``.

    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        queues: LaneQueues,
        ledger: Ledger,
        code: lambda_.Code,
        outbox: OutboxTable | None = None,
        schedules: Schedules | None = None,
        environment: Mapping[str, str] | None = None,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        **function_props: Unpack[FunctionProps],
    ) -> None:
        super().__init__(scope, construct_id)
        settings = queues.config.consumer
        self.ledger = ledger
        self._service = service_of(self, function_props)
        document = deployment_document(
            queues=queues,
            ledger=ledger,
            outbox=outbox,
            scheduler=None if schedules is None else schedules.scheduler,
        )
        own = {
            **own_variables(self, document, function_props),
            deployment.HANDLER_VARIABLE: function_props.get("handler", HANDLER),
        }
        variables, parameter = fit_environment(
            self, _merged(own, environment or {}), table=ledger.table.table_name
        )
        self.function, self.live, self.log_group, self._grantee = add_function(
            self,
            "Function",
            description="Handles the messages of all priority lanes, the most urgent first",
            code=code,
            environment=variables,
            timeout=settings.function_timeout,
            memory_mb=settings.memory_mb,
            removal_policy=removal_policy,
            without_dead_letter_queue="Only its mappings invoke it, and they invoke it synchronously",
            encryption_key=queues.encryption_key,
            reserved_concurrency=settings.reserved_concurrency,
            props={**function_props, "handler": ENTRY_POINT},
        )
        if parameter is not None:
            allow(self._grantee, ["ssm:GetParameter"], [parameter.parameter_arn])
        ledger.grant_keep(self._grantee)
        for queue in queues.lanes:
            self._grant_lane(queue)
        if schedules is not None:
            schedules.grant_send_later(self._grantee)
        self.mappings = (
            {queue.lane.name: self._map_lane(queue) for queue in queues.lanes}
            if queues.bell is None
            else {"bell": self._map_bell(queues.bell, slots=settings.reserved_concurrency)}
        )
        self.node.add_validation(
            ForeignMappings(self.function, self.live, own=list(self.mappings.values()), advice=FOREIGN)
        )
        if isinstance(self._grantee, FixedRole):
            self._grantee.report(self)
        self._add_interrupted()
        self._add_notes(queues, knows_schedules=schedules is not None)

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
        Give a metric that the consumer reports for one lane.

        Args:
            metric: The metric: a count of messages, or a time in milliseconds. Each cause of a receive has its own,
                named by ``lanes.consumer.telemetry.receives``.
            lane: The name of the lane.
            statistic: The statistic of each period, by default the sum, which suits counts.
            period: The length of a period, one minute by default.
            label: The label in graphs, by default the name of the metric.

        """
        return cloudwatch.Metric(
            namespace=METRICS_NAMESPACE,
            metric_name=str(metric),
            dimensions_map={"lane": lane, "service": self._service},
            statistic=statistic,
            period=Duration.seconds(int(period.total_seconds())),
            label=label or str(metric),
        )

    def metric_interrupted(self, *, period: timedelta = timedelta(minutes=1)) -> cloudwatch.Metric:
        """Batches that an error of the consumer itself ended early, counted in the log (sum of each period)."""
        return cloudwatch.Metric(
            namespace=LOG_NAMESPACE,
            metric_name=INTERRUPTED,
            dimensions_map={"service": self._service},
            statistic="Sum",
            period=Duration.seconds(int(period.total_seconds())),
        )

    def _add_interrupted(self) -> None:
        logs.MetricFilter(
            self,
            "Interrupted",
            log_group=self.log_group,
            filter_pattern=logs.FilterPattern.string_value("$.event", "=", Event.BATCH_INTERRUPTED),
            metric_namespace=LOG_NAMESPACE,
            metric_name=INTERRUPTED,
            metric_value="1",
            dimensions={"service": "$.service"},
        )

    def _grant_lane(self, queue: LaneQueue) -> None:
        queue.grant_consume(self._grantee)
        queue.grant_dead_letter(self._grantee)
        # The consumer sends a message on to another lane when an operator changes its priority.
        queue.grant_send(self._grantee)

    def _map_lane(self, queue: LaneQueue) -> lambda_.EventSourceMapping:
        return self._add_mapping(
            f"{queue.lane.name}Mapping",
            queue.queue,
            batch_size=queue.lane.batch_size,
            max_concurrency=queue.lane.maximum_concurrency,
        )

    def _map_bell(self, queue: Bell, *, slots: int) -> lambda_.EventSourceMapping:
        queue.grant_answer(self._grantee)
        return self._add_mapping(
            "bellMapping", queue.queue, batch_size=1, max_concurrency=bell.maximum_concurrency(slots)
        )

    def _add_mapping(
        self, construct_id: str, queue: sqs.IQueue, *, batch_size: int, max_concurrency: int
    ) -> lambda_.EventSourceMapping:
        return add_queue_mapping(
            self,
            construct_id,
            target=self.live,
            queue=queue,
            batch_size=batch_size,
            max_concurrency=max_concurrency,
            without_destination="the consumer dead-letters failed messages itself",
            metrics_config=lambda_.MetricsConfig(metrics=[lambda_.MetricType.EVENT_COUNT]),
        )

    def _add_notes(self, queues: LaneQueues, *, knows_schedules: bool) -> None:
        annotations, config = Annotations.of(self), queues.config
        for number, note in enumerate(config.notes(), start=1):
            annotations.add_info_v2(f"lanes:note{number}", note)
        # AWS: a reservation must leave a minimum unreserved in the account (PutFunctionConcurrency).
        annotations.add_info_v2(
            "lanes:accountConcurrency",
            f"The function reserves {config.consumer.reserved_concurrency} of the account's concurrent executions. "
            "Lambda keeps up to 100 of them unreserved, so the deployment fails in a new account, where the "
            "quota can be as low as 10. Run `aws lambda get-account-settings`, and request a higher quota under "
            "Service Quotas, AWS Lambda, Concurrent executions.",
        )
        if queues.encryption_key is not None and self.ledger.table.encryption_key is None:
            annotations.add_warning_v2(
                "lanes:ledgerKey",
                "The lanes have a key of yours, and their ledger has not: it names messages, groups and errors. Pass "
                "encryption_key to Ledger, too.",
            )
        if config.schedules and not knows_schedules:
            annotations.add_warning_v2(
                "lanes:schedules",
                'The consumer does not know what Scheduler sends, so overlap = "skip" drops nothing, and two messages '
                "of a schedule may overlap after you change its priority. Pass your Schedules as schedules.",
            )


def _merged(own: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    problems = [
        f"environment sets {name}, which PriorityConsumer sets itself; use another name, or the prop for it"
        for name in sorted(own.keys() & extra.keys())
    ]
    if problems:
        raise ConfigurationError(problems)
    return {**own, **extra}
