"""What operators call, against AWS as moto plays it, with the corrections of this project."""

import dataclasses
import json
import time
import types
from datetime import UTC, datetime, timedelta

import boto3
import pytest

from lanes.aws import dead_letters
from lanes.aws.audit import RedriveRecords
from lanes.aws.clients import Clients
from lanes.aws.cloudwatch import CloudWatchFigures
from lanes.aws.ledger import DynamoDBLedger
from lanes.aws.stack import Operations
from lanes.consumer.ledger import Blocking, Entry, Park
from lanes.errors import AwsError
from lanes.operate import dead_letters as listing
from lanes.operate.audit import audited
from lanes.operate.dead_letters import DeadLetterFilter, list_dead_letters
from lanes.operate.figures import LaneFigures
from lanes.operate.redrive import DeadLetterRun, Task
from tests.support.operating import STACK, Trail, drain, make_deployment, put_dead_letters

ALL = DeadLetterFilter()
NOW = datetime(2027, 1, 15, 8, 0, 30, tzinfo=UTC)


pytestmark = pytest.mark.usefixtures("aws_account")


@pytest.fixture
def operations(monkeypatch):
    """What verbs call, for three lanes; an empty queue says so at once."""
    monkeypatch.setattr(dead_letters, "WAIT_SECONDS", 0)
    return Operations(deployment=make_deployment(boto3.client), clients=Clients(), stack_name=STACK)


def redrive(operations, lane="MAIN", **how):
    return DeadLetterRun(
        Task(lane=lane, wanted=ALL, copies=True, hide=timedelta(seconds=10)),
        queues=operations.dead_letters,
        audit=Trail(),
        **how,
    ).run()


def test_a_dead_letter_is_read_with_its_note_and_the_originals_attributes(operations):
    """The note is no attribute of the original."""
    put_dead_letters(boto3.client("sqs"), operations.deployment, "MAIN", 1, groups=1)

    (letter,) = list_dead_letters(operations.dead_letters, "MAIN", ALL, limit=10).letters

    assert (letter.kind, letter.event_id, letter.group) == ("order.placed", "order.placed-0", "group-0")
    assert (letter.reason, letter.note["attempts"]) == ("attempts exhausted", 5)
    assert list(letter.attributes) == ["tenant"]


def test_a_look_gives_back_what_it_received(operations):
    """The counts are those of before."""
    put_dead_letters(boto3.client("sqs"), operations.deployment, "MAIN", 23, groups=4)

    list_dead_letters(operations.dead_letters, "MAIN", ALL, limit=5)

    depth = operations.depths.dead_letters("MAIN")
    assert (depth.backlog, depth.in_flight) == (23, 0)


def test_a_copy_is_the_original_again(operations):
    """Body, group and attributes; the note stays behind, and the deduplication id is the dead letter's."""
    sqs = boto3.client("sqs")
    ids = put_dead_letters(sqs, operations.deployment, "MAIN", 12, groups=3)
    letters = {
        one.event_id: one for one in list_dead_letters(operations.dead_letters, "MAIN", ALL, limit=20).letters
    }

    assert redrive(operations).done == 12

    arrived = drain(sqs, operations.deployment.queues["MAIN"].url)
    assert sorted(json.loads(message["Body"])["id"] for message in arrived) == sorted(ids)
    for message in arrived:
        letter = letters[json.loads(message["Body"])["id"]]
        assert message["Body"] == letter.body
        assert message["Attributes"]["MessageGroupId"] == letter.group
        assert message["Attributes"]["MessageDeduplicationId"] == letter.copied_as
        assert message["MessageAttributes"] == {"tenant": {"DataType": "String", "StringValue": "acme"}}


def test_attributes_that_made_room_for_the_note_come_back(operations):
    """An original with ten attributes has them in its note."""
    sqs = boto3.client("sqs")
    text = {"DataType": "String", "StringValue": "v"}
    note = {"reason": "r", "attributes": {f"a{number}": text for number in range(10)}}
    sqs.send_message(
        QueueUrl=operations.deployment.queues["MAIN"].dead_letter_url,
        MessageBody="<xml/>",
        MessageGroupId="g",
        MessageDeduplicationId="d",
        MessageAttributes={"lanes.dead_letter": {"DataType": "String", "StringValue": json.dumps(note)}},
    )

    redrive(operations)

    (message,) = drain(sqs, operations.deployment.queues["MAIN"].url)
    assert message["Body"] == "<xml/>"
    assert message["MessageAttributes"] == note["attributes"]


def test_large_dead_letters_go_in_batches_that_sqs_takes(operations):
    """A batch call holds one MiB in all."""
    sqs = boto3.client("sqs")
    for number in range(5):
        sqs.send_message(
            QueueUrl=operations.deployment.queues["MAIN"].dead_letter_url,
            MessageBody=f"{number}" + "x" * 400_000,
            MessageGroupId=f"g{number}",
            MessageDeduplicationId=f"d{number}",
        )

    assert redrive(operations).done == 5
    assert len(drain(sqs, operations.deployment.queues["MAIN"].url)) == 5


