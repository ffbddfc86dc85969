"""The intake: what it forwards, and what stays in its queue."""

import json

import pytest

from lanes.errors import AwsError, ConfigurationError
from lanes.mapping.event import sqs_record
from lanes.message import CLAIMED_AT, Message
from lanes.producer.intake import Intake, IntakeRules
from tests.support.sending import ACCEPT, LEAVE_OUT, REFUSE, FakeSqs, make_producer, queue_url

ARN = "arn:aws:sqs:eu-central-1:123456789012:intake.fifo"


def record(number, body, *, group="g", deduplication_id=None, message_attributes=None):
    """Give one record of the function's event."""
    return sqs_record(
        message_id=f"m{number}",
        receipt_handle=f"r{number}",
        body=body,
        md5_of_body="",
        attributes={
            "MessageGroupId": group,
            "MessageDeduplicationId": deduplication_id or f"d{number}",
        },
        queue_arn=ARN,
        message_attributes=message_attributes,
    )


def body(priority=0):
    """Give the body of a CloudEvents message, with an attribute that the library does not know."""
    event = json.loads(Message(kind="order.placed", data={"n": 1.10}, id="e").to_body())
    return json.dumps(event | {"subject": "order 7", "priority": priority})


def handled(sqs, *records):
    """Run the function on records; return the ids that stay."""
    answer = Intake(make_producer(sqs)).handle({"Records": list(records)})
    return [one["itemIdentifier"] for one in answer["batchItemFailures"]]


def test_messages_are_forwarded_as_they_are_to_the_lane_of_their_priority():
    """Group, deduplication id and body are kept to the last character."""
    sqs = FakeSqs()
    bodies = [body(100), body(-100), body(None)]

    assert handled(sqs, *(record(n, one, group=f"g{n}") for n, one in enumerate(bodies))) == []

    for number, lane in enumerate(("HIGH", "MAIN", "MEDIUM")):
        (entry,) = sqs.queues[queue_url(lane)]
        assert (entry.body, entry.message_group_id) == (bodies[number], f"g{number}")
        assert entry.message_deduplication_id == f"d{number}"


def test_the_attributes_of_a_sender_are_kept():
    """All types, and without the mark of a relay, which is about its own sending."""
    sqs = FakeSqs()
    given = {
        "tenant": {"dataType": "String", "stringValue": "Ünïcode"},
        "count": {"dataType": "Number.int", "stringValue": "7"},
        "picture": {"dataType": "Binary.png", "binaryValue": "AP8="},
        CLAIMED_AT: {"dataType": "Number", "stringValue": "1"},
    }

    assert handled(sqs, record(0, "plain", message_attributes=given)) == []

    (entry,) = sqs.queues[queue_url("MEDIUM")]
    assert entry.attributes == {
        "tenant": {"DataType": "String", "StringValue": "Ünïcode"},
        "count": {"DataType": "Number.int", "StringValue": "7"},
        "picture": {"DataType": "Binary.png", "BinaryValue": b"\x00\xff"},
    }


def test_the_tracing_header_of_a_sender_is_kept():
    """AWS sets it for services and traced functions; nothing in the body has it."""
    sqs, given = FakeSqs(), record(0, "plain")
    header = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"

    assert handled(sqs, given | {"attributes": given["attributes"] | {"AWSTraceHeader": header}}) == []

    (entry,) = sqs.queues[queue_url("MEDIUM")]
    assert entry.trace_header == header


def test_attributes_count_towards_the_size_of_a_call():
    """SQS would refuse all ten messages of a call above 1 MiB."""
    sqs = FakeSqs()
    half = {"a": {"dataType": "String", "stringValue": "x" * 600_000}}

    assert handled(sqs, *(record(n, "b", group=f"g{n}", message_attributes=half) for n in range(2))) == []

    assert [len(ids) for _, ids in sqs.calls] == [1, 1]


@pytest.mark.parametrize("raw", ["plain text", "{}", '{"detail-type": "Object Created"}', body("high")])
def test_a_body_that_is_no_event_goes_to_the_lane_of_normal(raw):
    """The consumer has a handler for raw bodies, or dead-letters them with the reason."""
    sqs = FakeSqs()

    assert handled(sqs, record(0, raw)) == []

    (entry,) = sqs.queues[queue_url("MEDIUM")]
    assert (entry.body, entry.message_group_id) == (raw, "g")


