"""A queue for the failed deliveries of a service of AWS."""

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from ..findings import acknowledge
from .contradictions import MAX_RETENTION


def add_failure_queue(scope: Construct, construct_id: str, removal_policy: RemovalPolicy) -> sqs.Queue:
    """
    Add a standard queue that keeps failures for two weeks.

    AWS: Scheduler, EventBridge and mappings of streams take a standard queue for this (Scheduler User Guide,
    "Configuring a dead-letter queue").
    """
    queue = sqs.Queue(
        scope,
        construct_id,
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        retention_period=Duration.days(MAX_RETENTION.days),
        removal_policy=removal_policy,
    )
    for finding in ("Serverless::Serverless-SQSRedrivePolicy", "AwsSolutions::AwsSolutions-SQS3"):
        acknowledge(queue, finding, "It is a failure destination itself and needs no dead-letter queue")
    return queue
