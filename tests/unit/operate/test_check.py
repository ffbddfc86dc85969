"""What a check finds, and what it advises."""

import dataclasses
import json

import pytest

from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from lanes.errors import AwsError
from lanes.operate.audit import AuditEntry
from lanes.operate.check import Check, Verdict
from lanes.operate.check_rules import FunctionState
from lanes.operate.pause import LaneMapping

CONFIG = LanesConfig.from_dict({"lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN"}]})
DEPLOYMENT = Deployment(
    config=CONFIG,
    queues={name: LaneQueues(url=name, dead_letter_url=f"{name}-dead") for name in ("HIGH", "MAIN")},
    table="ledger",
)
QUEUE = {
    "FifoQueue": "true",
    "DeduplicationScope": "messageGroup",
    "FifoThroughputLimit": "perMessageGroupId",
    "ContentBasedDeduplication": "false",
    "SqsManagedSseEnabled": "true",
    "VisibilityTimeout": "180",
    "MessageRetentionPeriod": "1209600",
}
MAPPING = LaneMapping(
    uuid="u", state="Enabled", function_arn="f", batch_size=10, maximum_concurrency=2, reports_failures=True
)
FUNCTION = FunctionState(
    variables={"LANES_DEPLOYMENT": DEPLOYMENT.to_json()},
    reserved_concurrency=1,
    log_group="/aws/lambda/f",
)


class Deployed:
    """A deployment as it should be; each test changes a part."""

    def __init__(self):
        self.changed = {}
        self.found = [MAPPING]
        self.of_others = []
        self.foreign = []
        self.the_function = FUNCTION
        self.switched = []
        self.left = []
        self.errors = {}

    def queue(self, url):
        self._fail("queue")
        policy = json.dumps({"deadLetterTargetArn": f"arn:{url}-dead", "maxReceiveCount": 1000})
        return {**QUEUE, "QueueArn": f"arn:{url}", "RedrivePolicy": policy, **self.changed.get(url, {})}

    def queues(self, prefix):
        return [url for url in self.left if url.rpartition("/")[2].startswith(prefix)]

    @property
    def mappings(self):
        return self

    def of_lane(self, _lane):
        self._fail("mappings")
        return self.found

    def others(self, lane):
        return self.of_others if lane == "HIGH" else []

    def of_function(self, arn):
        return [
            dataclasses.replace(MAPPING, function_arn=arn, source_arn="arn:aws:sqs:r:1:HIGH"),
            *self.foreign,
        ]

    def of_bell(self):
        return self.found

    def switches(self):
        self._fail("switches")
        return self.switched

    def function(self, _arn):
        self._fail("function")
        return self.the_function

    def _fail(self, name):
        if name in self.errors:
            raise AwsError(operation=name, code=self.errors[name], retryable=False)


def findings(deployed, **how):
    return Check(deployment=DEPLOYMENT, state=deployed, **how).run()


def wrong(deployed, **how):
    return [
        f"{one.subject}: {one.found}" for one in findings(deployed, **how) if one.verdict is Verdict.WRONG
    ]


def test_a_sound_deployment_has_nothing_wrong():
    """A line for each part all the same."""
    found = findings(Deployed())

    assert {one.verdict for one in found} == {Verdict.OK}
    assert {one.subject for one in found} == {
        *(
            f"{lane} {part}"
            for lane in ("HIGH", "MAIN")
            for part in ("queue", "dead-letter queue", "mapping")
        ),
        "function",
    }


@pytest.mark.parametrize(
    ("url", "attributes", "finding"),
    [
        ("HIGH", {"VisibilityTimeout": "200"}, "HIGH queue: visibility timeout is 200 s, 180 s was deployed"),
        ("MAIN", {"DeduplicationScope": "queue"}, "MAIN queue: DeduplicationScope is queue"),
        ("MAIN", {"ContentBasedDeduplication": "true"}, "MAIN queue: ContentBasedDeduplication is true"),
        ("MAIN", {"SqsManagedSseEnabled": "false"}, "MAIN queue: it is not encrypted"),
        ("MAIN", {"RedrivePolicy": "{}"}, "MAIN dead-letter queue: the lane's queue does not name it"),
        (
            "MAIN-dead",
            {"MessageRetentionPeriod": "345600"},
            "MAIN dead-letter queue: it keeps messages 4 days",
        ),
    ],
)
def test_a_queue_that_was_changed_is_found(url, attributes, finding):
    """By hand, or by another tool."""
    deployed = Deployed()
    deployed.changed = {url: attributes}

    assert any(line.startswith(finding) for line in wrong(deployed)), wrong(deployed)


