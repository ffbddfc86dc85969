"""
Eight nights, from symptom to end, with the `lanes` command alone.

`lanes status` says first and in words what is wrong, an alarm watches a metric that has counted it, and the page of the
runbook names the verb that ends it.
"""

import functools
import json
from dataclasses import dataclass

import boto3
import pytest

from lanes.operate import status
from lanes.outbox import DynamoOutbox
from local.deploy import CdkApp
from local.platform import Platform
from tests.docs.pages import anchors, section
from tests.support.command import ROOT, Typed
from tests.support.http_server import Server
from tests.support.waiting import SLACK, until

pytestmark = pytest.mark.deep

APP = ROOT / "tests" / "acceptance" / "night_app"
RUNBOOK = ROOT / "docs" / "runbook.md"
STACK = "Night"
OF_AWS = {"Errors", "ApproximateAgeOfOldestMessage", "ApproximateNumberOfMessagesVisible"}
"""Metrics that AWS counts by itself."""


@dataclass
class Night:
    """The deployed stack, the operator at its command, and the folder of faults."""

    platform: Platform
    typed: Typed
    faults: object
    counted: set

    def lanes(self, *words, text=None):
        """Type a verb; return its JSON document."""
        return self.typed.json("--stack", STACK, *words, text=text)

    def send(self, kind, *ids, **more):
        """Send messages, each in a group of its own."""
        rows = [{"kind": kind, "data": {}, "id": one, "group": one, "priority": 0} | more for one in ids]
        self.lanes("send", "--file", "-", text="\n".join(map(json.dumps, rows)))

    def symptom(self, page, *words):
        """Wait until the status says it in one line with all of these words; the page is in the runbook."""

        def said():
            return [
                one["text"]
                for lane in self.lanes("status")
                for one in lane["symptoms"]
                if one["code"] == page and all(word in one["text"] for word in words)
            ]

        until(said)
        assert page in anchors(RUNBOOK)
        table = self.typed("--stack", STACK, "status").stdout
        assert table.index(f"[runbook: {page}]") < table.index("counted at")

    def over(self, page, *words):
        """Wait until no line of the status says it any more."""
        until(
            lambda: (
                not any(
                    one["code"] == page and all(word in one["text"] for word in words)
                    for lane in self.lanes("status")
                    for one in lane["symptoms"]
                )
            )
        )

    def alarm(self, name, metric, *, page):
        """Find the alarm in the template, its metric and its page; a function has counted it, or AWS does."""
        (alarm,) = [
            one["Properties"]
            for one in self.resources.values()
            if one["Type"] == "AWS::CloudWatch::Alarm"
            and one["Properties"]["AlarmName"].endswith(name)
            and f".md#{page}" in one["Properties"]["AlarmDescription"]
        ]
        queries = [
            one["MetricStat"]["Metric"]["MetricName"]
            for one in alarm.get("Metrics", ())
            if "MetricStat" in one
        ]
        assert metric in [*queries, alarm.get("MetricName")]
        until(lambda: metric in OF_AWS or metric in self.counted)

    @functools.cached_property
    def resources(self):
        """The resources of the deployed template."""
        template = self.platform.client("cloudformation").get_template(StackName=STACK)["TemplateBody"]
        return (json.loads(template) if isinstance(template, str) else template)["Resources"]

    def runbook(self, page, *verbs):
        """Check that the page names each verb."""
        text = section(RUNBOOK, page.replace("-", " ").capitalize())
        for verb in verbs:
            assert verb in text, (page, verb)

    def handled(self, one):
        """Whether a message was handled."""
        return "message_handled" in self.events(one)

    def events(self, one):
        """Return the names of the events of a message; none while nothing is known of it."""
        found = self.typed("--stack", STACK, "--output", "json", "trace", one)
        return [step["code"] for step in json.loads(found.stdout)["steps"]] if found.stdout else []


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    """One deployed stack for all nights."""
    faults = tmp_path_factory.mktemp("faults")
    app = CdkApp(directory=APP, context={"faults": str(faults)})
    build = tmp_path_factory.mktemp("build")
    counted = set()

    def note(_function, line):
        if '"_aws"' in line:
            counted.update(json.loads(line))

    with Platform(app=app, on_line=note, build_directory=build, slack=SLACK) as running:
        made = Night(running, Typed(running.endpoint_url), faults, counted)
        made.send("order.placed", "first")
        until(lambda: made.handled("first"))
        yield made


def test_a_kind_without_a_handler(night):
    """A misspelt kind: its producer is corrected, and its messages are cancelled."""
    night.send("order.placd", "typo-1", "typo-2")

    night.symptom(
        "unknown-kinds", "order.placd has no handler: 2 messages in MAIN", "did you mean order.placed?"
    )
    night.alarm("UnknownKinds", "UnknownKindMessages", page="unknown-kinds")
    night.runbook("unknown-kinds", "lanes cancel --kind order.placd")

    night.lanes("cancel", "--kind", "order.placd", "--why", "misspelt", "--yes")
    night.over("unknown-kinds")
    assert "message_cancelled" in night.events("typo-1")


def test_a_resource_that_is_away_for_a_part_of_the_messages(night):
    """One of two banks is closed; the messages of the other one go on."""
    (night.faults / "bank").touch()
    night.send("charge", "closed-1", group="closed")
    night.send("charge", *(f"open-{n}" for n in range(5)))

    night.symptom("resource-away", "charge: resource away for 1 message in MAIN", "bank 7 is closed")
    night.alarm("ResourceAway", "ResourceAwayTime", page="resource-away")
    night.runbook("resource-away", "Repair your resource", "lanes cancel --id")
    until(lambda: all(night.handled(f"open-{n}") for n in range(5)))

    (night.faults / "bank").unlink()
    night.over("resource-away")
    assert night.handled("closed-1")


