"""
The queues of the lanes: for each lane a FIFO queue and its FIFO dead-letter queue, with their grants and metrics.

The pull engine has one more, the bell.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from aws_cdk import Annotations, Duration, RemovalPolicy
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lanes.config import MAX_RECEIVES, EngineName, Lane, LanesConfig
from lanes.errors import ConfigurationError

from ..findings import acknowledge
from .bell import Bell
from .contradictions import MAX_RETENTION, refuse_contradictions
from .existing import ExistingLane, existing_lanes, label_of, needs_deduplication_id, resource_of
from .lost_events import LostEvents

# AWS: what a sender and a receiver of an encrypted queue need of its key (SQS Developer Guide, "Key management").
SENDING = ("kms:GenerateDataKey", "kms:Decrypt")
RECEIVING = ("kms:Decrypt",)


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
            retention=retention,
            removal_policy=removal_policy,
            encryption_key=encryption_key,
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
        encryption_key: kms.IKey | None,
        visibility_timeout: timedelta | None = None,
        dead_letter_queue: sqs.DeadLetterQueue | None = None,
    ) -> sqs.Queue:
        return sqs.Queue(
            self,
            construct_id,
            fifo=True,
            # Two messages with equal bodies are two messages: producers set the deduplication id.
            content_based_deduplication=False,
            deduplication_scope=sqs.DeduplicationScope.MESSAGE_GROUP,
            fifo_throughput_limit=sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
            encryption=sqs.QueueEncryption.SQS_MANAGED if encryption_key is None else sqs.QueueEncryption.KMS,
            encryption_master_key=encryption_key,
            enforce_ssl=True,
            retention_period=_duration(retention),
            visibility_timeout=None if visibility_timeout is None else _duration(visibility_timeout),
            dead_letter_queue=dead_letter_queue,
            removal_policy=removal_policy,
        )

    def grant_send(self, grantee: iam.IGrantable) -> iam.Grant:
        """
        Let ``grantee`` send to this lane and ring the bell, if there is one, and nothing else.

        Raises:
            ConfigurationError: Only the policy of an existing queue could allow it, which is not of this app.

        """
        grant = self._granted(self.queue, grantee, ["sqs:SendMessage"], key_actions=SENDING)
        return grant if self.bell is None else grant.combine(self.bell.grant_ring(grantee))

    def grant_consume(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` receive and delete messages of this lane, change their visibility and read their counts."""
        actions = [
            "sqs:ReceiveMessage",
            "sqs:DeleteMessage",
            "sqs:ChangeMessageVisibility",
            "sqs:GetQueueAttributes",
        ]
        return self._granted(self.queue, grantee, actions, key_actions=RECEIVING)

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
        if isinstance(queue, sqs.Queue):
            grant = queue.grant(grantee, *actions)
        else:
            # The policy of such a queue is its owner's; the CDK would report a grant that nothing allows.
            grant = iam.Grant.add_to_principal(
                grantee=grantee, actions=list(actions), resource_arns=[queue.queue_arn]
            )
            if not grant.success:
                problem = (
                    f"{grantee.grant_principal} can't be granted {label_of(queue)}, since neither has a policy in this "
                    "app; let the owner of the queue allow it, or grant it to a role"
                )
                raise ConfigurationError([problem], source=f"lane {self.lane.name}")
        key = queue.encryption_master_key
        return grant if key is None else grant.combine(key.grant(grantee, *key_actions))

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


