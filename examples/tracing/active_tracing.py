"""Let Lambda record the invocations of the consumer with X-Ray, in a CDK app of your own."""

from aws_cdk import CfnResource
from aws_cdk import aws_iam as iam
from lanes_cdk import PriorityConsumer


def trace_actively(consumer: PriorityConsumer) -> None:
    """Turn on active tracing and grant its two actions, which X-Ray defines for all resources only."""
    function = consumer.function.node.default_child
    assert isinstance(function, CfnResource)  # noqa: S101 - the function of the construct is always one
    function.add_property_override("TracingConfig.Mode", "Active")
    consumer.function.add_to_role_policy(
        iam.PolicyStatement(
            actions=["xray:PutTraceSegments", "xray:PutTelemetryRecords"],
            resources=["*"],
        )
    )