def test_a_run_that_goes_on_much_later_copies_nothing_twice(operations, monkeypatch):
    """What a killed run had copied and not deleted is noted, for when SQS has forgotten the first copy."""
    sqs = boto3.client("sqs")
    put_dead_letters(sqs, operations.deployment, "MAIN", 25, groups=25)
    letters = operations.dead_letters
    monkeypatch.setattr(letters, "delete", _killed)
    with pytest.raises(KeyboardInterrupt):
        redrive(operations)
    first = drain(sqs, operations.deployment.queues["MAIN"].url)
    monkeypatch.undo()
    monkeypatch.setattr(listing, "REDRIVEN", "later-")

    done = redrive(operations).done

    second = drain(sqs, operations.deployment.queues["MAIN"].url)
    assert (len(first), len(second), done) == (10, 15, 25)
    assert {one["Body"] for one in first}.isdisjoint(one["Body"] for one in second)


def test_only_copies_whose_dead_letters_stay_are_recorded(operations, monkeypatch):
    """A deleted one is received by no later run; a refused deletion leaves one that is."""
    put_dead_letters(boto3.client("sqs"), operations.deployment, "MAIN", 12, groups=1)
    letters = operations.dead_letters
    client = boto3.client("sqs")
    given = letters.receive("MAIN", limit=3, hold=timedelta(seconds=10))
    for letter in given:
        letters.copy([letter])
    client.delete_message(
        QueueUrl=operations.deployment.queues["MAIN"].dead_letter_url, ReceiptHandle=given[0].receipt_handle
    )
    stays = dataclasses.replace(given[2], receipt_handle="unknown")

    refused = letters.delete([*given[:2], stays])

    recorded = RedriveRecords(table=operations.deployment.table, client=boto3.client("dynamodb"))
    ids = [letter.message_id for letter in given]
    assert recorded.copied("MAIN", ids) == set(refused) == {stays.message_id}


def test_without_the_notes_nothing_is_copied_blindly(operations, monkeypatch):
    """A run that goes on stops where it can't know what was copied; one that begins needs no notes."""
    put_dead_letters(boto3.client("sqs"), operations.deployment, "MAIN", 3, groups=3)
    boto3.client("dynamodb").delete_table(TableName=operations.deployment.table)
    listing = list_dead_letters(operations.dead_letters, "MAIN", ALL, limit=1)

    with pytest.raises(AwsError, match="BatchGetItem"):
        redrive(operations)

    assert listing.letters
    put_dead_letters(boto3.client("sqs"), operations.deployment, "HIGH", 3, groups=3)
    assert redrive(operations, "HIGH").done == 3


def _killed(_letters):
    raise KeyboardInterrupt


def test_a_second_copy_has_no_effect(operations):
    """As after a run that was killed before it deleted."""
    sqs = boto3.client("sqs")
    put_dead_letters(sqs, operations.deployment, "MAIN", 3, groups=3)
    letters = operations.dead_letters.receive("MAIN", limit=10, hold=timedelta(seconds=1))
    operations.dead_letters.copy(letters)
    operations.dead_letters.give_back(letters)

    assert redrive(operations).done == 3
    assert len(drain(sqs, operations.deployment.queues["MAIN"].url)) == 3


def test_audit_entries_are_found_by_time_the_latest_first(operations):
    """With caller, outcome and what was done; parked records are not among them."""
    clock = iter([1000.0, 2000.0, 3000.0]).__next__
    for action in ("pause", "resume", "send"):
        with audited(operations.audit, action, "HIGH", details={"asked": 1}, clock=clock) as noted:
            noted["done"] = 2

    found = operations.audit.entries(since=1500.0, limit=10)

    assert [(entry.action, entry.at, entry.outcome) for entry in found] == [
        ("send", 3000.0, "done"),
        ("resume", 2000.0, "done"),
    ]
    assert found[0].details == {"asked": 1, "done": 2}
    assert found[0].who.startswith("arn:aws:sts::")
    assert [entry.action for entry in operations.audit.entries(since=0.0, limit=1)] == ["send"]
    assert operations.depths.parked("HIGH") == 0


def test_an_item_of_the_consumer_is_not_an_audit_entry(operations):
    """Not even with every attribute of one: the consumer can't write an entry's key."""
    with audited(operations.audit, "pause", "HIGH", details={}, clock=lambda: 1000.0):
        pass
    client, table = boto3.client("dynamodb"), operations.deployment.table
    (entry,) = (one for one in client.scan(TableName=table)["Items"] if one["pk"]["S"].startswith("audit#"))
    for number in range(3):
        forged = {"pk": {"S": f"message#audit#{number}"}, "parked_until": {"S": f"{2000 + number:015.3f}"}}
        client.put_item(TableName=table, Item=entry | forged)

    assert [(one.action, one.at) for one in operations.audit.entries(since=0.0, limit=2)] == [
        ("pause", 1000.0)
    ]