class LaneQueues(Construct):
    """
    The queues of all lanes of a configuration, however many.

    Every queue is FIFO in high-throughput mode, encrypted by SQS and accepts TLS only. CloudFormation chooses the
    queue names. With ``engine = "pull"`` there is one more queue, the bell, with one group for each slot.

    A lane can use a queue that exists already. It stays as its owner defines it: settings with which it can't be a lane
    are refused here where this app defines it, and else found by ``lanes check``.

    Example:
        >>> queues = LaneQueues(stack, "Lanes", config=LanesConfig.load("lanes.toml"))
        >>> queues.grant_send(order_service_role)
        >>> queues.grant_send(backfill_role, "MAIN")

    Args:
        scope: The parent construct.
        construct_id: The id in the parent.
        config: The lanes.
        retention: How long a lane keeps a waiting message, by default 14 days, the maximum of SQS. An older message is
            lost, so shorten it only with an alarm on the age of the oldest message.
        max_receive_count: The receive limit of the queues, 1,000 by default. It is a last resort: SQS counts yields and
            throttles too, and the consumer itself dead-letters failed messages by attempts. A function that cannot
            run at all spends one receive per visibility timeout: 50 hours with the default of 3 minutes.
        encryption_key: Your key for the queues of the lanes; by default SQS encrypts them. Grants of these queues
            include what they need of it. The bell carries no data and stays with SQS.
        removal_policy: Whether to keep or delete the queues with the stack. They are kept by default.
        existing: Queues that other stacks or teams own, by lane name, as ARN or construct; none by default. For one
            that is encrypted with a key, pass ``Queue.from_queue_attributes(..., queue_arn=..., key_arn=...)``.
        dead_letter_queues: The dead-letter queues of those of them that this app does not define, by lane name.

    Raises:
        ConfigurationError: All contradictions between settings, and with limits of AWS, at once; or all settings
            with which an existing queue can't be a lane.

    Attributes:
        config: The lanes.
        lanes: One :class:`LaneQueue` for each lane, highest first.
        bell: The bell of the pull engine; None with mappings.

    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        config: LanesConfig,
        retention: timedelta = MAX_RETENTION,
        max_receive_count: int = MAX_RECEIVES,
        encryption_key: kms.IKey | None = None,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        existing: Mapping[str, sqs.IQueue | str] | None = None,
        dead_letter_queues: Mapping[str, sqs.IQueue | str] | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        refuse_contradictions(config, retention=retention, max_receive_count=max_receive_count)
        self.config = config
        found = existing_lanes(
            self, config=config, queues=existing or {}, dead_letter_queues=dead_letter_queues or {}
        )
        # No lane's name begins with a small letter.
        self.bell = (
            Bell(self, "bell", function_timeout=config.consumer.function_timeout)
            if config.consumer.engine is EngineName.PULL
            else None
        )
        self.lanes: tuple[LaneQueue, ...] = tuple(
            LaneQueue(
                self,
                lane.name,
                lane=lane,
                retention=retention,
                max_receive_count=max_receive_count,
                removal_policy=removal_policy,
                bell=self.bell,
                encryption_key=encryption_key,
                existing=found.get(lane.name),
            )
            for lane in config.lanes
        )
        self._add_notes()
        self.node.add_validation(
            LostEvents(self, [lane for lane in self.lanes if needs_deduplication_id(lane.queue)])
        )

    def lane(self, name: str) -> LaneQueue:
        """
        Find the queues of one lane.

        Args:
            name: The name of the lane in the configuration.

        Raises:
            KeyError: There is no such lane.

        """
        return self.lanes[self.config.lane(name).position]

    def grant_send(self, grantee: iam.IGrantable, lane: str | None = None) -> iam.Grant:
        """
        Let a producer send.

        Args:
            grantee: The producer.
            lane: The name of the one lane to grant, or None for all lanes.

        Returns:
            The grant of ``sqs:SendMessage`` on these queues, and on the bell if there is one.

        """
        queues = self.lanes if lane is None else (self.lane(lane),)
        return _combined([queue.grant_send(grantee) for queue in queues])

    def _add_notes(self) -> None:
        for lane in self.lanes:
            resource = resource_of(lane.queue)
            if resource is not None and resource.content_based_deduplication:
                Annotations.of(self).add_info_v2(
                    f"lanes:deduplication{lane.lane.name}",
                    f"Lane {lane.lane.name}: {label_of(lane.queue)} has content-based deduplication: of equal bodies "
                    "from senders that set no deduplication id, SQS drops all but one within five minutes.",
                )


def _combined(grants: Sequence[iam.Grant]) -> iam.Grant:
    first, *others = grants
    for grant in others:
        first = first.combine(grant)
    return first


def _duration(value: timedelta) -> Duration:
    return Duration.seconds(int(value.total_seconds()))
