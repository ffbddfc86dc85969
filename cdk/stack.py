"""The stack of this repository's own app, with all constructs of one set of lanes, and changes unsafe to it."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict, Unpack, cast

from aws_cdk import (
    Annotations,
    CfnOutput,
    Environment,
    IPropertyInjector,
    IStackSynthesizer,
    PermissionsBoundary,
    RemovalPolicy,
    Stack,
    Token,
)
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lanes.aws.clients import Clients, consumer_config, read_deployment
from lanes.aws.errors import aws_errors
from lanes.config import VISIBILITY_FACTOR, LanesConfig
from lanes.config.deployment import Deployment
from lanes.config.deployment import LaneQueues as DeployedQueues
from lanes.config.table import format_duration
from lanes.errors import ConfigurationError, LanesError

from .alarms.rule import RUNBOOK
from .consumer import PriorityConsumer
from .encryption import allow_in_key
from .function.code import consumer_code, refuse_missing
from .function.lambda_function import HANDLER, FunctionProps
from .observability import Observability, Severity
from .outbox import Outbox
from .parameter import LanesParameter
from .props import checked
from .queues.existing import resource_of
from .queues.lane_queue import LaneQueue
from .queues.lane_queues import LaneQueues
from .schedules import Schedules
from .tables.ledger import Ledger

LONGEST_NAME = 80
DESCRIPTION = "Priority lanes: urgent messages first, one function"


class StackProps(TypedDict, total=False):
    """The props of every stack of the CDK."""

    analytics_reporting: bool
    cross_region_references: bool
    description: str
    env: Environment
    notification_arns: Sequence[str]
    permissions_boundary: PermissionsBoundary
    property_injectors: Sequence[IPropertyInjector]
    stack_name: str
    suppress_template_indentation: bool
    synthesizer: IStackSynthesizer
    tags: Mapping[str, str]
    termination_protection: bool


class LanesStackProps(FunctionProps, StackProps, total=False):
    """The props of a function and of a stack together."""


class PriorityLanesStack(Stack):
    """
    One set of priority lanes with everything that it needs.

    Outputs: ``LanesParameter``, ``TableName``, ``ConsumerFunctionName``, and for each lane ``<lane>QueueUrl`` and
    ``<lane>DeadLetterQueueUrl``. With ``engine = "pull"`` there is ``BellQueueUrl``. With ``enabled = true`` in
    ``[outbox]`` of the configuration the stack has an outbox, and the outputs ``OutboxTableName`` and
    ``OutboxRelayFunctionName``. With ``[[schedules]]``, or ``scheduler = true``, it has a
    schedule group and a role for EventBridge Scheduler.

    Example:
        >>> PriorityLanesStack(
        ...     app,
        ...     "PriorityLanes",
        ...     config=LanesConfig.load("lanes.toml"),
        ...     function_folder=Path("lambdas/consumer"),
        ... )

    Args:
        scope: The app.
        construct_id: The id and name of the stack.
        config: The lanes.
        function_folder: The folder with your ``handler.py``.
        alarm_topic: The ARN of an SNS topic that all alarms notify, none by default.
        runbook: The URL of the runbook, for the descriptions of alarms and the dashboard, by default its file in
            this repository.
        encryption_key: Your key for everything that holds data, see :class:`LaneQueues`; by default AWS's own keys.
        removal_policy: Whether to keep or delete queues, tables and logs with the stack. They are kept by default.
        deletion_protection: Whether AWS refuses to delete the tables, see :class:`Ledger`; off by default.
        existing: Queues that other stacks or teams own, by lane name, see :class:`LaneQueues`.
        dead_letter_queues: The dead-letter queues of those of them that this app does not define, by lane name.
        queue_names: Fixed names of queues by lane name, see :class:`LaneQueues`.
        **props: Those of every stack of the CDK, such as ``env`` and ``termination_protection``; and VPC, layers,
            tracing, role and log of the consumer's function, see :class:`FunctionProps`.

    Raises:
        ConfigurationError: The folder has no module, or the module no name, of the handler.
        TypeError: There is no such prop, or its value has another type.

    Attributes:
        queues: The queues of the lanes.
        ledger: The table of the consumer.
        consumer: The function and its mappings.
        outbox: The outbox, or None.
        schedules: The schedules, or None.
        parameter: The parameter where producers find the lanes.
        observability: Alarms and dashboard.
        alarm_actions: The actions of the alarms by severity, for constructs that you add.

    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        config: LanesConfig,
        function_folder: Path | str,
        alarm_topic: str | None = None,
        runbook: str = RUNBOOK,
        encryption_key: kms.IKey | None = None,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        deletion_protection: bool = False,
        existing: Mapping[str, sqs.IQueue | str] | None = None,
        dead_letter_queues: Mapping[str, sqs.IQueue | str] | None = None,
        queue_names: Mapping[str, str] | None = None,
        **props: Unpack[LanesStackProps],
    ) -> None:
        names = StackProps.__optional_keys__
        of_stack = cast("StackProps", {name: value for name, value in props.items() if name in names})
        of_function = cast(
            "FunctionProps", {name: value for name, value in props.items() if name not in names}
        )
        of_stack.setdefault("description", DESCRIPTION)
        super().__init__(scope, construct_id, **of_stack)
        self.alarm_actions = self._alarm_actions(alarm_topic, encryption_key)
        self.queues = LaneQueues(
            self,
            "Lanes",
            config=config,
            encryption_key=encryption_key,
            removal_policy=removal_policy,
            existing=existing,
            dead_letter_queues=dead_letter_queues,
            queue_names=queue_names,
        )
        self.ledger = Ledger(
            self,
            "Ledger",
            encryption_key=encryption_key,
            removal_policy=removal_policy,
            deletion_protection=deletion_protection,
        )
        self.outbox: Outbox | None = None
        if config.outbox.enabled:
            self.outbox = Outbox(
                self,
                "Outbox",
                queues=self.queues,
                ledger=self.ledger,
                actions=self.alarm_actions,
                runbook=runbook,
                removal_policy=removal_policy,
                deletion_protection=deletion_protection,
            )
        table = None if self.outbox is None else self.outbox.table
        self.schedules: Schedules | None = None
        if config.scheduler or config.schedules:
            self.schedules = Schedules(
                self,
                "Schedules",
                queues=self.queues,
                removal_policy=removal_policy,
            )
        code = consumer_code(function_folder)
        handler, layers = of_function.get("handler", HANDLER), of_function.get("layers", ())
        refuse_missing(handler, function_folder, has_layers=bool(layers))
        self.consumer = PriorityConsumer(
            self,
            "Consumer",
            queues=self.queues,
            ledger=self.ledger,
            code=code,
            outbox=table,
            schedules=self.schedules,
            removal_policy=removal_policy,
            **of_function,
        )
        self.parameter = LanesParameter(
            self,
            "Deployment",
            queues=self.queues,
            ledger=self.ledger,
            outbox=table,
            schedules=self.schedules,
        )
        self.observability = Observability(
            self,
            "Observability",
            queues=self.queues,
            consumer=self.consumer,
            outbox=self.outbox,
            schedules=self.schedules,
            actions=self.alarm_actions,
            runbook=runbook,
        )
        self._add_outputs()

    def _alarm_actions(
        self, topic: str | None, key: kms.IKey | None
    ) -> Mapping[Severity, Sequence[cloudwatch.IAlarmAction]]:
        if topic is None:
            return {}
        if key is not None:
            # AWS: a topic under your key takes alarms only if the key lets CloudWatch use it (SNS Developer Guide,
            # "Enable compatibility between event sources from AWS services and encrypted topics").
            allow_in_key(
                key,
                iam.ServicePrincipal("cloudwatch.amazonaws.com"),
                ["kms:Decrypt", "kms:GenerateDataKey*"],
                scope=self,
                conditions={},
            )
        notify = actions.SnsAction(sns.Topic.from_topic_arn(self, "AlarmTopic", topic))
        return {severity: [notify] for severity in Severity}

    def _add_outputs(self) -> None:
        outputs = {"LanesParameter": self.parameter.parameter.parameter_name}
        for queue in self.queues.lanes:
            outputs[f"{queue.lane.name}QueueUrl"] = queue.queue.queue_url
            outputs[f"{queue.lane.name}DeadLetterQueueUrl"] = queue.dead_letter_queue.queue_url
        if self.queues.bell is not None:
            outputs["BellQueueUrl"] = self.queues.bell.queue.queue_url
        outputs["TableName"] = self.ledger.table.table_name
        outputs["ConsumerFunctionName"] = self.consumer.function.function_name
        if self.outbox is not None:
            outputs["OutboxTableName"] = self.outbox.table.table.table_name
            outputs["OutboxRelayFunctionName"] = self.outbox.function.function_name
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)

    def compare_with_deployed(self) -> None:
        """
        Warn of messages that a deployment would leave behind, by lanes, their queues or schedules.

        Call it before ``synth``. It reads the parameter of the deployed stack with the account and region that the CDK
        found; without a deployed stack, or without access, there is nothing to compare.

        Raises:
            ConfigurationError: The function timeout is shortened by more than the visibility timeouts bear.

        """
        account = os.environ.get("CDK_DEFAULT_ACCOUNT")
        if not account:
            return
        try:
            with aws_errors("Client"):
                clients = Clients(region=os.environ.get("CDK_DEFAULT_REGION"), config=consumer_config())
                deployed = read_deployment(clients.ssm(), self.stack_name)
        except LanesError:
            return
        # With --profile the CDK deploys with other credentials than those that this program sees.
        if f"/{account}/" in deployed.queues[deployed.config.last_lane.name].url:
            report_unsafe_changes(self, before=deployed, queues=self.queues)


