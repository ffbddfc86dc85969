"""
The queues of the lanes: per lane a FIFO queue and its FIFO dead-letter queue.

Owns the constructs ``LaneQueue`` (one lane) and ``LaneQueues`` (all lanes of a configuration), and what may
be granted on them: send, consume, dead-letter.
"""

from collections.abc import Sequence
from datetime import timedelta

from aws_cdk import Acknowledgment, Duration, RemovalPolicy, Validations
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lanes.config import Lane, LanesConfig

from .contradictions import LONGEST_RETENTION, refuse_contradictions
from .receive_budget import MOST_RECEIVES


class LaneQueue(Construct):
    """
    One lane: its FIFO queue and its FIFO dead-letter queue.

    Made by :class:`LaneQueues`; not meant to be built alone.

    Attributes:
        lane: The lane's settings.
        retention: How long the queue keeps a message.
        queue: The queue that producers send to.
        dead_letter_queue: Where the consumer puts messages that it gave up.

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
    ) -> None:
        super().__init__(scope, construct_id)
        self.lane = lane
        self.retention = retention
        self.dead_letter_queue = self._fifo_queue(
            "DeadLetterQueue", retention=LONGEST_RETENTION, removal_policy=removal_policy
        )
        Validations.of(self.dead_letter_queue).acknowledge(
            Acknowledgment(
                id="Serverless::Serverless-SQSRedrivePolicy",
                reason="This is the dead-letter queue; its messages go nowhere further by themselves",
            )
        )
        self.queue = self._fifo_queue(
            "Queue",
            retention=retention,
            removal_policy=removal_policy,
            visibility_timeout=lane.visibility_timeout,
            dead_letter_queue=sqs.DeadLetterQueue(
                max_receive_count=max_receive_count, queue=self.dead_letter_queue
            ),
        )

    def _fifo_queue(
        self,
        construct_id: str,
        *,
        retention: timedelta,
        removal_policy: RemovalPolicy,
        visibility_timeout: timedelta | None = None,
        dead_letter_queue: sqs.DeadLetterQueue | None = None,
    ) -> sqs.Queue:
        return sqs.Queue(
            self,
            construct_id,
            fifo=True,
            # Two messages of equal bodies are two messages: producers give the deduplication id.
            content_based_deduplication=False,
            deduplication_scope=sqs.DeduplicationScope.MESSAGE_GROUP,
            fifo_throughput_limit=sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=_duration(retention),
            visibility_timeout=None if visibility_timeout is None else _duration(visibility_timeout),
            dead_letter_queue=dead_letter_queue,
            removal_policy=removal_policy,
        )

    def grant_send(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` send to this lane, and nothing else."""
        return self.queue.grant(grantee, "sqs:SendMessage")

    def grant_consume(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` receive, hide and delete messages of this lane and read their counts."""
        return self.queue.grant(
            grantee,
            "sqs:ReceiveMessage",
            "sqs:DeleteMessage",
            "sqs:ChangeMessageVisibility",
            "sqs:GetQueueAttributes",
        )

    def grant_dead_letter(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` put messages into this lane's dead-letter queue."""
        return self.dead_letter_queue.grant(grantee, "sqs:SendMessage")

    def metric_backlog(self, *, period: timedelta = timedelta(minutes=1)) -> cloudwatch.Metric:
        """Messages that wait to be received (the most in each period)."""
        return self.queue.metric_approximate_number_of_messages_visible(
            statistic="Maximum", period=_duration(period)
        )

    def metric_in_flight(self, *, period: timedelta = timedelta(minutes=1)) -> cloudwatch.Metric:
        """Messages received, not deleted: running, held for a slot, or parked (the most in each period)."""
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

        The visible count, since NumberOfMessagesSent misses what SQS moves there by itself.
        """
        return self.dead_letter_queue.metric_approximate_number_of_messages_visible(
            statistic="Maximum", period=_duration(period)
        )


class LaneQueues(Construct):
    """
    The queues of all lanes of a configuration, in any number.

    Every queue is FIFO in high-throughput mode, encrypted by SQS and reached over TLS only. Queue names are
    left to CloudFormation.

    Example:
        >>> queues = LaneQueues(stack, "Lanes", config=LanesConfig.load("lanes.toml"))
        >>> queues.grant_send(order_service_role)
        >>> queues.grant_send(backfill_role, "MAIN")

    Args:
        scope: The construct that holds this one.
        construct_id: Its id there.
        config: The lanes.
        retention: How long a lane keeps a message that nobody handles, 14 days by default, the most SQS
            allows. What outlives it is lost, so it should only be shortened with an alarm on the oldest
            message's age.
        max_receive_count: The queues' own limit of receives, 1,000 by default. A last resort: SQS counts
            yields and throttles too. The consumer gives up failed messages itself, by attempts. A function that
            can't run at all spends one receive per visibility timeout: 50 hours with the default of 3 minutes.
        removal_policy: What becomes of the queues when they leave the stack. They stay by default.

    Raises:
        ConfigurationError: Settings that contradict each other or what AWS allows, all of them at once.

    Attributes:
        config: The configuration that the queues were made from.
        lanes: One :class:`LaneQueue` per lane, highest first.

    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        config: LanesConfig,
        retention: timedelta = LONGEST_RETENTION,
        max_receive_count: int = MOST_RECEIVES,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN,
    ) -> None:
        super().__init__(scope, construct_id)
        refuse_contradictions(config, retention=retention, max_receive_count=max_receive_count)
        self.config = config
        self.lanes: tuple[LaneQueue, ...] = tuple(
            LaneQueue(
                self,
                lane.name,
                lane=lane,
                retention=retention,
                max_receive_count=max_receive_count,
                removal_policy=removal_policy,
            )
            for lane in config.lanes
        )

    def lane(self, name: str) -> LaneQueue:
        """
        Find one lane's queues.

        Args:
            name: The lane's name in the configuration.

        Raises:
            KeyError: There's no such lane.

        """
        return self.lanes[self.config.lane(name).position]

    def grant_send(self, grantee: iam.IGrantable, lane: str | None = None) -> iam.Grant:
        """
        Let a producer send.

        Args:
            grantee: Who may send.
            lane: The name of the only lane to grant, or None for all lanes.

        Returns:
            The grant, which covers ``sqs:SendMessage`` on these queues and nothing else.

        """
        queues = self.lanes if lane is None else (self.lane(lane),)
        return _combined([queue.grant_send(grantee) for queue in queues])


def _combined(grants: Sequence[iam.Grant]) -> iam.Grant:
    first, *others = grants
    for grant in others:
        first = first.combine(grant)
    return first


def _duration(value: timedelta) -> Duration:
    return Duration.seconds(int(value.total_seconds()))
