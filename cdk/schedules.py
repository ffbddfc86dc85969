"""Schedules: the group and role of EventBridge Scheduler, and the periodic messages of the configuration."""

import json
from typing import cast

from aws_cdk import RemovalPolicy, Resource, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct, IConstruct

from lanes.config import Schedule
from lanes.errors import ConfigurationError
from lanes.schedules import (
    LARGEST_INPUT_BYTES,
    LATER,
    PERIODIC,
    SEND_MESSAGE,
    Scheduler,
    expression_of,
    occurrence,
)

from .encryption import SCHEDULING, SENDING, grant_key
from .findings import acknowledge_wildcard
from .props import checked
from .queues.lane_queue import add_failure_queue
from .queues.lane_queues import LaneQueues
from .rights import allow

SCHEDULER = "scheduler.amazonaws.com"


class Schedules(Construct):
    """
    A schedule group of EventBridge Scheduler, with a role that may send to the lanes.

    It has a schedule for each of ``[[schedules]]`` in the configuration. Producers with :meth:`grant_send_later` add
    messages for later to the group.

    Example:
        >>> schedules = Schedules(stack, "Schedules", queues=queues)
        >>> schedules.grant_send_later(order_service_role)

    Args:
        scope: The parent construct.
        construct_id: The id in the parent.
        queues: The lanes to send to.
        removal_policy: Whether to keep or delete the group, with the messages for later in it, the role that sends them
            and the queue with the stack. They are kept by default, and only together: a kept message whose role is
            gone would be lost when it is due.

    Raises:
        ConfigurationError: The data of a schedule is too large, or its lane does not take its kind.

    Attributes:
        group: The schedule group.
        role: The role of Scheduler.
        undelivered: The queue for messages that Scheduler could not send within a day; give the construct to
            :class:`Observability` for an alarm on it.
        scheduler: The names of these, for the deployment document.

    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        queues: LaneQueues,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        super().__init__(scope, construct_id)
        self._key = queues.encryption_key
        self.undelivered = add_failure_queue(self, "Undelivered", removal_policy, encryption_key=self._key)
        # Without a name of its own: CloudFormation's can't clash with that of a group that was kept.
        self.group = scheduler.CfnScheduleGroup(self, "Group")
        self.group.apply_removal_policy(removal_policy)
        self.role = self._add_role(queues)
        for part in (self.role, self.role.node.find_child("DefaultPolicy")):
            cast("Resource", part).apply_removal_policy(removal_policy)
        self.scheduler = Scheduler(
            group=self.group.ref,
            role_arn=self.role.role_arn,
            role_id=self.role.role_id,
            dead_letter_arn=self.undelivered.queue_arn,
            key_arn=None if self._key is None else self._key.key_arn,
        )
        for schedule in queues.config.schedules:
            self._add_schedule(schedule, queues)

    def grant_send_later(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` add messages for later, list them, cancel them, and nothing else."""
        messages = self._arn("schedule", f"{LATER}*")
        actions = ("CreateSchedule", "GetSchedule", "DeleteSchedule")
        grant = allow(grantee, [f"scheduler:{action}" for action in actions], [messages])
        if self._key is not None:
            grant = grant.combine(grant_key(self._key, grantee, SCHEDULING, scope=self, service="scheduler"))
        # Another account, or a role that is only imported, has no policy here.
        if hasattr(principal := grantee.grant_principal, "node"):
            acknowledge_wildcard(
                cast("IConstruct", principal),
                messages,
                "The name of a message for later comes from its identity",
            )
        # AWS: who creates a schedule passes its role on (Scheduler User Guide, "Identity-based policies").
        return grant.combine(
            allow(
                grantee,
                ["iam:PassRole"],
                [self.role.role_arn],
                conditions={"StringEquals": {"iam:PassedToService": SCHEDULER}},
            )
        )

    def _add_role(self, queues: LaneQueues) -> iam.Role:
        # AWS: only schedules of this group may use the role (Scheduler User Guide, "Confused deputy prevention").
        of_group = {"ArnLike": {"aws:SourceArn": self._arn("schedule-group", "")}}
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(SCHEDULER, conditions=of_group),
            description="Sends scheduled messages to the priority lanes",
        )
        for lane in queues.lanes:
            lane.grant_deliver(role)
        self.undelivered.grant(role, "sqs:SendMessage")
        if self._key is not None:
            grant_key(self._key, role, SENDING, scope=self, service="sqs")
            # Scheduler reads the messages as the role, through no other service.
            of_messages = {
                "ArnLike": {"kms:EncryptionContext:aws:scheduler:schedule:arn": self._arn("schedule", "*")}
            }
            allow(role, ["kms:Decrypt"], [self._key.key_arn], conditions=of_messages)
        return role

    def _add_schedule(self, schedule: Schedule, queues: LaneQueues) -> None:
        lane = queues.lane(queues.config.lane_for(schedule.priority).name)
        if not lane.lane.takes(schedule.kind):
            problem = (
                f"schedule {schedule.name}: its kind {schedule.kind} goes to lane {lane.lane.name}, whose kinds are "
                f"{', '.join(lane.lane.kinds)}; add it there, or change the schedule's priority"
            )
            raise ConfigurationError([problem])
        call = occurrence(schedule, lane.queue.queue_url)
        size = len(json.dumps(call, ensure_ascii=False).encode())
        if size > LARGEST_INPUT_BYTES:
            problem = (
                f"schedule {schedule.name}: its data makes {size} bytes, and EventBridge Scheduler takes "
                f"{LARGEST_INPUT_BYTES}; send a reference to the data instead"
            )
            raise ConfigurationError([problem])
        made = scheduler.CfnSchedule(
            self,
            f"{schedule.name}Schedule",
            name=f"{PERIODIC}{schedule.name}",
            group_name=self.group.ref,
            schedule_expression=expression_of(schedule),
            schedule_expression_timezone=schedule.timezone,
            state="ENABLED" if schedule.enabled else "DISABLED",
            kms_key_arn=None if self._key is None else self._key.key_arn,
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=f"arn:{Stack.of(self).partition}:{SEND_MESSAGE}",
                role_arn=self.role.role_arn,
                input=Stack.of(self).to_json_string(call),
                dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(
                    arn=self.undelivered.queue_arn
                ),
            ),
        )
        # The first message could be due before Scheduler may send it.
        made.node.add_dependency(self.role.node.find_child("DefaultPolicy"))

    def _arn(self, resource: str, name: str) -> str:
        path = f"{self.group.ref}/{name}" if name else self.group.ref
        return Stack.of(self).format_arn(service="scheduler", resource=resource, resource_name=path)
