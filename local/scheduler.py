"""
Emulated EventBridge Scheduler: sends the messages of the schedules that are due.

Only its universal target for SQS is emulated. A message that can't be sent is in the schedule's dead-letter queue at
once; AWS tries for a day.
"""

import json
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from lanes.schedules import SEND_MESSAGE, next_time

from .repeated import Repeated

EVERY = timedelta(seconds=1)
_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Followed:
    """One schedule as it was read, and the time until which it was followed."""

    settings: dict[str, Any]
    until: datetime


class SchedulerEmulator(Repeated[timedelta]):
    """
    All running schedules.

    Args:
        scheduler: client of EventBridge Scheduler.
        sqs: client of SQS.
        iam: client of IAM.
        clock: returns the time, in UTC.
    """

    def __init__(
        self,
        *,
        scheduler: Any,
        sqs: Any,
        iam: Any,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(EVERY, name="scheduler")
        self._scheduler = scheduler
        self._sqs = sqs
        self._iam = iam
        self._clock = clock
        self._followed: dict[str, _Followed] = {}

    def pause(self) -> float:
        """Return the seconds between two looks."""
        return self.settings.total_seconds()

    def once(self) -> None:
        """Send all messages that are due."""
        try:
            self.send_due()
        except Exception:
            # The border of a thread: the server may be stopping.
            if not self._stopped.is_set():
                _logger.exception("the schedules could not be followed")

    def send_due(self) -> None:
        """Follow the schedules as they are now, and send the messages that are due."""
        now = self._clock()
        pages = self._scheduler.get_paginator("list_schedules").paginate()
        listed = {one["Arn"]: one for page in pages for one in page["Schedules"]}
        self._followed = {arn: one for arn, one in self._followed.items() if arn in listed}
        for arn, summary in listed.items():
            changed = summary["LastModificationDate"]
            known = self._followed.get(arn)
            if known is None or known.settings["LastModificationDate"] != changed:
                settings = self._scheduler.get_schedule(Name=summary["Name"], GroupName=summary["GroupName"])
                known = self._followed[arn] = _Followed(settings, until=changed)
            self._follow(known, now)

    def _follow(self, known: _Followed, now: datetime) -> None:
        settings = known.settings
        due = next_time(
            settings["ScheduleExpression"],
            settings["ScheduleExpressionTimezone"],
            after=known.until,
            start=settings["CreationDate"],
        )
        if due is None or due > now:
            return
        # Times while it was off, and all but one since the last look, are not made up for.
        known.until = now
        if settings["State"] == "ENABLED":
            self._fire(settings, due)
        if settings.get("ActionAfterCompletion") == "DELETE" and settings["ScheduleExpression"].startswith(
            "at"
        ):
            self._scheduler.delete_schedule(Name=settings["Name"], GroupName=settings["GroupName"])

    def _fire(self, settings: dict[str, Any], due: datetime) -> None:
        target = settings["Target"]
        if not target["Arn"].endswith(SEND_MESSAGE):
            _logger.warning("%s: the target %s is not emulated", settings["Arn"], target["Arn"])
            return
        values = {
            "scheduled-time": f"{due.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "schedule-arn": settings["Arn"],
            "attempt-number": "1",
            "execution-id": str(uuid.uuid4()),
        }
        text = target["Input"]
        for name, value in values.items():
            text = text.replace(f"<aws.scheduler.{name}>", value)
        try:
            # AWS: the target's role sends, and SQS shows its id (SQS, ReceiveMessage, "SenderId").
            role = self._iam.get_role(RoleName=target["RoleArn"].rpartition("/")[2])["Role"]
            sender = {"DataType": "String", "StringValue": f"{role['RoleId']}:{values['execution-id']}"}
            self._sqs.send_message(**json.loads(text), MessageSystemAttributes={"SenderId": sender})
        except ClientError as error:
            _logger.warning("%s could not send: %s", settings["Arn"], error)
            self._give_up(settings, text, error)

    def _give_up(self, settings: dict[str, Any], text: str, error: ClientError) -> None:
        destination = settings["Target"].get("DeadLetterConfig", {}).get("Arn")
        if destination is None:
            return
        url = self._sqs.get_queue_url(QueueName=destination.rpartition(":")[2])["QueueUrl"]
        # AWS: the attributes that say why (Scheduler User Guide, "Configuring a dead-letter queue").
        attributes = {
            "SCHEDULE_ARN": settings["Arn"],
            "ERROR_CODE": error.response["Error"]["Code"],
            "ERROR_MESSAGE": error.response["Error"]["Message"],
        }
        self._sqs.send_message(
            QueueUrl=url,
            MessageBody=text,
            MessageAttributes={
                name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()
            },
        )