def test_parked_records_are_counted_until_their_time_is_over(operations):
    """Those of the lane alone."""
    ledger = DynamoDBLedger(table=operations.deployment.table, client=boto3.client("dynamodb"))
    parked = {"park": Park.YIELD, "receipt_handle": "r"}
    ledger.note(
        [
            Entry(lane="MAIN", message_id="now", parked_until=4e9, **parked),
            Entry(lane="MAIN", message_id="over", parked_until=1e9, **parked),
            Entry(lane="HIGH", message_id="other", parked_until=4e9, **parked),
        ]
    )

    assert operations.depths.parked("MAIN") == 1


def test_messages_that_block_their_groups_are_found_beside_other_parked_ones(operations):
    """Also one whose next try is due, but not one that was due a while ago: it may have ended."""
    ledger = DynamoDBLedger(table=operations.deployment.table, client=boto3.client("dynamodb"))
    blocking = Blocking(group="g", kind="payment", id="p", since=1_000.0)
    waits = {"lane": "MAIN", "park": Park.REST}
    due = time.time() - 5
    ledger.note(
        [
            Entry(message_id="later", parked_until=4e9, blocking=blocking, **waits),
            Entry(message_id="due", parked_until=round(due, 3), blocking=blocking, **waits),
            Entry(message_id="over", parked_until=due - 3600, blocking=blocking, **waits),
            Entry(message_id="other", parked_until=4e9, **waits),
            Entry(lane="MAIN", message_id="tried", blocking=blocking),
        ]
    )

    found = operations.depths.blocking("MAIN")

    assert sorted(entry.message_id for entry in found) == ["due", "later"]
    assert {entry.blocking for entry in found} == {blocking}
    assert operations.depths.blocking("HIGH") == []


def test_figures_are_means_of_the_last_five_whole_minutes(operations):
    """The minute that runs is left out, and so is another service of the same account."""
    queue = operations.deployment.queues["MAIN"].url.rpartition("/")[2]
    cloudwatch = boto3.client("cloudwatch")
    for age, minute in enumerate(range(1, 8)):
        at = NOW - timedelta(minutes=minute)
        own = {"MetricName": "HandledMessages", "Timestamp": at, "Value": 10.0}
        for service in (STACK, "another"):
            dimensions = [{"Name": "lane", "Value": "MAIN"}, {"Name": "service", "Value": service}]
            cloudwatch.put_metric_data(
                Namespace="PriorityLanes", MetricData=[{**own, "Dimensions": dimensions}]
            )
        dimensions = [{"Name": "QueueName", "Value": queue}]
        cloudwatch.put_metric_data(
            Namespace="AWS/SQS",
            MetricData=[
                {
                    "MetricName": "ApproximateAgeOfOldestMessage",
                    "Timestamp": at,
                    "Value": 100.0 - age,
                    "Dimensions": dimensions,
                },
                {
                    "MetricName": "NumberOfMessagesSent",
                    "Timestamp": at,
                    "Value": 4.0,
                    "Dimensions": dimensions,
                },
                {
                    "MetricName": "NumberOfMessagesDeleted",
                    "Timestamp": at,
                    "Value": 12.0,
                    "Dimensions": dimensions,
                },
            ],
        )

    figures = CloudWatchFigures(
        deployment=operations.deployment, client=cloudwatch, service=lambda: STACK, now=lambda: NOW
    ).read()

    assert figures["MAIN"].pace == 10.0
    # Two of them were dead-lettered, cancelled or moved.
    assert figures["MAIN"].leaving == 12.0
    assert figures["MAIN"].arrivals == 4.0
    assert figures["MAIN"].yields == 0.0
    assert figures["MAIN"].oldest_age == timedelta(seconds=99)
    assert figures["HIGH"] == LaneFigures()


def test_a_lane_whose_queue_is_gone_is_an_aws_error(operations):
    """The error says which call failed."""
    boto3.client("sqs").delete_queue(QueueUrl=operations.deployment.queues["HIGH"].url)

    with pytest.raises(AwsError, match="GetQueueAttributes"):
        operations.depths.depth("HIGH")


def test_the_function_is_found_though_the_queue_of_a_lane_is_gone(operations):
    """Its log, too: one that is asked for in an outage must not need every part."""
    functions = types.SimpleNamespace(
        of_lane=lambda lane: list_or_raise(lane, {"HIGH": [LAMBDA], "MEDIUM": [LAMBDA]})
    )
    operations.__dict__["mappings"] = functions
    operations.__dict__["state"] = types.SimpleNamespace(function=lambda arn: arn)

    assert operations.function() == "arn:f"


LAMBDA = types.SimpleNamespace(function_arn="arn:f")


def list_or_raise(lane, known):
    """Return the mappings of a lane; the queue of another one does not exist."""
    if lane not in known:
        raise AwsError(operation="GetQueueAttributes", code="QueueDoesNotExist", retryable=False)
    return known[lane]
