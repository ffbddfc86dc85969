"""Lambda functions as this package deploys them: runtime, role, logs, variables, versions and acknowledged findings."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple, TypedDict

import jsii
from aws_cdk import CfnResource, Duration, RemovalPolicy, Stack, Token
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IValidation

from lanes.config import deployment
from lanes.errors import ConfigurationError

from ..encryption import allow_logs, grant_key
from ..findings import acknowledge, acknowledge_wildcard, reference_from
from ..rights import FixedRole, allow, role_here

HANDLER = "handler.lambda_handler"
"""Your module and its function, by default."""
ENTRY_POINT = "lanes.aws.entry_point.lambda_handler"
"""The function that imports them, and returns messages soon while that fails."""
RELAY = "lanes.outbox.dynamodb.relay_function.lambda_handler"
"""The relay of the outbox, a module of this library."""


RUNTIME = lambda_.Runtime.PYTHON_3_14
ARCHITECTURE = lambda_.Architecture.ARM_64
METRICS_NAMESPACE = "PriorityLanes"
ALIAS = "live"
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class FunctionProps(TypedDict, total=False):
    """
    How, where and as whom a function runs; each construct with a function takes these as keyword arguments.

    A function in a VPC reaches SQS, DynamoDB, SSM and CloudWatch Logs through a NAT gateway or through endpoints of the
    VPC, which you add.

    Attributes:
        vpc: The VPC of the resource that your handlers use, none by default.
        vpc_subnets: Its subnets, by default the private ones.
        security_groups: By default a new group that may connect to everything.
        layers: Layers with code of yours or of a vendor, none by default.
        tracing: X-Ray's tracing of invocations, off by default.
        role: A role of your own, also of another stack. The constructs add what the function needs; it must trust
            Lambda. Synthesis prints the rights that one with ``mutable=False`` lacks. By default each function has one.
        handler: Module and function in the code, ``handler.lambda_handler`` by default.
        service: The service name in logs and metrics, the stack's name by default. It separates the figures of two
            consumers in one account.
        log_level: The lowest level to log, ``INFO`` by default.
        log_retention: How long to keep logs, one month by default.
    """

    vpc: ec2.IVpc
    vpc_subnets: ec2.SubnetSelection
    security_groups: Sequence[ec2.ISecurityGroup]
    layers: Sequence[lambda_.ILayerVersion]
    tracing: lambda_.Tracing
    role: iam.IRole
    handler: str
    service: str
    log_level: str
    log_retention: logs.RetentionDays


class DeployedFunction(NamedTuple):
    """
    A function, the alias ``live`` on the version of this deployment, its log group, and what takes its rights.

    ``grantee`` is the function, unless its role is one that this app may not change.
    """

    function: lambda_.Function
    live: lambda_.Alias
    log_group: logs.LogGroup
    grantee: iam.IGrantable


def service_of(scope: Construct, props: FunctionProps) -> str:
    """Give the service name in logs and metrics."""
    return props.get("service") or Stack.of(scope).stack_name


def own_variables(scope: Construct, document: str, props: FunctionProps) -> dict[str, str]:
    """
    Give the environment variables that the library itself needs.

    Args:
        scope: The construct with the function.
        document: The deployment document.
        props: How the function runs.

    Raises:
        ConfigurationError: There is no such ``log_level``.

    """
    level = props.get("log_level", "INFO")
    if not Token.is_unresolved(level) and level.upper() not in LEVELS:
        problem = f"log_level is {level!r}; it must be one of {', '.join(LEVELS)}, and is INFO if you omit it"
        raise ConfigurationError([problem], source=scope.node.path)
    return {
        deployment.VARIABLE: document,
        "POWERTOOLS_SERVICE_NAME": service_of(scope, props),
        "POWERTOOLS_METRICS_NAMESPACE": METRICS_NAMESPACE,
        "LOG_LEVEL": level,
    }


def add_function(
    scope: Construct,
    construct_id: str,
    *,
    description: str,
    code: lambda_.Code,
    environment: Mapping[str, str],
    timeout: timedelta,
    memory_mb: int,
    removal_policy: RemovalPolicy,
    without_dead_letter_queue: str,
    encryption_key: kms.IKey | None,
    reserved_concurrency: int | None = None,
    props: FunctionProps,
) -> DeployedFunction:
    """
    Add a function with a role that may write to its log group, and the alias that mappings and schedules invoke.

    Each deployment that changes the function publishes a version, and earlier ones stay. The reserved concurrency
    bounds all versions together.

    Args:
        scope: The construct to add it to; log group, role and alias get the ids ``Logs``, ``Role`` and ``Live`` there.
        construct_id: The id of the function.
        description: Shown in the console.
        code: The asset.
        environment: All environment variables.
        timeout: The function timeout.
        memory_mb: The memory.
        removal_policy: Whether to keep or delete the logs with the stack.
        without_dead_letter_queue: Why asynchronous invocations need no dead-letter queue.
        encryption_key: Your key for logs and variables, or None for those of AWS.
        reserved_concurrency: The reserved concurrency, none by default.
        props: How, where and as whom it runs.

    """
    log_group = logs.LogGroup(
        scope,
        "Logs",
        retention=props.get("log_retention", logs.RetentionDays.ONE_MONTH),
        encryption_key=encryption_key,
        removal_policy=removal_policy,
    )
    given = props.get("role")
    # The managed policy of Lambda's default role may write to every log group of the account.
    role = (
        iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        if given is None
        else role_here(scope, "Role", given)
    )
    function = lambda_.Function(
        scope,
        construct_id,
        description=description,
        code=code,
        handler=props.get("handler", HANDLER),
        runtime=RUNTIME,
        architecture=ARCHITECTURE,
        environment=environment,
        environment_encryption=encryption_key,
        timeout=Duration.seconds(int(timeout.total_seconds())),
        memory_size=memory_mb,
        reserved_concurrent_executions=reserved_concurrency,
        # AWS: after 16 hops of messages that handlers send on, to their lanes or through the outbox, Lambda would
        # refuse the invocation, and SQS would dead-letter the batch unhandled (Developer Guide, "recursive loop
        # detection"). Handlers often send on, and the reserved concurrency of the consumer bounds a loop.
        recursive_loop=lambda_.RecursiveLoop.ALLOW,
        log_group=log_group,
        # CloudFormation would delete the version before, which still has running invocations.
        current_version_options=lambda_.VersionOptions(
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
        ),
        role=given if isinstance(role, FixedRole) else role,
        vpc=props.get("vpc"),
        vpc_subnets=props.get("vpc_subnets"),
        security_groups=props.get("security_groups"),
        layers=props.get("layers"),
        tracing=props.get("tracing"),
    )
    grantee: iam.IGrantable = role if isinstance(role, FixedRole) else function
    # The group's own grant takes a role of another stack for one of another account, and would let that write to it.
    allow(grantee, ["logs:CreateLogStream", "logs:PutLogEvents"], [log_group.log_group_arn])
    if encryption_key is not None:
        allow_logs(encryption_key, scope)
        grant_key(encryption_key, grantee, ["kms:Decrypt"], scope=scope, service="lambda")
    if "vpc" in props:
        _grant_network_interfaces(grantee, role)
    if isinstance(role, FixedRole) and props.get("tracing") == lambda_.Tracing.ACTIVE:
        allow(grantee, ["xray:PutTraceSegments", "xray:PutTelemetryRecords"], ["*"])
    _acknowledge_findings(function, without_dead_letter_queue, props.get("tracing"))
    live = lambda_.Alias(scope, "Live", alias_name=ALIAS, version=function.current_version)
    return DeployedFunction(function, live, log_group, grantee)


def _acknowledge_findings(
    function: lambda_.Function, without_dead_letter_queue: str, tracing: lambda_.Tracing | None
) -> None:
    acknowledge(function, "Serverless::Serverless-LambdaDLQ", without_dead_letter_queue)
    if tracing in (None, lambda_.Tracing.DISABLED):
        acknowledge(
            function,
            "Serverless::Serverless-LambdaTracing",
            "X-Ray needs a permission on every resource; a message carries its trace in its traceparent",
        )
    resource = function.node.default_child
    if isinstance(resource, CfnResource):
        # The CDK lists the role under DependsOn although the function refers to it.
        resource.add_metadata("cfn-lint", {"config": {"ignore_checks": ["W3005"]}})


def _grant_network_interfaces(grantee: iam.IGrantable, role: iam.IRole | FixedRole) -> None:
    """
    Let Lambda attach the function to its VPC.

    AWS: these actions take no resource (Lambda Developer Guide, "Required IAM permissions"). The managed policy for it
    may also write to every log group of the account.
    """
    actions = (
        "CreateNetworkInterface",
        "DescribeNetworkInterfaces",
        "DescribeSubnets",
        "DeleteNetworkInterface",
        "AssignPrivateIpAddresses",
        "UnassignPrivateIpAddresses",
    )
    allow(grantee, [f"ec2:{action}" for action in actions], ["*"])
    if not isinstance(role, FixedRole):
        acknowledge_wildcard(role, "*", "Attaching a function to a VPC takes no resource")


def add_queue_mapping(
    scope: Construct,
    construct_id: str,
    *,
    target: lambda_.Alias,
    queue: sqs.IQueue,
    batch_size: int,
    max_concurrency: int,
    without_destination: str,
    metrics_config: lambda_.MetricsConfig | None = None,
) -> lambda_.EventSourceMapping:
    """Add a mapping of a queue with answers for each message; it needs no failure destination for a reason."""
    mapping = lambda_.EventSourceMapping(
        scope,
        construct_id,
        target=target,
        event_source_arn=queue.queue_arn,
        batch_size=batch_size,
        max_concurrency=max_concurrency,
        report_batch_item_failures=True,
        metrics_config=metrics_config,
    )
    acknowledge(
        mapping,
        "Serverless::Serverless-LambdaEventSourceMappingDestination",
        f"A mapping of SQS takes no failure destination; {without_destination}",
    )
    return mapping


@jsii.implements(IValidation)
class ForeignMappings:
    """
    The rule that a function has no other event source mappings than those of its construct.

    Args:
        function: The function.
        live: Its alias.
        own: The mappings of its construct.
        advice: What to do with the source of another one.

    """

    def __init__(
        self,
        function: lambda_.Function,
        live: lambda_.Alias,
        *,
        own: Collection[lambda_.EventSourceMapping],
        advice: str,
    ) -> None:
        self._function = function
        self._live = live
        self._own = {mapping.node.path for mapping in own}
        self._advice = advice

    def validate(self) -> list[str]:
        """Return a text for each mapping of another construct."""
        return [
            f"{node.node.path} maps {_source_of(node)} to the function {self._function.node.path}. {self._advice}"
            for node in self._function.node.root.node.find_all()
            if isinstance(node, lambda_.CfnEventSourceMapping)
            and not any(node.node.path.startswith(f"{path}/") for path in self._own)
            and self._is_target(node)
        ]

    def _is_target(self, node: lambda_.CfnEventSourceMapping) -> bool:
        names = [
            reference_from(node, self._function, name)
            for one in (self._function, self._live, self._function.current_version)
            for name in (one.function_name, one.function_arn)
        ]
        return Stack.of(node).resolve(node.function_name) in names


def _source_of(node: lambda_.CfnEventSourceMapping) -> str:
    """Name the source of a mapping: by its ARN if that is known, else by its reference in the template."""
    source = Stack.of(node).resolve(node.event_source_arn)
    return source if isinstance(source, str) else json.dumps(source)
