"""`lanes schedules` and `lanes scheduled`, over Scheduler and queues of moto."""

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import boto3
import pytest
from moto import mock_aws
from typer.testing import CliRunner

from lanes.aws.runs import DynamoDBRuns
from lanes.aws.scheduler import SchedulerCalls
from lanes.aws.sending import SqsSender
from lanes.cli import runs as verbs
from lanes.cli import send as send_verb
from lanes.cli.main import app
from lanes.config import Schedule
from lanes.message import Message
from lanes.operate import schedules as rows
from lanes.operate.runs import read_progress
from lanes.producer import Producer
from lanes.schedules import PERIODIC, Scheduler, expression_of, occurrence
from tests.support.operating import Trail, make_deployment

REGION = "eu-central-1"
SCHEDULER = Scheduler(
    group="lanes",
    role_arn="arn:aws:iam::123456789012:role/scheduler",
    role_id="AROASCHEDULER",
    dead_letter_arn="arn:aws:sqs:eu-central-1:123456789012:undelivered",
)
NIGHTLY = Schedule(name="nightly", kind="render", cron="0 3 * * *", timezone="Europe/Zurich", data={"a": 1})


@pytest.fixture
def desk(monkeypatch):
    """A stack with a schedule, behind the command."""
    with mock_aws():
        client = boto3.client("scheduler", region_name=REGION)
        client.create_schedule_group(Name="lanes")
        deployment = make_deployment(lambda service: boto3.client(service, region_name=REGION))
        sqs = boto3.client("sqs", region_name=REGION)
        calls, trail = SchedulerCalls(SCHEDULER, client), Trail()

        def producer(*, source="test"):
            sender = SqsSender.to_lanes(deployment, sqs)
            return Producer(
                deployment=deployment, sqs=sender, source=source, later=lambda: calls, runs=lambda: runs
            )

        dynamodb = boto3.client("dynamodb", region_name=REGION)
        runs = DynamoDBRuns(table=deployment.table, client=dynamodb)
        operations = SimpleNamespace(
            schedules=calls, audit=trail, producer=producer, deployment=deployment, runs=runs
        )
        for module in (verbs, send_verb):
            monkeypatch.setattr(module, "operations_of", lambda _context: operations)
        url = deployment.queues["MEDIUM"].url
        calls.create(
            PERIODIC + NIGHTLY.name,
            expression="at(2030-01-01T00:00:00)",
            target=json.dumps(occurrence(NIGHTLY, url)),
        )
        client.update_schedule(
            Name=PERIODIC + NIGHTLY.name,
            GroupName="lanes",
            ScheduleExpression=expression_of(NIGHTLY),
            ScheduleExpressionTimezone=NIGHTLY.timezone,
            State="ENABLED",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target=client.get_schedule(Name=PERIODIC + NIGHTLY.name, GroupName="lanes")["Target"],
        )

        def taken():
            found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"]).get(
                "Messages", []
            )
            return [
                Message.from_body(one["Body"], group=one["Attributes"]["MessageGroupId"]) for one in found
            ]

        def marks():
            found = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"]).get("Messages", [])
            return [one["MessageAttributes"]["lanes.run"]["StringValue"] for one in found]

        yield SimpleNamespace(
            marks=marks, calls=calls, trail=trail, producer=producer(), taken=taken, runs=runs
        )


def test_the_list_has_the_next_time_in_utc(typed, desk):
    """And the zone of the expression."""
    (row,) = typed.json("schedules", "list")

    assert (row["name"], row["state"], row["kind"]) == ("nightly", "on", "render")
    assert (row["expression"], row["timezone"]) == ("cron(0 3 * * ? *)", "Europe/Zurich")
    due = datetime.fromisoformat(row["next"])
    assert timedelta(0) < due - datetime.now(UTC) <= timedelta(hours=26)
    assert due.hour in (1, 2)
    assert row["group"] == "schedule-nightly"


def test_a_schedule_is_paused_and_resumed(typed, desk):
    """Each is in the audit trail, and one that changes nothing is not."""
    assert typed.json("schedules", "pause", "nightly", "--dry-run")["state"] == "on"
    assert typed.json("schedules", "pause", "nightly") | {"state": "paused", "next": ""} == typed.json(
        "schedules", "pause", "nightly"
    )
    assert typed.json("schedules", "list")[0]["state"] == "paused"
    assert typed.json("schedules", "resume", "nightly")["state"] == "on"
    assert [(action, outcome) for action, _, outcome, _ in desk.trail.written if outcome == "done"] == [
        ("schedules pause", "done"),
        ("schedules resume", "done"),
    ]


@mock_aws
def test_a_message_for_later_is_under_the_key_of_its_lane():
    """Its data waits in Scheduler for up to a year."""
    key = "arn:aws:kms:eu-central-1:123456789012:key/1"
    client = boto3.client("scheduler", region_name=REGION)
    client.create_schedule_group(Name="lanes")
    keyed = SchedulerCalls(dataclasses.replace(SCHEDULER, key_arn=key), client)

    keyed.create("m-1", expression="at(2030-01-01T00:00:00)", target="{}")

    assert keyed.get("m-1")["KmsKeyArn"] == key


def test_a_paused_schedule_keeps_what_it_sends(typed, desk):
    """UpdateSchedule replaces every setting."""
    before = desk.calls.get("s-nightly")
    typed.json("schedules", "pause", "nightly")
    typed.json("schedules", "resume", "nightly")
    after = desk.calls.get("s-nightly")

    for key in ("ScheduleExpression", "ScheduleExpressionTimezone", "FlexibleTimeWindow", "Target", "State"):
        assert after[key] == before[key]