PREFIX = "https://sqs/1/Shop-Lanes"
NAMED = dataclasses.replace(
    DEPLOYMENT,
    queues={
        name: LaneQueues(
            url=f"{PREFIX}{name}Queue1A-X.fifo", dead_letter_url=f"{PREFIX}{name}DeadLetterQueue2B-X.fifo"
        )
        for name in ("HIGH", "MAIN")
    },
)


def test_the_queue_of_a_removed_lane_that_holds_messages_is_found():
    """CloudFormation keeps it, and no function reads it. An empty one is a note; other stacks are left alone."""
    deployed = Deployed()
    old, empty = (f"{PREFIX}{name}Queue3C-X.fifo" for name in ("OLD", "EMPTY"))
    known = [
        url.replace("https://sqs", "http://127.0.0.1:4566")
        for one in NAMED.queues.values()
        for url in (one.url, one.dead_letter_url)
    ]
    deployed.left = [*known, old, empty, "https://sqs/1/Shop-prod-LanesMAINQueue4D-X.fifo"]
    deployed.changed = {
        old: {"ApproximateNumberOfMessages": "2", "ApproximateNumberOfMessagesNotVisible": "1"}
    }

    found = [one for one in Check(deployment=NAMED, state=deployed).run() if one.subject == "removed lane"]

    assert [(one.verdict, one.found.split("-")[1].partition("Queue")[0]) for one in found] == [
        (Verdict.NOTE, "LanesEMPTY"),
        (Verdict.WRONG, "LanesOLD"),
    ]
    assert "holds 3 messages" in found[1].found
    assert "deploy.md" in found[1].advice


def test_the_queue_of_a_removed_lane_is_found_beside_lanes_with_names_of_their_own():
    """One lane that CloudFormation has named is enough to know the beginning of its names."""
    deployed = Deployed()
    named = LaneQueues(url="https://sqs/1/orders.fifo", dead_letter_url="https://sqs/1/orders-dead.fifo")
    deployment = dataclasses.replace(NAMED, queues=NAMED.queues | {"MAIN": named})
    deployed.left = [f"{PREFIX}OLDQueue3C-X.fifo"]

    found = Check(deployment=deployment, state=deployed).run()

    assert [one.code for one in found if one.subject == "removed lane"] == ["empty_queue_left"]


@pytest.mark.parametrize(("left", "removable"), [("4", False), ("0", True)])
def test_a_closing_lane_says_when_it_can_be_removed(left, removable):
    """Dead letters count too: with the lane gone, no verb would show them."""
    lanes = [{"name": "HIGH", "threshold": 50, "closing": True}, {"name": "MAIN"}]
    deployed = Deployed()
    deployed.changed = {"HIGH-dead": {"ApproximateNumberOfMessages": left}}
    deployment = dataclasses.replace(DEPLOYMENT, config=LanesConfig.from_dict({"lanes": lanes}))

    (note,) = [
        one for one in Check(deployment=deployment, state=deployed).run() if one.subject == "HIGH lane"
    ]

    assert f"0 messages and {left} dead letters" in note.found
    assert ("remove it from lanes.toml" in note.found) == removable


def test_a_queue_that_gives_up_after_few_receives_is_found():
    """Yields would use them up."""
    deployed = Deployed()
    policy = json.dumps({"deadLetterTargetArn": "arn:MAIN-dead", "maxReceiveCount": 3})
    deployed.changed = {"MAIN": {"RedrivePolicy": policy}}

    assert wrong(deployed) == [
        "MAIN dead-letter queue: SQS moves messages there after 3 receives, yields included; it must be 1000 or more"
    ]


ON_EXISTING = dataclasses.replace(
    DEPLOYMENT,
    queues=DEPLOYMENT.queues | {"HIGH": LaneQueues(url="HIGH", dead_letter_url="HIGH-dead", existing=True)},
)


def findings_on(attributes, *, dead=None):
    """Give the findings about a lane on an existing queue with these attributes."""
    deployed = Deployed()
    deployed.changed = {"HIGH": attributes, "HIGH-dead": dead or {}}
    deployed.the_function = dataclasses.replace(
        FUNCTION, variables={"LANES_DEPLOYMENT": ON_EXISTING.to_json()}
    )
    return Check(deployment=ON_EXISTING, state=deployed).run()


