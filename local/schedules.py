"""
What runs by the time: rules of EventBridge with a rate, and the schedules of EventBridge Scheduler.

A rule's event that fails is gone: EventBridge's retries are not emulated, since the next one follows. Of Scheduler only
its universal target for SQS is emulated; a message that can't be sent is in the schedule's dead-letter queue at once,
where AWS tries for a day.
"""

import json
import logging
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Self, TypeVar

from botocore.exceptions import ClientError

from lanes.schedules import SEND_MESSAGE, next_time, rate_period

from .event_source_mapping import Invocable
from .polled_queue import without_qualifier

Settings = TypeVar("Settings")


class Repeated(ABC, Generic[Settings]):
    """
    A repeated task in a thread of its own.

    Args:
        settings: as deployed.
        name: of the thread.
    """

    def __init__(self, settings: Settings, *, name: str) -> None:
        self._settings = settings
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    @property
    def settings(self) -> Settings:
        """As deployed now."""
        return self._settings

    @abstractmethod
    def pause(self) -> float:
        """Return the seconds until the next time."""

    @abstractmethod
    def once(self) -> None:
        """Do it."""

    def start(self) -> None:
        """Begin to count the time."""
        self._thread.start()

    def update(self, settings: Settings) -> None:
        """Follow a deploy, from the next time on."""
        self._settings = settings

    def stop(self) -> None:
        """Stop; a task that runs finishes."""
        self._stopped.set()

    def join(self) -> None:
        """Wait for the thread after `stop`."""
        if self._thread.ident is not None:
            self._thread.join()

    def _work(self) -> None:
        while not self._stopped.wait(self.pause()):
            self.once()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTarget:
    """
    A queue that gets a message at each event.

    Attributes:
        queue_arn: of the queue.
        group: message group, of a FIFO queue.
        body: constant text in place of the event.
    """

    queue_arn: str
    group: str | None = None
    body: str | None = None

    @classmethod
    def from_api(cls, target: Mapping[str, Any]) -> Self:
        """Read a target of ListTargetsByRule."""
        group = (target.get("SqsParameters") or {}).get("MessageGroupId")
        return cls(queue_arn=target["Arn"], group=group, body=target.get("Input"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSettings:
    """
    One deployed rule with a rate, as ListRules and ListTargetsByRule return it.

    Attributes:
        rule_arn: of the rule.
        rate: time between two events.
        function_arns: targets that are functions.
        queues: targets that are queues.
        enabled: whether it fires.
    """

    rule_arn: str
    rate: timedelta
    function_arns: tuple[str, ...] = ()
    queues: tuple[QueueTarget, ...] = ()
    enabled: bool = True

    @classmethod
    def from_api(cls, rule: Mapping[str, Any], targets: Sequence[Mapping[str, Any]]) -> Self | None:
        """Read a rule; None where it has no rate and no function or queue, so that there is nothing to emulate."""
        rate = rate_period(rule.get("ScheduleExpression") or "")
        arns = tuple(without_qualifier(target["Arn"]) for target in targets if ":lambda:" in target["Arn"])
        queues = tuple(QueueTarget.from_api(target) for target in targets if ":sqs:" in target["Arn"])
        if rate is None or not (arns or queues):
            return None
        return cls(
            rule_arn=rule["Arn"],
            rate=rate,
            function_arns=arns,
            queues=queues,
            enabled=rule.get("State") == "ENABLED",
        )


def scheduled_event(settings: ScheduleSettings, *, at: datetime) -> bytes:
    """
    Write the event of a schedule.

    # AWS: "Example event data for scheduled events" (EventBridge User Guide); times are in whole seconds of UTC.
    """
    account = settings.rule_arn.split(":")[4]
    return json.dumps(
        {
            "version": "0",
            "id": f"{settings.rule_arn}@{at.timestamp():.0f}",
            "detail-type": "Scheduled Event",
            "source": "aws.events",
            "account": account,
            "time": at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": settings.rule_arn.split(":")[3],
            "resources": [settings.rule_arn],
            "detail": {},
        }
    ).encode()


_logger = logging.getLogger(__name__)


class ScheduleEmulator(Repeated[ScheduleSettings]):
    """
    One deployed schedule, running.

    # AWS: a rate rule fires for the first time one rate after it was made (EventBridge User Guide, "Rate expressions").

    Args:
        settings: as deployed.
        functions: its targets, by ARN.
        send: sends a body to a target that is a queue.
    """

    def __init__(
        self,
        settings: ScheduleSettings,
        *,
        functions: Mapping[str, Invocable],
        send: Callable[[QueueTarget, str], None],
    ) -> None:
        super().__init__(settings, name="schedule")
        self._functions = functions
        self._send = send
        self.fired = 0

    def pause(self) -> float:
        """Return the seconds until the next event; a new rate holds from then on."""
        return self._settings.rate.total_seconds()

    def once(self) -> None:
        """Send one event, if the schedule is enabled."""
        if self._settings.enabled:
            self._fire()

    def _fire(self) -> None:
        event = scheduled_event(self._settings, at=datetime.now(UTC))
        for arn in self._settings.function_arns:
            answer = self._functions[arn].invoke(event)
            if answer.function_error and not self._stopped.is_set():
                _logger.warning("a scheduled invocation of %s failed: %s", arn, answer.function_error)
        for target in self._settings.queues:
            try:
                self._send(target, target.body or event.decode())
            except ClientError as error:
                _logger.warning("a schedule could not send to %s: %s", target.queue_arn, error)
        self.fired += 1


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
