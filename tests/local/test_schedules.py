"""Schedules: their rates, their events, and the thread that fires them."""

import json
import threading
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from lanes.message import Message
from lanes.producer.later import call_of
from lanes.producer.outgoing import SendEntry
from lanes.schedules import at_expression, rate_period
from local.environment import Invocation
from local.schedules import (
    QueueTarget,
    ScheduleEmulator,
    SchedulerEmulator,
    ScheduleSettings,
    scheduled_event,
)

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


REGION = "eu-central-1"
TARGET = "arn:aws:scheduler:::aws-sdk:sqs:sendMessage"
ROLE = "arn:aws:iam::123456789012:role/sender"


class Machine:
    """A queue, a dead-letter queue, and schedules whose clock is set by hand."""

    def __init__(self):
        self.sqs = boto3.client("sqs", region_name=REGION)
        self.scheduler = boto3.client("scheduler", region_name=REGION)
        fifo = {"FifoQueue": "true"}
        self.url = self.sqs.create_queue(QueueName="lane.fifo", Attributes=fifo)["QueueUrl"]
        self.undelivered = self.sqs.create_queue(QueueName="undelivered")["QueueUrl"]
        self.now = datetime.now(UTC)
        iam = boto3.client("iam")
        self.role = iam.create_role(RoleName="sender", AssumeRolePolicyDocument="{}")["Role"]
        self.emulator = SchedulerEmulator(
            scheduler=self.scheduler, sqs=self.sqs, iam=iam, clock=lambda: self.now
        )

    def add(self, expression, *, name="one", url=None, **settings):
        """Create a schedule that sends its time."""
        time = "<aws.scheduler.scheduled-time>"
        call = {
            "QueueUrl": url or self.url,
            "MessageBody": f"{name} {time}",
            "MessageGroupId": name,
            "MessageDeduplicationId": f"{name}@{time}",
        }
        arn = "arn:aws:sqs:eu-central-1:123456789012:undelivered"
        self.scheduler.create_schedule(
            Name=name,
            ScheduleExpression=expression,
            FlexibleTimeWindow={"Mode": "OFF"},
            Target={
                "Arn": TARGET,
                "RoleArn": ROLE,
                "Input": json.dumps(call),
                "DeadLetterConfig": {"Arn": arn},
            },
            **settings,
        )

    def look(self, later=timedelta(0)):
        """Let time pass, let the emulator look, and return the new bodies in the queue."""
        self.now += later
        self.emulator.send_due()
        return self.take(self.url)

    def take(self, url):
        """Return and delete the messages of a queue."""
        found = self.sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        ).get("Messages", [])
        for one in found:
            self.sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
        return [one["Body"] for one in found]


@pytest.fixture
def machine():
    """Give one on moto."""
    with mock_aws():
        yield Machine()


def test_a_rate_sends_after_each_period(machine):
    """Named by the scheduled time, whenever the emulator looks."""
    machine.add("rate(5 minutes)")
    created = machine.scheduler.get_schedule(Name="one")["CreationDate"]

    assert machine.look() == []
    sent = machine.look(timedelta(minutes=5, seconds=30))
    assert sent == [f"one {created.astimezone(UTC) + timedelta(minutes=5):%Y-%m-%dT%H:%M:%SZ}"]
    assert machine.look(timedelta(seconds=1)) == []


def test_what_was_missed_is_not_made_up_for(machine):
    """One message after a long pause, as after a stop of the platform."""
    machine.add("cron(* * * * ? *)")
    machine.look()

    assert len(machine.look(timedelta(minutes=10))) == 1
    assert len(machine.look(timedelta(minutes=1))) == 1


def test_a_message_for_later_is_sent_once_and_its_schedule_goes(machine):
    """As `ActionAfterCompletion` asks."""
    moment = machine.now + timedelta(minutes=1)
    machine.add(at_expression(moment), ActionAfterCompletion="DELETE")

    assert machine.look(timedelta(seconds=30)) == []
    assert len(machine.look(timedelta(seconds=31))) == 1
    assert machine.scheduler.list_schedules()["Schedules"] == []
    assert machine.look(timedelta(minutes=1)) == []


def test_a_schedule_that_is_off_sends_nothing_and_starts_anew(machine):
    """A deploy or a command switches it on."""
    machine.add("rate(1 minute)", State="DISABLED")
    assert machine.look(timedelta(minutes=3)) == []

    settings = machine.scheduler.get_schedule(Name="one")
    kept = {key: settings[key] for key in ("Name", "ScheduleExpression", "FlexibleTimeWindow", "Target")}
    machine.scheduler.update_schedule(**kept, State="ENABLED")

    assert len(machine.look(timedelta(minutes=1))) == 1


def test_what_cannot_be_sent_is_in_the_dead_letter_queue_with_the_reason(machine):
    """The others are sent."""
    gone = machine.url.replace("lane", "gone")
    machine.add("rate(1 minute)", name="gone", url=gone)
    machine.add("rate(1 minute)", name="good")

    assert len(machine.look(timedelta(minutes=1, seconds=1))) == 1
    (letter,) = machine.sqs.receive_message(QueueUrl=machine.undelivered, MessageAttributeNames=["All"])[
        "Messages"
    ]
    assert json.loads(letter["Body"])["QueueUrl"] == gone
    assert "NonExistentQueue" in letter["MessageAttributes"]["ERROR_CODE"]["StringValue"]


def test_another_target_is_named_in_the_log(machine, caplog):
    """Instead of a silence that looks like a schedule at work."""
    machine.scheduler.create_schedule(
        Name="function",
        ScheduleExpression="rate(1 minute)",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={"Arn": "arn:aws:lambda:eu-central-1:123456789012:function:f", "RoleArn": ROLE},
    )

    machine.look(timedelta(minutes=2))

    assert "function:f is not emulated" in caplog.text


def test_data_that_looks_like_a_place_for_a_time_stays(machine):
    """Scheduler fills in its places wherever the input has them."""
    body = Message(kind="note", data={"text": "\\<aws.scheduler.scheduled-time>"}, id="a").to_body()
    entry = SendEntry(entry_id="0", body=body, message_group_id="g", message_deduplication_id="d")
    machine.scheduler.create_schedule(
        Name="later",
        ScheduleExpression=at_expression(machine.now + timedelta(hours=1)),
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={"Arn": TARGET, "RoleArn": ROLE, "Input": call_of(machine.url, entry)},
    )

    assert machine.look(timedelta(hours=2)) == [body]