def test_an_existing_queue_may_have_settings_of_its_own_and_they_are_noted():
    """A longer visibility timeout harms nothing; deduplication and throughput are its senders' business."""
    found = findings_on(
        {
            "VisibilityTimeout": "600",
            "ContentBasedDeduplication": "true",
            "DeduplicationScope": "queue",
            "FifoThroughputLimit": "perQueue",
        },
        dead={"ContentBasedDeduplication": "true"},
    )

    assert [one for one in found if one.verdict is Verdict.WRONG] == []
    notes = [one.found for one in found if one.code == "existing_queue"]
    assert [note.partition(":")[0] for note in notes] == [
        "ContentBasedDeduplication is true",
        "FifoThroughputLimit is perQueue",
    ]


@pytest.mark.parametrize(
    ("attributes", "code", "text"),
    [
        ({"FifoQueue": "false"}, "queue_setting", "it is a standard queue; a lane needs FIFO queues"),
        ({"SqsManagedSseEnabled": "false"}, "not_encrypted", "it is not encrypted"),
        ({"VisibilityTimeout": "30"}, "visibility_timeout_short", "30 s, below the lane's 180 s"),
        ({"RedrivePolicy": "{}"}, "dead_letter_queue_unused", "does not name it as its dead-letter queue"),
        (
            {
                "RedrivePolicy": '{"deadLetterTargetArn": "arn:HIGH-dead", "maxReceiveCount": 3}',
                "MessageRetentionPeriod": "345600",
            },
            "few_receives",
            "after 3 receives, yields included; it must be 718 or more",
        ),
    ],
)
def test_an_existing_queue_that_cannot_be_a_lane_is_found(attributes, code, text):
    """The stack can't change it, so the advice leads to its owner."""
    (wrong,) = (one for one in findings_on(attributes) if one.verdict is Verdict.WRONG)

    assert wrong.code == code
    assert text in wrong.found
    assert "where the queue is defined" in wrong.advice


def test_a_disabled_mapping_of_the_older_function_is_a_note():
    """It takes nothing, and is the way back to it."""
    deployed = Deployed()
    deployed.of_others = [dataclasses.replace(MAPPING, uuid="7", function_arn="older", state="Disabled")]

    found = findings(deployed)

    assert not [one for one in found if one.verdict is Verdict.WRONG]
    (note,) = [one for one in found if one.code == "other_mapping_disabled"]
    assert (note.verdict, note.subject) == (Verdict.NOTE, "HIGH mapping")
    assert note.found.startswith("mapping 7 (Disabled) of older takes none of its messages")


def test_the_older_function_beside_the_lanes_is_named_and_not_compared():
    """While both are mapped to the queue: its settings are its owner's."""
    deployed = Deployed()
    deployed.of_others = [dataclasses.replace(MAPPING, uuid="7", function_arn="older", batch_size=3)]
    older = dataclasses.replace(FUNCTION, variables={}, reserved_concurrency=None)
    deployed.function = lambda arn: older if arn == "older" else FUNCTION

    wrong = [one for one in findings(deployed) if one.verdict is Verdict.WRONG]

    assert [one.code for one in wrong] == ["mapping_count", "several_functions"]
    assert wrong[0].subject == "HIGH mapping"
    assert wrong[0].found.startswith("mapping 7 (Enabled) gives its messages to older too")
    assert "--uuid 7" in wrong[0].advice


@pytest.mark.parametrize(
    ("source", "text", "advice"),
    [
        (
            "arn:aws:sqs:r:1:orders",
            "brings it messages of the queue orders, which is not",
            "docs/how-to/adopt.md",
        ),
        (
            "arn:aws:sqs:r:1:HIGH-dead",
            "messages of the queue HIGH-dead, which is not",
            "docs/how-to/adopt.md",
        ),
        ("arn:aws:kinesis:r:1:stream/x", "messages of arn:aws:kinesis:r:1:stream/x, which", "--uuid 7"),
        ("", "messages of a source without an ARN, which", "--uuid 7"),
    ],
)
def test_a_mapping_from_a_source_that_is_no_lane_is_named(source, text, advice):
    """The consumer refuses each batch, and only its log would tell."""
    deployed = Deployed()
    deployed.foreign = [dataclasses.replace(MAPPING, uuid="7", source_arn=source)]

    (found,) = [one for one in findings(deployed) if one.verdict is Verdict.WRONG]

    assert (found.code, found.subject) == ("foreign_mapping", "function")
    assert found.found.startswith("mapping 7 (Enabled) ")
    assert text in found.found
    assert advice in found.advice


