"""The bell of the pull engine: the queue that starts its invocations, and the schedule of the heartbeat."""

import json
from collections.abc import Sequence
from datetime import timedelta

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lanes import bell

from ..encryption import RECEIVING, SENDING, allow_events, grant_key, queue_encryption
from ..findings import acknowledge


class Bell(Construct):
    """
    The FIFO queue that starts the invocations of the pull engine.

    A ring says nothing but "look": losing one costs at most 20 seconds, so the queue has no dead-letter queue and goes
    with the stack. :class:`LaneQueues` makes it; do not build it yourself.

    Attributes:
        queue: The queue.
        heartbeat: The schedule of the heartbeat.

    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        function_timeout: timedelta,
        encryption_key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, construct_id)
        visibility = function_timeout.total_seconds() + bell.VISIBILITY_MARGIN
        self.queue = sqs.Queue(
            self,
            "Queue",
            fifo=True,
            # For the heartbeat: EventBridge sets no deduplication id.
            content_based_deduplication=True,
            encryption=queue_encryption(encryption_key),
            encryption_master_key=encryption_key,
            enforce_ssl=True,
            retention_period=Duration.seconds(bell.RETENTION),
            visibility_timeout=Duration.seconds(int(visibility)),
            removal_policy=RemovalPolicy.DESTROY,
        )
        for finding in ("Serverless::Serverless-SQSRedrivePolicy", "AwsSolutions::AwsSolutions-SQS3"):
            acknowledge(self.queue, finding, "A ring carries no data, and the heartbeat replaces a lost one")
        if encryption_key is not None:
            allow_events(encryption_key, self)
        self.heartbeat = self._add_heartbeat()

    def grant_ring(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` ring, and nothing else."""
        return self._with_key(self.queue.grant(grantee, "sqs:SendMessage"), grantee, SENDING)

    def grant_answer(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let the function, and its mapping with the function's role, receive rings, delete and return them."""
        grant = self.queue.grant(
            grantee,
            "sqs:ReceiveMessage",
            "sqs:DeleteMessage",
            "sqs:ChangeMessageVisibility",
            "sqs:GetQueueAttributes",
        )
        return self._with_key(grant, grantee, RECEIVING)

    def _with_key(self, grant: iam.Grant, grantee: iam.IGrantable, actions: Sequence[str]) -> iam.Grant:
        key = self.queue.encryption_master_key
        if key is None:
            return grant
        return grant.combine(grant_key(key, grantee, actions, scope=self, service="sqs"))

    def metric_rings(self, *, period: timedelta = timedelta(minutes=1)) -> cloudwatch.Metric:
        """Rings that the queue accepted; those of one second are one (sum of each period)."""
        return self.queue.metric_number_of_messages_sent(
            statistic="Sum", period=Duration.seconds(int(period.total_seconds()))
        )

    def metric_waiting(self, *, period: timedelta = timedelta(minutes=1)) -> cloudwatch.Metric:
        """Rings that no invocation has taken (maximum of each period)."""
        return self.queue.metric_approximate_number_of_messages_visible(
            statistic="Maximum", period=Duration.seconds(int(period.total_seconds()))
        )

    def _add_heartbeat(self) -> events.Rule:
        # AWS: a rate has whole minutes (EventBridge User Guide, "Rate expressions").
        rule = events.Rule(
            self,
            "Heartbeat",
            description="The heartbeat of the pull engine; SQS accepts one of these in five minutes",
            schedule=events.Schedule.rate(Duration.seconds(bell.HEARTBEAT_EVERY)),
            targets=[
                targets.SqsQueue(
                    self.queue,
                    # Constant, so that its deduplication id is too.
                    message=events.RuleTargetInput.from_object(json.loads(bell.BODY)),
                    message_group_id=bell.HEARTBEAT,
                )
            ],
        )
        acknowledge(
            rule,
            "Serverless::Serverless-EventBusDLQ",
            "The next heartbeat follows within a minute, and an alarm fires when none starts an invocation",
        )
        return rule