def test_what_was_not_sent_stays_with_the_later_ones_of_its_group():
    """Messages of other groups and lanes are forwarded all the same."""
    sqs = FakeSqs(lambda name: REFUSE if name == "d1" else ACCEPT)
    records = [
        record(0, body()),
        record(1, body()),
        record(2, body()),
        record(3, body(100)),
        record(4, body(), group="other"),
    ]

    assert handled(sqs, *records) == ["m1", "m2"]
    assert sqs.ids(queue_url("MEDIUM")) == ["d0", "d4"]
    assert sqs.ids(queue_url("HIGH")) == ["d3"]


def test_a_message_without_an_answer_stays_and_its_repeat_is_dropped():
    """The lane has it already: its deduplication id is that of the first time."""
    words = iter([LEAVE_OUT] * 10)
    sqs = FakeSqs(lambda _: next(words, ACCEPT))

    assert handled(sqs, record(0, body())) == ["m0"]
    assert handled(sqs, record(0, body())) == []

    assert sqs.ids(queue_url("MEDIUM")) == ["d0"]


def test_every_message_stays_when_the_lanes_refuse_all():
    """A missing permission, for example; nothing is lost, and the answer names each one."""
    records = [record(n, body(), group=f"g{n}") for n in range(3)]

    assert handled(Denied(), *records) == ["m0", "m1", "m2"]


def test_without_a_deployment_the_invocation_fails_and_all_stays(monkeypatch):
    """An answer would delete the messages."""
    monkeypatch.delenv("LANES_DEPLOYMENT", raising=False)

    with pytest.raises(ConfigurationError, match="LANES_DEPLOYMENT"):
        Intake().handle({"Records": [record(0, body())]})


def standard(number, body, **attributes):
    """Give one record of a standard queue."""
    return sqs_record(
        message_id=f"m{number}",
        receipt_handle=f"r{number}",
        body=body,
        md5_of_body="",
        attributes=attributes,
        queue_arn=ARN.removesuffix(".fifo"),
    )


def forwarded(record, **rules):
    """Run the function on a record; return its lane, group and deduplication id."""
    sqs = FakeSqs()
    intake = Intake(make_producer(sqs), rules=IntakeRules(**rules))
    assert intake.handle({"Records": [record]}) == {"batchItemFailures": []}
    ((url, (entry,)),) = sqs.queues.items()
    assert entry.body == record["body"]
    (lane,) = [name for name in ("HIGH", "MEDIUM", "MAIN") if queue_url(name) == url]
    return lane, entry.message_group_id, entry.message_deduplication_id


UPLOAD = '{"Records": [{"s3": {"object": {"key": "a/b.txt", "size": 10, "sequencer": "0055"}}}]}'


@pytest.mark.parametrize(
    ("sent", "rules", "expected"),
    [
        (UPLOAD, {}, ("MEDIUM", "m0", "m0")),
        (UPLOAD, {"priority": 50}, ("HIGH", "m0", "m0")),
        (UPLOAD, {"group_by": "Records.0.s3.object.key"}, ("MEDIUM", "a/b.txt", "m0")),
        (UPLOAD, {"id_by": "Records.0.s3.object.sequencer"}, ("MEDIUM", "m0", "0055")),
        (UPLOAD, {"group_by": "Records.0.s3.object.size"}, ("MEDIUM", "10", "m0")),
        (UPLOAD, {"group_by": "Records.1.s3.object.key"}, ("MEDIUM", "m0", "m0")),
        (
            json.dumps({"Message": UPLOAD}),
            {"group_by": "Message.Records.0.s3.object.key"},
            ("MEDIUM", "a/b.txt", "m0"),
        ),
        ("plain", {"group_by": "a", "id_by": "b", "priority": -1}, ("MAIN", "m0", "m0")),
        ('\ufeff{"customer": "c"}', {"group_by": "customer"}, ("MEDIUM", "c", "m0")),
        ('{"customer": 7.0}', {"group_by": "customer"}, ("MEDIUM", "7", "m0")),
        ('{"customer": 7.5}', {"group_by": "customer"}, ("MEDIUM", "m0", "m0")),
        (body(100), {"priority": -1, "group_by": "subject"}, ("HIGH", None, "lanes#order.placed#e")),
    ],
)
def test_messages_of_a_standard_queue_get_a_group_and_an_id(sent, rules, expected):
    """From the places of the rules, else of their own; a CloudEvents message has an identity."""
    lane, group, deduplication_id = forwarded(standard(0, sent), **rules)

    assert lane == expected[0]
    assert group == (expected[1] or group)
    assert deduplication_id.endswith(expected[2].removeprefix("lanes"))


