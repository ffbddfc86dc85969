"""EventBridge Scheduler: the schedules of one stack's group, and messages for later in it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.schedules import SEND_MESSAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lanes.aws.clients import Clients
    from lanes.config.deployment import Deployment
    from lanes.schedules import Scheduler

# The settings of UpdateSchedule, which replaces all of them (API_UpdateSchedule).
SETTINGS = (
    "Description",
    "ScheduleExpression",
    "ScheduleExpressionTimezone",
    "StartDate",
    "EndDate",
    "FlexibleTimeWindow",
    "KmsKeyArn",
    "Target",
    "ActionAfterCompletion",
)


class SchedulerCalls:
    """
    Calls on the schedules of one group; every method raises `AwsError`.

    Args:
        scheduler: the stack's group, role and queue.
        client: its client.
    """

    def __init__(self, scheduler: Scheduler, client: Any) -> None:
        self._scheduler = scheduler
        self._client = client
        self._partition = scheduler.role_arn.split(":")[1]

    def create(self, name: str, *, expression: str, target: str) -> str:
        """Create a schedule for one message, or leave one of this name alone (`lanes.producer.later.Later`)."""
        with aws_errors("CreateSchedule"):
            try:
                self._client.create_schedule(
                    Name=name,
                    GroupName=self._scheduler.group,
                    ScheduleExpression=expression,
                    FlexibleTimeWindow={"Mode": "OFF"},
                    ActionAfterCompletion="DELETE",
                    **({"KmsKeyArn": self._scheduler.key_arn} if self._scheduler.key_arn else {}),
                    Target={
                        "Arn": f"arn:{self._partition}:{SEND_MESSAGE}",
                        "RoleArn": self._scheduler.role_arn,
                        "Input": target,
                        "DeadLetterConfig": {"Arn": self._scheduler.dead_letter_arn},
                    },
                )
            except self._client.exceptions.ConflictException:
                existing = self.get(name)
                # One that has just sent its message is as good as this one.
                return expression if existing is None else str(existing["ScheduleExpression"])
        return expression

    def names(self, prefix: str) -> Iterator[str]:
        """Return the names of the schedules that begin so."""
        with aws_errors("ListSchedules"):
            pages = self._client.get_paginator("list_schedules").paginate(
                GroupName=self._scheduler.group, NamePrefix=prefix
            )
            for page in pages:
                yield from (one["Name"] for one in page["Schedules"])

    def get(self, name: str) -> dict[str, Any] | None:
        """Return a schedule as GetSchedule has it; None if there is none of this name any more."""
        with aws_errors("GetSchedule"):
            try:
                found: dict[str, Any] = self._client.get_schedule(Name=name, GroupName=self._scheduler.group)
            except self._client.exceptions.ResourceNotFoundException:
                return None
            return found

    def delete(self, name: str) -> bool:
        """Delete a schedule; return whether there was one."""
        with aws_errors("DeleteSchedule"):
            try:
                self._client.delete_schedule(Name=name, GroupName=self._scheduler.group)
            except self._client.exceptions.ResourceNotFoundException:
                return False
            return True

    def switch(self, schedule: dict[str, Any], *, enabled: bool) -> None:
        """Switch a schedule, as `get` returned it, on or off."""
        kept = {key: schedule[key] for key in SETTINGS if schedule.get(key) is not None}
        with aws_errors("UpdateSchedule"):
            self._client.update_schedule(
                Name=schedule["Name"],
                GroupName=self._scheduler.group,
                State="ENABLED" if enabled else "DISABLED",
                **kept,
            )


def later_of(deployment: Deployment, clients: Clients) -> Callable[[], SchedulerCalls] | None:
    """Return a function that makes the calls to a deployment's scheduler; None if it has none."""
    scheduler = deployment.scheduler
    if scheduler is None:
        return None
    return cache(lambda: SchedulerCalls(scheduler, clients.operations("scheduler")))
