"""Lambda functions as this package deploys them: runtime, role, logs, variables, versions and acknowledged findings."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TypedDict

from aws_cdk import CfnResource, Duration, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from lanes.config import deployment

from ..findings import acknowledge

RUNTIME = lambda_.Runtime.PYTHON_3_14
ARCHITECTURE = lambda_.Architecture.ARM_64
METRICS_NAMESPACE = "PriorityLanes"
ALIAS = "live"


class FunctionProps(TypedDict, total=False):
    """
    Where and as whom a function runs; each construct with a function takes these as keyword arguments.

    A function in a VPC reaches SQS, DynamoDB, SSM and CloudWatch Logs through a NAT gateway or through endpoints of the
    VPC, which you add.

    Attributes:
        vpc: The VPC of the resource that your handlers use, none by default.
        vpc_subnets: Its subnets, by default the private ones.
        security_groups: By default a new group that may connect to everything.
        layers: Layers with code of yours or of a vendor, none by default.
        tracing: X-Ray's tracing of invocations, off by default.
        role: A role of your own. The constructs add what the function needs; it must trust Lambda. By default each
            function has one.
    """

    vpc: ec2.IVpc
    vpc_subnets: ec2.SubnetSelection
    security_groups: Sequence[ec2.ISecurityGroup]
    layers: Sequence[lambda_.ILayerVersion]
    tracing: lambda_.Tracing
    role: iam.IRole


def own_variables(document: str, *, service: str, log_level: str) -> dict[str, str]:
    """
    Give the environment variables that the library itself needs.

    Args:
        document: The deployment document.
        service: The service name in logs and metrics.
        log_level: The lowest level to log.

    """
    return {
        deployment.VARIABLE: document,
        "POWERTOOLS_SERVICE_NAME": service,
        "POWERTOOLS_METRICS_NAMESPACE": METRICS_NAMESPACE,
        "LOG_LEVEL": log_level,
    }


def add_function(
    scope: Construct,
    construct_id: str,
    *,
    description: str,
    code: lambda_.Code,
    handler: str,
    environment: Mapping[str, str],
    timeout: timedelta,
    memory_mb: int,
    log_group: logs.ILogGroup,
    without_dead_letter_queue: str,
    reserved_concurrency: int | None = None,
    recursive_loop: lambda_.RecursiveLoop | None = None,
    props: FunctionProps,
) -> lambda_.Function:
    """
    Add a function with a role that may write to its log group.

    Args:
        scope: The construct to add it to; a role that it makes gets the id ``Role`` there.
        construct_id: The id of the function.
        description: Shown in the console.
        code: The asset.
        handler: Module and function in the asset.
        environment: All environment variables.
        timeout: The function timeout.
        memory_mb: The memory.
        log_group: The log group.
        without_dead_letter_queue: Why asynchronous invocations need no dead-letter queue.
        reserved_concurrency: The reserved concurrency, none by default.
        recursive_loop: How Lambda treats recursive invocations; by default it stops them.
        props: Where and as whom it runs.

    """
    function = lambda_.Function(
        scope,
        construct_id,
        description=description,
        code=code,
        handler=handler,
        runtime=RUNTIME,
        architecture=ARCHITECTURE,
        environment=environment,
        timeout=Duration.seconds(int(timeout.total_seconds())),
        memory_size=memory_mb,
        reserved_concurrent_executions=reserved_concurrency,
        recursive_loop=recursive_loop,
        log_group=log_group,
        # CloudFormation would delete the version before, which still has running invocations.
        current_version_options=lambda_.VersionOptions(
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
        ),
        # The managed policy of Lambda's default role may write to every log group of the account.
        role=props.get("role")
        or iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com")),
        vpc=props.get("vpc"),
        vpc_subnets=props.get("vpc_subnets"),
        security_groups=props.get("security_groups"),
        layers=props.get("layers"),
        tracing=props.get("tracing"),
    )
    log_group.grant_write(function)
    if "vpc" in props:
        _grant_network_interfaces(function)
    acknowledge(function, "Serverless::Serverless-LambdaDLQ", without_dead_letter_queue)
    if props.get("tracing") in (None, lambda_.Tracing.DISABLED):
        acknowledge(
            function,
            "Serverless::Serverless-LambdaTracing",
            "X-Ray needs a permission on every resource; a message carries its trace in its traceparent",
        )
    resource = function.node.default_child
    if isinstance(resource, CfnResource):
        # The CDK lists the role under DependsOn although the function refers to it.
        resource.add_metadata("cfn-lint", {"config": {"ignore_checks": ["W3005"]}})
    return function


def _grant_network_interfaces(function: lambda_.Function) -> None:
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
    function.add_to_role_policy(
        iam.PolicyStatement(actions=[f"ec2:{action}" for action in actions], resources=["*"])
    )


def add_live_alias(scope: Construct, function: lambda_.Function) -> lambda_.Alias:
    """
    Add the alias that mappings and schedules invoke, on the version of this deployment.

    Each deployment that changes the function publishes a version, and earlier ones stay. The
    reserved concurrency bounds all versions together.

    Args:
        scope: The construct to add it to, with the id ``Live``.
        function: The function.

    """
    return lambda_.Alias(scope, "Live", alias_name=ALIAS, version=function.current_version)