def report_unsafe_changes(stack: Stack, *, before: Deployment, queues: LaneQueues) -> None:
    """
    Warn of messages left behind, by lanes, their queues or schedules; refuse a timeout shortened too far.

    Args:
        stack: The stack to annotate.
        before: The deployment document in the parameter of the deployed stack.
        queues: The lanes to deploy.

    Raises:
        ConfigurationError: The function timeout is shortened by more than the visibility timeouts bear.

    """
    annotations = Annotations.of(stack)
    deployed, config = before.config, queues.config
    for lane in config.lanes:
        replaced = before.queues.get(lane.name)
        if replaced is not None and _replaces(queues.lane(lane.name), replaced):
            annotations.add_warning_v2(
                f"lanes:replaced{lane.name}",
                f"Lane {lane.name} gets another queue in place of {_name_of(replaced.url)}. That one stays with its "
                "messages, and no function reads it. Add a lane with the new queue instead, set closing = true in this "
                "one, and remove it when `lanes check` finds it empty.",
            )
    names = {lane.name for lane in config.lanes}
    for lane in deployed.lanes:
        if lane.name not in names and not lane.closing:
            annotations.add_warning_v2(
                f"lanes:removed{lane.name}",
                f"Lane {lane.name} is deployed and missing in lanes.toml. Its queue stays, and no function reads it. "
                "Set closing = true first, deploy, and remove the lane when `lanes check` finds it empty.",
            )
    if (deployed.scheduler or deployed.schedules) and not (config.scheduler or config.schedules):
        annotations.add_warning_v2(
            "lanes:removedSchedules",
            "The deployed stack has a schedule group, and this one has none. Messages for later in it are sent when "
            "they are due, but you can't list or cancel them. Set scheduler = true until `lanes scheduled list` is "
            "empty.",
        )
    long, short = deployed.consumer.function_timeout, config.consumer.function_timeout
    # The queues change before the function: an invocation may run for its earlier timeout after its messages returned.
    if long > VISIBILITY_FACTOR * short:
        problem = (
            f"function_timeout is {format_duration(short)} and {format_duration(long)} is deployed: messages of "
            f"running invocations would return after {VISIBILITY_FACTOR} times the new timeout and run twice; "
            f"deploy at least {format_duration(long / VISIBILITY_FACTOR)} first"
        )
        raise ConfigurationError([problem], source=f"stack {stack.stack_name}")


def _replaces(lane: LaneQueue, deployed: DeployedQueues) -> bool:
    """Whether a lane has another queue than the deployed one; False if that is not known before a deployment."""
    old = _name_of(deployed.url)
    if lane.is_existing:
        arn = lane.queue.queue_arn
        return not Token.is_unresolved(arn) and arn.rpartition(":")[2] != old
    resource = resource_of(lane.queue)
    given = None if resource is None else Stack.of(lane).resolve(resource.queue_name)
    if given is not None:
        return bool(given != old)
    # CloudFormation names a queue by stack and logical id, which the CDK makes of the construct's path; it cuts what is
    # longer than 80 characters.
    logical = f"{re.sub(r'[^A-Za-z0-9]', '', lane.lane.name)}Queue"
    return deployed.existing or (logical not in old and len(old) < LONGEST_NAME)


def _name_of(url: str) -> str:
    return url.rpartition("/")[2]