def test_a_disabled_mapping_from_a_source_that_is_no_lane_is_a_note():
    """It brings nothing, and would if it were enabled."""
    deployed = Deployed()
    source = "arn:aws:sqs:r:1:orders"
    deployed.foreign = [dataclasses.replace(MAPPING, uuid="7", source_arn=source, state="Disabled")]

    (found,) = [one for one in findings(deployed) if "foreign_mapping" in one.code]

    assert (found.verdict, found.code, found.subject) == (
        Verdict.NOTE,
        "foreign_mapping_disabled",
        "function",
    )
    assert found.found.startswith(
        "mapping 7 (Disabled) of the queue orders, which is not a lane, brings it nothing"
    )
    assert "delete-event-source-mapping --uuid 7" in found.found


def test_an_existing_queue_that_is_gone_is_not_a_matter_of_deploying_again():
    """The stack would not make it."""
    deployed = Deployed()
    deployed.errors = {"queue": "AWS.SimpleQueueService.NonExistentQueue"}

    found = [one for one in Check(deployment=ON_EXISTING, state=deployed).run() if one.code == "missing"]

    assert [(one.subject, "correct `existing`" in one.advice) for one in found] == [
        ("HIGH queue", True),
        ("HIGH dead-letter queue", True),
        ("MAIN queue", False),
        ("MAIN dead-letter queue", False),
    ]


@pytest.mark.parametrize(
    ("change", "text", "advice"),
    [
        ({"state": "Disabled"}, "paused", "lanes resume HIGH"),
        ({"state": "Updating"}, "Updating", "wait"),
        ({"reports_failures": False}, "ReportBatchItemFailures", "cdk deploy"),
        ({"batch_size": 5}, "batch size is 5, 10 was deployed", "cdk deploy"),
        ({"maximum_concurrency": None}, "maximum concurrency is None, 2 was deployed", "cdk deploy"),
    ],
)
def test_a_mapping_that_was_changed_is_found_with_what_to_do(change, text, advice):
    """The advice names the lane where it matters."""
    deployed = Deployed()
    deployed.found = [dataclasses.replace(MAPPING, **change)]

    found = [one for one in findings(deployed) if one.subject == "HIGH mapping"]

    assert len(found) == 1
    assert text in found[0].found
    assert advice in found[0].advice


def test_two_mappings_on_a_queue_and_two_functions_are_found():
    """Each lane has one, and all feed the same function."""
    deployed = Deployed()
    deployed.found = [MAPPING, dataclasses.replace(MAPPING, function_arn="g")]

    lines = wrong(deployed)

    assert "HIGH mapping: 2 mappings serve it; there must be exactly one" in lines
    assert any(line.startswith("function: lanes feed 2 functions") for line in lines)


PULL = Deployment(
    config=LanesConfig.from_dict({"consumer": {"engine": "pull", "reserved_concurrency": 3}}),
    queues={
        name: LaneQueues(url=name, dead_letter_url=f"{name}-dead") for name in ("HIGH", "MEDIUM", "MAIN")
    },
    table="ledger",
    bell="bell",
)
BELL_MAPPING = dataclasses.replace(MAPPING, batch_size=1, maximum_concurrency=3)


def pulled(mapping=BELL_MAPPING, **bell):
    """Give a deployment of the pull engine."""
    deployed = Deployed()
    deployed.found = [mapping]
    rings = {"ApproximateNumberOfMessagesNotVisible": "1"}
    deployed.changed = {
        "bell": {"ContentBasedDeduplication": "true", "VisibilityTimeout": "32"} | rings | bell
    }
    variables = {"LANES_DEPLOYMENT": PULL.to_json()}
    deployed.the_function = dataclasses.replace(FUNCTION, variables=variables, reserved_concurrency=3)
    return deployed


def wrong_in_pull(deployed):
    """Give what is wrong with it."""
    found = Check(deployment=PULL, state=deployed).run()
    return [f"{one.subject}: {one.found}" for one in found if one.verdict is Verdict.WRONG]


def test_a_sound_deployment_of_the_pull_engine_has_nothing_wrong():
    """The bell's mapping takes one ring at a time, for as many invocations as there are slots."""
    found = {one.subject: one.found for one in Check(deployment=PULL, state=pulled()).run()}

    assert wrong_in_pull(pulled()) == []
    assert "bell" in found
    assert found["bell mapping"] == "Enabled, batches of 1, at most 3 at once"
    assert found["HIGH lane"] == "slots receive from it"
    assert "HIGH mapping" not in found


def test_a_paused_lane_of_the_pull_engine_is_found():
    """The bell's mapping goes on for the others."""
    deployed = pulled()
    deployed.of_lane = lambda lane: [
        dataclasses.replace(BELL_MAPPING, state="Disabled" if lane == "MAIN" else "Enabled")
    ]

    (paused,) = [one for one in Check(deployment=PULL, state=deployed).run() if one.verdict is Verdict.WRONG]

    assert (paused.subject, paused.found) == ("MAIN lane", "it is paused: no slot receives from it")
    assert paused.advice == "lanes resume MAIN"


