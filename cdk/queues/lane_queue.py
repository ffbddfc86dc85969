"""The two queues of one lane, made or taken as they are, with their grants and metrics."""

from collections.abc import Sequence
from datetime import timedelta

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lanes.config import Lane

from ..encryption import RECEIVING, SENDING, queue_encryption
from ..findings import acknowledge
from .bell import Bell
from .contradictions import MAX_RETENTION, dead_letter_name
from .existing import ExistingLane, granted, label_of, resource_of

NO_SOURCES = sqs.RedriveAllowPolicy(redrive_permission=sqs.RedrivePermission.DENY_ALL)
"""No other queue may have this one as its dead-letter queue; by default all of the account may."""


class LaneQueue(Construct):
    """
    One lane: its FIFO queue and its FIFO dead-letter queue.

    :class:`LaneQueues` makes it; do not build it yourself.

    Attributes:
        lane: The settings of the lane.
        retention: How long the queue keeps a message; 4 days, SQS's default, for one that this app does not define.
        queue: The queue that producers send to.
        dead_letter_queue: The queue for messages that the consumer dead-letters.
        is_existing: Whether the queues were there before, in another stack or another team's.
        bell: The bell that senders ring, or None.

    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        lane: Lane,
        retention: timedelta,
        max_receive_count: int,
        removal_policy: RemovalPolicy,
        bell: Bell | None,
        encryption_key: kms.IKey | None,
        existing: ExistingLane | None,
        name: str | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.lane = lane
        self.bell = bell
        self.is_existing = existing is not None
        self.queue: sqs.IQueue
        self.dead_letter_queue: sqs.IQueue
        if existing is not None:
            self.retention = existing.retention
            self.queue, self.dead_letter_queue = existing.queue, existing.dead_letter_queue
            return
        self.retention = retention
        self.dead_letter_queue = self._fifo_queue(
            "DeadLetterQueue",
            name=None if name is None else dead_letter_name(name),
            retention=MAX_RETENTION,
            removal_policy=removal_policy,
            encryption_key=encryption_key,
        )
        acknowledge(
            self.dead_letter_queue,
            "Serverless::Serverless-SQSRedrivePolicy",
            "This is the dead-letter queue itself and needs no other",
        )
        self.queue = self._fifo_queue(
            "Queue",
            name=name,
            retention=retention,
            removal_policy=removal_policy,
            encryption_key=encryption_key,
            visibility_timeout=lane.visibility_timeout,
            dead_letter_queue=sqs.DeadLetterQueue(
                max_receive_count=max_receive_count, queue=self.dead_letter_queue
            ),
            # The dead-letter queue can't name its source: CloudFormation makes it first.
            redrive_allow_policy=NO_SOURCES,
        )

    def _fifo_queue(
        self,
        construct_id: str,
        *,
        name: str | None,
        retention: timedelta,
        removal_policy: RemovalPolicy,
        encryption_key: kms.IKey | None,
        visibility_timeout: timedelta | None = None,
        dead_letter_queue: sqs.DeadLetterQueue | None = None,
        redrive_allow_policy: sqs.RedriveAllowPolicy | None = None,
    ) -> sqs.Queue:
        return sqs.Queue(
            self,
            construct_id,
            queue_name=name,
            fifo=True,
            # Two messages with equal bodies are two messages: producers set the deduplication id.
            content_based_deduplication=False,
            deduplication_scope=sqs.DeduplicationScope.MESSAGE_GROUP,
            fifo_throughput_limit=sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
            encryption=queue_encryption(encryption_key),
            encryption_master_key=encryption_key,
            enforce_ssl=True,
            retention_period=_duration(retention),
            visibility_timeout=None if visibility_timeout is None else _duration(visibility_timeout),
            dead_letter_queue=dead_letter_queue,
            redrive_allow_policy=redrive_allow_policy,
            removal_policy=removal_policy,
        )

    def grant_send(self, grantee: iam.IGrantable) -> iam.Grant:
        """
        Let ``grantee`` send to this lane and ring the bell, if there is one, and nothing else.

        Raises:
            ConfigurationError: Only the policy of an existing queue could allow it, which is not of this app.

        """
        grant = self.grant_deliver(grantee)
        return grant if self.bell is None else grant.combine(self.bell.grant_ring(grantee))

    def grant_deliver(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let a service of AWS, which can't ring the bell, send to this lane; errors as of ``grant_send``."""
        return self._granted(self.queue, grantee, ["sqs:SendMessage"], key_actions=SENDING)

    def grant_consume(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` receive and delete messages of this lane, change their visibility and read their counts."""
        actions = [
            "sqs:ReceiveMessage",
            "sqs:DeleteMessage",
            "sqs:ChangeMessageVisibility",
            "sqs:GetQueueAttributes",
        ]
        return self._granted(self.queue, grantee, actions, key_actions=RECEIVING)

    def grant_count(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` read the counts of this lane."""
        return self._granted(self.queue, grantee, ["sqs:GetQueueAttributes"], key_actions=())

    def grant_dead_letter(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` send to the dead-letter queue of this lane."""
        return self._granted(self.dead_letter_queue, grantee, ["sqs:SendMessage"], key_actions=SENDING)

    def _granted(
        self,
        queue: sqs.IQueue,
        grantee: iam.IGrantable,
        actions: Sequence[str],
        *,
        key_actions: Sequence[str],
    ) -> iam.Grant:
        return granted(queue, grantee, actions, key_actions=key_actions, source=f"lane {self.lane.name}")

    def metric_backlog(self, *, period: timedelta = timedelta(minutes=1)) -> cloudwatch.Metric:
        """Visible messages (maximum of each period)."""
        return self.queue.metric_approximate_number_of_messages_visible(
            statistic="Maximum", period=_duration(period)
        )

    def metric_in_flight(self, *, period: timedelta = timedelta(minutes=1)) -> cloudwatch.Metric:
        """Messages in flight: running, undelivered or parked (maximum of each period)."""
        return self.queue.metric_approximate_number_of_messages_not_visible(
            statistic="Maximum", period=_duration(period)
        )

    def metric_oldest_age(self, *, period: timedelta = timedelta(minutes=1)) -> cloudwatch.Metric:
        """Age of the oldest message, in seconds."""
        return self.queue.metric_approximate_age_of_oldest_message(
            statistic="Maximum", period=_duration(period)
        )

    def metric_dead_letters(self, *, period: timedelta = timedelta(minutes=1)) -> cloudwatch.Metric:
        """
        Messages in the dead-letter queue.

        This is the visible count: NumberOfMessagesSent misses the messages that SQS moves there itself.
        """
        return self.dead_letter_queue.metric_approximate_number_of_messages_visible(
            statistic="Maximum", period=_duration(period)
        )


def queues_of(lanes: Sequence[LaneQueue]) -> dict[str, tuple[str, sqs.IQueue]]:
    """Give the queues of lanes with their roles, by ARN where it is known, else by a name of the environment."""
    return {
        _identity(queue): (role, queue)
        for lane in lanes
        for role, queue in (
            (f"lane {lane.lane.name}", lane.queue),
            (f"dead letters of {lane.lane.name}", lane.dead_letter_queue),
        )
    }


def _identity(queue: sqs.IQueue) -> str:
    resource, stack = resource_of(queue), Stack.of(queue)
    # The CDK has a reference there for a name that CloudFormation will give.
    name = None if resource is None else stack.resolve(resource.queue_name)
    return label_of(queue) if name is None else f"{stack.environment}/{name}"


def _duration(value: timedelta) -> Duration:
    return Duration.seconds(int(value.total_seconds()))


def add_failure_queue(
    scope: Construct, construct_id: str, removal_policy: RemovalPolicy, *, encryption_key: kms.IKey | None
) -> sqs.Queue:
    """
    Add a standard queue that keeps failures for two weeks.

    AWS: Scheduler, EventBridge and mappings of streams take a standard queue for this (Scheduler User Guide,
    "Configuring a dead-letter queue").
    """
    queue = sqs.Queue(
        scope,
        construct_id,
        encryption=queue_encryption(encryption_key),
        encryption_master_key=encryption_key,
        enforce_ssl=True,
        redrive_allow_policy=NO_SOURCES,
        retention_period=Duration.days(MAX_RETENTION.days),
        removal_policy=removal_policy,
    )
    for finding in ("Serverless::Serverless-SQSRedrivePolicy", "AwsSolutions::AwsSolutions-SQS3"):
        acknowledge(queue, finding, "It is a failure destination itself and needs no dead-letter queue")
    return queue