def test_one_is_run_now(typed, desk):
    """Named by this second, and in the group of the schedule."""
    found = typed.json("schedules", "run", "nightly")
    (message,) = desk.taken()

    assert message.id == found["id"]
    assert datetime.fromisoformat(message.id.removeprefix("nightly@")) == message.time
    assert (message.kind, message.data, message.group) == ("render", {"a": 1}, "schedule-nightly")


@pytest.mark.parametrize("verb", ["pause", "resume", "run"])
def test_a_mistyped_name_is_corrected(typed, desk, verb):
    """With the nearest name."""
    answer = typed("schedules", verb, "nightli")

    assert answer.returncode != 0
    assert "there is no schedule 'nightli'; did you mean 'nightly'?" in answer.stderr


def test_send_at_schedules_a_message_and_the_list_has_it(typed, desk):
    """With its time; periodic schedules are in the other list."""
    sent = typed.json("send", "mail", '{"to": "a"}', "--id", "m-1", "--at", "2h", "--group", "g")
    (row,) = typed.json("scheduled", "list")

    assert sent[0]["not_before"]
    assert not sent[0]["message_id"]
    assert (row["id"], row["kind"], row["group"]) == ("m-1", "mail", "g")
    due = datetime.fromisoformat(row["not_before"]) - datetime.now(UTC)
    assert timedelta(minutes=119) < due < timedelta(minutes=121)
    assert desk.taken() == []


def test_a_dry_run_says_when_it_would_be_sent(typed, desk):
    """And schedules nothing."""
    done = typed("send", "mail", "null", "--at", "2030-01-01T00:00Z", "--dry-run")

    assert "would send 1 message at 2030-01-01T00:00:00+00:00" in done.stderr
    assert typed.json("scheduled", "list") == []


def test_a_list_that_is_cut_says_so(typed, desk):
    """Scheduler lists by name, so the next ones may be left out."""
    for hours in (3, 1, 2):
        desk.producer.send("mail", 1, id=f"in-{hours}", not_before=timedelta(hours=hours))

    assert [row["id"] for row in typed.json("scheduled", "list")] == ["in-1", "in-2", "in-3"]
    cut = typed("scheduled", "list", "--limit", "2", "--output", "json")
    assert len(json.loads(cut.stdout)) == 2
    assert "more than 2 wait" in cut.stderr
    assert "more than" not in typed("scheduled", "list", "--limit", "3").stderr


def test_a_message_for_later_is_cancelled(typed, desk):
    """By its id, which is then unknown."""
    desk.producer.send("mail", 1, id="a", not_before=timedelta(hours=1))
    desk.producer.send("mail", 2, id="b", not_before=timedelta(hours=1))
    typed.json("scheduled", "cancel", "a", "--dry-run")
    typed.json("scheduled", "cancel", "a")

    assert [row["id"] for row in typed.json("scheduled", "list")] == ["b"]
    assert "has the id 'a'" in typed("scheduled", "cancel", "a").stderr


def test_members_of_a_run_are_ended_by_a_cancel_and_keep_their_mark_when_they_are_sent(typed, desk):
    """Without that the run would stay open for ever."""
    with desk.producer.run("nov", expected=2) as run:
        run.send_many([Message(kind="mail", data=1, id=one) for one in "ab"], not_before=timedelta(hours=1))
    typed.json("scheduled", "cancel", "a")
    typed.json("scheduled", "send-now", "b")
    head = desk.runs.head("nov")
    progress = read_progress(desk.runs, head)

    assert (progress.counts.cancelled, progress.left) == (1, 1)
    assert desk.marks() == [head.mark.text]


def test_a_message_for_later_is_sent_now(typed, desk):
    """Once: it has the id and the deduplication id with which it would have come later."""
    data = {"n": 1, "text": "<aws.scheduler.scheduled-time>"}
    desk.producer.send("mail", data, id="a", group="g", deduplication_id="d", not_before=timedelta(hours=1))
    name = typed.json("scheduled", "list")[0]["name"]
    typed.json("scheduled", "send-now", name)
    desk.producer.send("mail", data, id="a", group="g", deduplication_id="d")

    assert [(one.id, one.data, one.group) for one in desk.taken()] == [("a", data, "g")]
    assert typed.json("scheduled", "list") == []


def test_two_kinds_of_one_id_are_told_apart_by_their_names(typed, desk):
    """Which the error lists."""
    for kind in ("mail", "text"):
        desk.producer.send(kind, 1, id="a", not_before=timedelta(hours=1))
    names = {row["kind"]: row["name"] for row in typed.json("scheduled", "list")}

    refused = typed("scheduled", "cancel", "a").stderr.replace("\n", " ")
    assert "2 messages for later have the id 'a'" in refused
    assert all(name in refused for name in names.values())
    typed.json("scheduled", "cancel", names["text"])
    assert [row["kind"] for row in typed.json("scheduled", "list")] == ["mail"]


def test_a_message_that_scheduler_has_is_not_scheduled_twice(desk):
    """The answer has the time that holds."""
    first = desk.producer.send("mail", 1, id="a", not_before=timedelta(hours=1))
    second = desk.producer.send("mail", 1, id="a", not_before=timedelta(hours=9))

    assert second.not_before == first.not_before
    assert len(list(rows.read(desk.calls, "m-"))) == 1


@pytest.mark.parametrize("at", ["soon", "2030-01-01T00:00"])
def test_a_time_that_is_none_is_refused(typed, desk, at):
    """With what is."""
    answer = typed("send", "mail", "null", "--at", at)

    assert answer.returncode == 2
    assert "--at is" in answer.stderr


def test_the_help_loses_no_words():
    """Rich takes words in square brackets for markup, and leaves them out."""
    assert "`[]`" not in CliRunner().invoke(app, ["schedules", "--help"]).stdout
