"""
The queues of the lanes: for each lane a FIFO queue and its FIFO dead-letter queue, with their grants and metrics.

The pull engine has one more, the bell.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import jsii
from aws_cdk import Annotations, RemovalPolicy, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IConstruct, IValidation

from lanes.config import MAX_RECEIVES, EngineName, LanesConfig

from ..encryption import refuse_key_elsewhere
from ..findings import reference_from
from ..props import checked
from .bell import Bell
from .contradictions import MAX_RETENTION, refuse_contradictions
from .existing import existing_lanes, label_of, needs_deduplication_id, resource_of
from .lane_queue import LaneQueue, queues_of

ADVICE = (
    "EventBridge can't give the deduplication id that a lane needs, so SQS would refuse each event and the rule would "
    "report no failure. Let it target a standard queue, and a pipe from there set MessageDeduplicationId"
)


class LaneQueues(Construct):
    """
    The queues of all lanes of a configuration, however many.

    Every queue is FIFO in high-throughput mode, encrypted by SQS and accepts TLS only. CloudFormation chooses the
    queue names, unless you do. With ``engine = "pull"`` there is one more queue, the bell, with one group for each
    slot.

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
        encryption_key: Your key for the queues and for all constructs that you give these lanes: failure queues, logs,
            variables of functions, the outbox, schedules and bulk jobs; a :class:`Ledger` has its own. By default AWS
            encrypts all of them with its keys. Grants include the use of the key through the service alone.
            For a key that this app does not define, synthesis prints what its policy must allow.
        removal_policy: Whether to keep or delete the queues with the stack. They are kept by default.
        existing: Queues that other stacks or teams own, by lane name, as ARN or construct; none by default. For one
            that is encrypted with a key, pass ``Queue.from_queue_attributes(..., queue_arn=..., key_arn=...)``.
        dead_letter_queues: The dead-letter queues of those of them that this app does not define, by lane name.
        queue_names: Fixed names by lane name, such as ``orders.fifo``, for programs that know their queue by its name;
            the dead-letter queue is then ``orders-dead.fifo``. None by default. Another name is another queue.

    Raises:
        ConfigurationError: All contradictions between settings, and with limits of AWS, at once; or all settings
            with which an existing queue can't be a lane.

    Attributes:
        config: The lanes.
        lanes: One :class:`LaneQueue` for each lane, highest first.
        bell: The bell of the pull engine; None with mappings.
        encryption_key: Your key, or None.

    """

    @checked
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
        queue_names: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        refuse_key_elsewhere(self, encryption_key)
        names = queue_names or {}
        refuse_contradictions(
            config,
            retention=retention,
            max_receive_count=max_receive_count,
            names=names,
            existing=existing or (),
        )
        self.config = config
        self.encryption_key = encryption_key
        found = existing_lanes(
            self, config=config, queues=existing or {}, dead_letter_queues=dead_letter_queues or {}
        )
        # No lane's name begins with a small letter.
        self.bell = (
            Bell(
                self,
                "bell",
                function_timeout=config.consumer.function_timeout,
                encryption_key=encryption_key,
            )
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
                name=names.get(lane.name),
            )
            for lane in config.lanes
        )
        self._add_notes()
        self.node.add_validation(
            LostEvents(self, [lane for lane in self.lanes if needs_deduplication_id(lane.queue)])
        )
        self.node.add_validation(SharedQueues(self))
        self.node.add_validation(SecondReaders(self))

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


@jsii.implements(IValidation)
class SharedQueues:
    """
    The rule that no queue is a lane's of two sets of lanes.

    Args:
        queues: The lanes of one set.

    """

    def __init__(self, queues: LaneQueues) -> None:
        self._queues = queues

    def validate(self) -> list[str]:
        """Return a text for each queue that an earlier set of the app has too."""
        own = queues_of(self._queues.lanes)
        found = []
        for node in self._queues.node.root.node.find_all():
            if node.node.path == self._queues.node.path:
                break
            if isinstance(node, LaneQueues):
                found += [
                    f"{label_of(queue)} is for {own[name][0]} here and for {role} of {node.node.path}: each function "
                    "would take messages of the other's; each set of lanes needs its own queues"
                    for name, (role, queue) in queues_of(node.lanes).items()
                    if name in own
                ]
        return found


@jsii.implements(IValidation)
class SecondReaders:
    """
    The rule that one function alone receives from a lane, or from the bell, which hold the limit of its slots.

    A queue that exists already may still have the mapping of its earlier function; ``lanes check`` reports that one.

    Args:
        queues: The lanes of one set.

    """

    def __init__(self, queues: LaneQueues) -> None:
        self._queues = queues

    def validate(self) -> list[str]:
        """Return a text for each queue that several enabled mappings read."""
        queues = [one.queue for one in self._queues.lanes if not one.is_existing]
        if self._queues.bell is not None:
            queues.append(self._queues.bell.queue)
        mappings = [
            (node, Stack.of(node).resolve(node.event_source_arn))
            for node in self._queues.node.root.node.find_all()
            if isinstance(node, lambda_.CfnEventSourceMapping) and node.enabled is not False
        ]
        found = []
        for queue in queues:
            readers = [
                node.node.path
                for node, source in mappings
                if source is not None and source == reference_from(node, queue, queue.queue_arn)
            ]
            if len(readers) > 1:
                found.append(
                    f"{queue.node.path} is read by {' and '.join(readers)}: each function would take messages of the "
                    "other's, beside its slots; each consumer needs its own lanes"
                )
        return found


@jsii.implements(IValidation)
class LostEvents:
    """
    The rule that no rule or schedule targets a lane.

    Args:
        scope: A construct of the app.
        lanes: The lanes that need a deduplication id, each with its ``queue``.

    """

    def __init__(self, scope: IConstruct, lanes: Sequence[Any]) -> None:
        self._scope = scope
        self._lanes = lanes

    def validate(self) -> list[str]:
        """Return a text for each target that is a lane."""
        found = []
        for node in self._scope.node.root.node.find_all():
            if isinstance(node, events.CfnRule):
                targets = Stack.of(node).resolve(node.targets) or []
            elif isinstance(node, scheduler.CfnSchedule):
                targets = [Stack.of(node).resolve(node.target)]
            else:
                continue
            # A schedule's universal target has the ARN of an action, and may set every parameter.
            arns = [arn for target in targets if (arn := target.get("arn")) is not None]
            found += [
                f"{node.node.path} targets the lane {lane.lane.name}. {ADVICE}"
                for lane in self._lanes
                if reference_from(node, lane.queue, lane.queue.queue_arn) in arns
            ]
        return found