def test_a_blocked_group(night):
    """A wrong message that keeps its group waiting is cancelled, and the group goes on."""
    night.send("stuck", "wrong", group="customer-3")
    night.send("order.placed", "behind", group="customer-3")

    night.symptom(
        "blocked", "1 group of MAIN blocked: customer-3 waits behind stuck wrong", "the account is gone"
    )
    night.alarm("Blocked", "BlockedGroups", page="blocked")
    night.runbook("blocked", "lanes cancel --id")

    night.lanes("cancel", "--id", "wrong", "--why", "wrong account", "--yes")
    until(lambda: night.handled("behind"))
    night.over("blocked")


def test_a_mapping_that_was_switched_off_in_the_console(night):
    """No verb has paused the lane, and one resumes it."""
    functions = night.platform.client("lambda")
    queue = night.platform.outputs[STACK]["HIGHQueueUrl"].rpartition("/")[2]
    (mapping,) = [
        one for one in functions.list_event_source_mappings()["EventSourceMappings"]
        if one.get("EventSourceArn", "").endswith(f":{queue}")
    ]  # fmt: skip
    functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    sent = []

    def waits():
        """Send one message after the other, until one finds that nothing polls any more."""
        sent.append(f"urgent-{len(sent)}")
        night.send("order.placed", sent[-1], priority=50)
        return night.lanes("status")[0]["waiting"]

    until(waits)
    night.symptom("oldest-age", "HIGH is not received: its mapping is Disabled")
    night.alarm("HIGHOldestAge", "ApproximateAgeOfOldestMessage", page="oldest-age")
    night.runbook("oldest-age", "lanes resume HIGH")

    night.lanes("resume", "HIGH")
    until(lambda: night.handled(sent[-1]))
    night.over("oldest-age")


def test_a_poison_message_in_a_batch_of_ten(night):
    """It kills its process; the nine others are handled, and it is deleted as a dead letter."""
    night.send("order.placed", *(f"good-{n}" for n in range(5)))
    night.send("poison", "poison-1")
    night.send("order.placed", *(f"good-{n}" for n in range(5, 9)))

    night.symptom("errors", "ended without an answer", "Runtime exited")
    night.symptom("dead-letters", "MAIN has 1 dead letter")
    night.alarm("Errors", "Errors", page="errors")
    night.alarm("MAINDeadLetters", "ApproximateNumberOfMessagesVisible", page="dead-letters")
    night.runbook("errors", "lanes trace ID")
    night.runbook("dead-letters", "lanes dead-letters show ID", "lanes dead-letters delete MAIN")
    assert all(night.handled(f"good-{n}") for n in range(9))

    night.lanes("dead-letters", "delete", "MAIN", "--id", "poison-1", "--yes")
    night.over("dead-letters")


def test_a_deploy_that_fails_on_import(night):
    """New environments can't import the module; no attempt is lost, and the next deploy ends it."""
    (night.faults / "import").touch()
    night.send("leave", "leave-1")

    night.symptom("errors", "the function's module can't be imported", "a_module_that_was_not_deployed")
    night.alarm("CallErrors", "ConsumerCallErrors", page="call-errors")
    night.runbook("errors", "import_failed", "deploy the former commit")

    (night.faults / "import").unlink()
    until(lambda: night.handled("leave-1"))
    night.over("errors", "can't be imported")


def test_an_outbox_with_a_lane_that_is_away(night, monkeypatch):
    """Its queue is gone: what waits for it is moved to another lane."""
    monkeypatch.setattr(status, "OUTBOX_WAIT", 2.0)
    outputs = night.platform.outputs[STACK]
    night.platform.client("sqs").delete_queue(QueueUrl=outputs["FARQueueUrl"])
    for name, value in night.platform.variables().items():
        monkeypatch.setenv(name, value)
    outbox = DynamoOutbox.from_stack(STACK)
    dynamodb = boto3.client("dynamodb", endpoint_url=night.platform.endpoint_url)
    dynamodb.transact_write_items(TransactItems=outbox.entry("order.placed", {}, id="late", priority=-10))

    night.symptom("call-errors", "FAR is away: its queue does not exist")
    night.symptom("outbox-oldest-age", "the oldest entry of the outbox has waited", "1 of FAR")
    night.alarm("FARWaits", "OutboxLaneFailures", page="outbox-lane-waits")
    night.runbook("outbox-oldest-age", "lanes outbox status", "outbox-lane-waits")
    night.runbook("outbox-lane-waits", "lanes prioritize 50 --in outbox")

    night.lanes("prioritize", "50", "--in", "outbox", "--id", "late", "--yes")
    until(lambda: night.handled("late"))
    night.over("outbox-oldest-age")


def test_a_clock_that_is_ten_minutes_off():
    """AWS refuses every call of that machine, as it would of `lanes work` or of a relay on it."""
    times = "20270115T075000Z is now earlier than 20270115T075500Z (20270115T080000Z - 5 min.)"
    body = json.dumps({"__type": "InvalidSignatureException", "message": f"Signature expired: {times}"})
    server = Server(*[(400, {"content-type": "application/x-amz-json-1.1"}, body)] * 5)

    said = Typed(server.url)("--stack", STACK, "status")

    assert said.stderr.splitlines()[0] == "error: The clock of this machine is wrong"
    assert "timedatectl" in said.stderr
    for page in ("Call errors", "Outbox lane waits"):
        assert "clock" in section(RUNBOOK, page)
