"""Schedules: their rates, their events, and the thread that fires them."""

import json
import threading
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ClientError

from lanes.schedules import rate_period
from local.environment import Invocation
from local.model.schedule import QueueTarget, ScheduleSettings, scheduled_event
from local.schedule import ScheduleEmulator

RULE = "arn:aws:events:eu-central-1:123456789012:rule/every-minute"
FUNCTION = "arn:aws:lambda:eu-central-1:123456789012:function:relay"
QUEUE = "arn:aws:sqs:eu-central-1:123456789012:bell.fifo"


@pytest.mark.parametrize(
    ("expression", "rate"),
    [
        ("rate(1 minute)", timedelta(minutes=1)),
        ("rate(5 minutes)", timedelta(minutes=5)),
        ("rate(1 day)", timedelta(days=1)),
        ("cron(0 12 * * ? *)", None),
        ("", None),
    ],
)
def test_rates_are_read_and_nothing_else(expression, rate):
    """Cron expressions are not emulated."""
    assert rate_period(expression) == rate


def test_a_rule_without_a_target_or_a_rate_is_none_to_emulate():
    """Rules on events belong to other tools."""
    rule = {"Arn": RULE, "ScheduleExpression": "rate(1 minute)", "State": "ENABLED"}

    assert ScheduleSettings.from_api(rule, [{"Arn": FUNCTION}]).function_arns == (FUNCTION,)
    assert ScheduleSettings.from_api(rule, [{"Arn": "arn:aws:sns:eu-central-1:1:topic"}]) is None
    assert ScheduleSettings.from_api({"Arn": RULE, "EventPattern": "{}"}, [{"Arn": FUNCTION}]) is None


def test_a_queue_is_a_target_with_its_group_and_its_constant_body():
    """Both are missing where the rule sets none."""
    rule = {"Arn": RULE, "ScheduleExpression": "rate(1 minute)", "State": "ENABLED"}
    fifo = {"Arn": QUEUE, "Input": "{}", "SqsParameters": {"MessageGroupId": "heartbeat"}}

    settings = ScheduleSettings.from_api(rule, [fifo, {"Arn": "arn:aws:sqs:eu-central-1:1:plain"}])

    assert settings.queues == (
        QueueTarget(queue_arn=QUEUE, group="heartbeat", body="{}"),
        QueueTarget(queue_arn="arn:aws:sqs:eu-central-1:1:plain"),
    )


def test_the_event_is_that_of_eventbridge():
    """Source, account, region, time and rule."""
    settings = ScheduleSettings(rule_arn=RULE, rate=timedelta(minutes=1))
    event = json.loads(scheduled_event(settings, at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)))

    assert (event["source"], event["time"]) == ("aws.events", "2026-01-02T03:04:05Z")
    assert (event["account"], event["region"]) == ("123456789012", "eu-central-1")
    assert event["resources"] == [RULE]


class Function:
    """Counts its invocations."""

    def __init__(self):
        self.events = []
        self.thrice = threading.Event()

    def invoke(self, payload):
        self.events.append(json.loads(payload))
        if len(self.events) == 3:
            self.thrice.set()
        return Invocation(payload=b"null")


def test_a_schedule_fires_at_its_rate_until_it_is_stopped():
    """And not while it is disabled."""
    function, disabled = Function(), Function()
    rate = timedelta(milliseconds=5)
    schedules = [
        ScheduleEmulator(
            ScheduleSettings(rule_arn=RULE, rate=rate, function_arns=(FUNCTION,), enabled=enabled),
            functions={FUNCTION: one},
            send=lambda _target, _body: None,
        )
        for one, enabled in ((function, True), (disabled, False))
    ]
    for schedule in schedules:
        schedule.start()
    fired = function.thrice.wait(60)
    for schedule in schedules:
        schedule.stop()
        schedule.join()

    assert fired
    assert disabled.events == []


def test_a_queue_gets_the_constant_body_or_the_event():
    """A queue that is gone does not end the schedule."""
    targets = (
        QueueTarget(queue_arn="gone"),
        QueueTarget(queue_arn=QUEUE, body="{}"),
        QueueTarget(queue_arn="plain"),
    )
    sent = {}

    def send(target, body):
        if target.queue_arn == "gone":
            raise ClientError({"Error": {"Code": "QueueDoesNotExist"}}, "GetQueueUrl")
        sent[target.queue_arn] = body

    settings = ScheduleSettings(rule_arn=RULE, rate=timedelta(minutes=1), queues=targets)
    schedule = ScheduleEmulator(settings, functions={}, send=send)

    schedule.once()

    assert (sent[QUEUE], json.loads(sent["plain"])["source"], schedule.fired) == ("{}", "aws.events", 1)
