"""
Rules of EventBridge schedules that invoke functions or send to queues.

Pure decisions: when a schedule fires, and the event that it sends.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from lanes.schedules import rate_period

from .queue_mapping import without_qualifier


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