def test_a_group_that_sqs_refuses_becomes_one_that_it_takes():
    """The same each time: with the spaces of a name."""
    groups = {forwarded(standard(number, '{"name": "two words"}'), group_by="name")[1] for number in range(2)}

    (group,) = groups
    assert " " not in group


def test_the_rules_go_before_what_the_sender_gave():
    """And what is not in the body is the sender's."""
    sent = record(0, '{"a": "x"}', group="g", deduplication_id="d")

    assert forwarded(sent, group_by="a", id_by="a") == ("MEDIUM", "x", "x")
    assert forwarded(sent, group_by="b", id_by="b") == ("MEDIUM", "g", "d")


def test_the_rules_are_those_of_the_environment(monkeypatch):
    """As the construct writes them."""
    rules = IntakeRules(group_by="detail.id", priority=50)
    assert IntakeRules.from_env({"LANES_INTAKE": rules.to_json()}) == rules
    assert IntakeRules.from_env({}) == IntakeRules()

    monkeypatch.setenv("LANES_INTAKE", rules.to_json())
    sqs = FakeSqs()
    Intake(make_producer(sqs)).handle({"Records": [standard(0, '{"detail": {"id": "x"}}')]})
    assert [entry.message_group_id for entry in sqs.queues[queue_url("HIGH")]] == ["x"]


@pytest.mark.parametrize(
    "text", ["no json", "[]", '{"other": 1}', '{"group_by": "a..b"}', '{"priority": "x"}']
)
def test_rules_that_are_none_fail_the_invocation(text):
    """All messages stay."""
    with pytest.raises(ConfigurationError):
        IntakeRules.from_env({"LANES_INTAKE": text})


class Denied:
    """A role that may not send."""

    def send_batch(self, _queue_url, _entries):
        raise AwsError(operation="SendMessageBatch", code="AccessDenied", retryable=False)


def test_a_lane_that_takes_nothing_is_logged_once_and_then_each_minute(caplog):
    """An outage of hours is no flood of lines: all messages stay, and come again with each batch."""
    now = [1_000_000.0]
    intake = Intake(make_producer(Denied()), clock=lambda: now[0])

    for _ in range(13):
        intake.handle({"Records": [record(n, body(), group=f"g{n}") for n in range(10)]})
        now[0] += 10

    lines = [one.getMessage() for one in caplog.records if one.name == "lanes.producer.intake"]
    assert ["until now: 1)" in lines[0], "until now: 61)" in lines[1], "until now: 121)" in lines[2]] == [
        True
    ] * 3
    assert len(lines) == 3


def test_a_message_that_sqs_refuses_itself_is_logged_each_time(caplog):
    """It is one message, and its line names it."""
    sqs = FakeSqs(lambda name: REFUSE if name == "d1" else ACCEPT)

    handled(sqs, record(0, body(), group="a"), record(1, body(), group="b"))

    (line,) = [one.getMessage() for one in caplog.records if one.name == "lanes.producer.intake"]
    assert "message m1 was not forwarded" in line


@pytest.mark.parametrize(
    "event",
    [None, {}, {"Records": None}, {"Records": ["x"]}, {"Records": [{"EventSource": "aws:sns", "Sns": {}}]}],
)
def test_an_event_that_is_not_of_a_queue_is_refused(event):
    """A topic that invokes the function itself, for example; its message must not count as forwarded."""
    with pytest.raises(ConfigurationError, match="let the sender send to the queue of the intake"):
        Intake(make_producer(FakeSqs())).handle(event)