def test_a_disabled_mapping_of_the_bell_is_no_paused_lane():
    """To resume the lanes would start nothing."""
    deployed = pulled(dataclasses.replace(BELL_MAPPING, state="Disabled"))

    assert wrong_in_pull(deployed) == [
        "bell mapping: it is disabled: no invocation starts, and all lanes stand still"
    ]


@pytest.mark.parametrize(
    ("deployed", "finding"),
    [
        (
            pulled(dataclasses.replace(BELL_MAPPING, batch_size=10)),
            "bell mapping: batch size is 10, 1 was deployed",
        ),
        (
            pulled(dataclasses.replace(BELL_MAPPING, maximum_concurrency=9)),
            "bell mapping: maximum concurrency is 9, 3 was deployed",
        ),
        (pulled(VisibilityTimeout="30"), "bell: visibility timeout is 30 s; it must be 32 s"),
        (
            pulled(ContentBasedDeduplication="false"),
            "bell: ContentBasedDeduplication is false; it must be true",
        ),
        (
            pulled(ApproximateNumberOfMessagesNotVisible="0"),
            "bell: it has no heartbeat: without a ring, no invocation starts",
        ),
    ],
)
def test_a_bell_that_was_changed_is_found(deployed, finding):
    """By hand, or by another tool."""
    assert finding in wrong_in_pull(deployed)


@pytest.mark.parametrize(
    ("slots", "code"), [(0, "nothing_runs"), (None, "reserved_concurrency_differs"), (1, "as_expected")]
)
def test_the_concurrency_is_that_of_the_deployment(slots, code):
    """Without a reservation of its own it shares the account's."""
    deployed = Deployed()
    deployed.the_function = dataclasses.replace(FUNCTION, reserved_concurrency=slots)

    (found,) = [one for one in findings(deployed) if one.subject == "function"]

    assert found.code == code


@pytest.mark.parametrize(
    ("code", "verdict"), [("AccessDenied", Verdict.UNKNOWN), ("ResourceNotFoundException", Verdict.WRONG)]
)
def test_what_can_not_be_read_is_unknown_and_what_is_gone_is_wrong(code, verdict):
    """The first names the right that is missing, the second says to deploy."""
    deployed = Deployed()
    deployed.errors = {"function": code}

    (function,) = [one for one in findings(deployed) if one.subject == "function"]

    assert function.verdict is verdict
    assert ("lambda:GetFunctionConcurrency" if verdict is Verdict.UNKNOWN else "deploy") in function.advice


def switched(action, *, target="MAIN", outcome="done"):
    return AuditEntry(
        id="1", at=1_800_000_000.0, who="arn:ann", action=action, target=target, details={}, outcome=outcome
    )


@pytest.mark.parametrize("engine", ["mappings", "pull"])
def test_a_paused_lane_that_a_deploy_resumed_is_found(engine):
    """By the audit trail: the mapping itself has forgotten it."""
    deployment, state = (DEPLOYMENT, Deployed()) if engine == "mappings" else (PULL, pulled())
    state.switched = [switched("pause"), switched("resume", target="HIGH"), switched("pause", target="HIGH")]

    (found,) = [
        one
        for one in Check(deployment=deployment, state=state).run()
        if one.verdict is Verdict.WRONG and "without" in one.found
    ]

    assert found.subject == "MAIN lane"
    assert found.found.startswith("arn:ann paused it at 2027-01-15 08:00Z")
    assert found.advice == "lanes pause MAIN; if it is to run, lanes resume MAIN after that"


@pytest.mark.parametrize(
    "entries",
    [
        [switched("resume"), switched("pause")],
        [switched("pause", outcome="failed: no"), switched("resume")],
        [],
    ],
)
def test_a_lane_that_was_resumed_by_its_verb_is_sound(entries):
    """The latest successful entry counts."""
    deployed = Deployed()
    deployed.switched = entries

    assert wrong(deployed) == []


def test_a_lane_that_is_still_paused_is_found_once():
    """As paused."""
    deployed = Deployed()
    deployed.found = [dataclasses.replace(MAPPING, state="Disabled")]
    deployed.switched = [switched("pause")]

    assert [text for text in wrong(deployed) if "MAIN" in text] == [
        "MAIN mapping: it is paused: it receives no message of the lane"
    ]
