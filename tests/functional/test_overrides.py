"""Overrides in memory and in DynamoDB keep the same promises; what only DynamoDB has is at the end."""

import boto3
import pytest
from moto import mock_aws

from lanes.aws.overrides import MOST_STANDING, DynamoDBOverrides
from lanes.aws.queues import LaneQueueCalls
from lanes.consumer.records import RawRecord
from lanes.errors import AwsError
from lanes.message_filter import MessageFilter
from lanes.overrides import Action, Cancelled, GroupRedirect, Override
from lanes.testing.calls import Calls
from lanes.testing.table import MemoryOverrides
from tests.support.operating import TABLE, make_deployment

NOW = 1_800_000_000.0


@pytest.fixture(params=["memory", "dynamodb"])
def overrides(request):
    """The active overrides, each kind in turn."""
    if request.param == "memory":
        return MemoryOverrides(Calls(), lambda: NOW)
    client = request.getfixturevalue("dynamodb")
    return DynamoDBOverrides(table=TABLE, client=client, clock=lambda: NOW)


def override(name="o", *, at=NOW, lasts=60.0, **wanted):
    return Override(
        id=name,
        action=Action.PRIORITIZE,
        wanted=MessageFilter(**(wanted or {"kind": "a.*", "lowest": -100, "ids": ("x", "y")})),
        created_at=at,
        expires_at=at + lasts,
        who="arn:ops",
        why="because",
        priority=50,
    )


def test_an_override_is_read_as_it_was_written(overrides):
    """The latest first, with everything it says."""
    first, second = override("a", at=NOW - 1), override("b", group="g", exact=True)
    overrides.add(first)
    overrides.add(second)

    assert overrides.active().overrides == (second, first)


def test_what_is_withdrawn_or_expired_is_gone(overrides):
    """Withdrawing twice is no error."""
    for name, at in (("a", NOW), ("b", NOW), ("c", NOW - 100)):
        overrides.add(override(name, at=at))
    for _ in range(2):
        overrides.withdraw("a")

    assert [one.id for one in overrides.active().overrides] == ["b"]


def test_a_group_follows_until_its_override_ends(overrides):
    """Only in its lane."""
    overrides.redirect(GroupRedirect(lane="MAIN", group="g", overrides=("o", "p"), expires_at=NOW + 1))
    overrides.redirect(GroupRedirect(lane="MAIN", group="late", overrides=("o",), expires_at=NOW - 1))

    assert {
        group: one.overrides for group, one in overrides.redirects("MAIN", ["g", "late", "h"]).items()
    } == {"g": ("o", "p")}
    assert overrides.redirects("HIGH", ["g"]) == {}


def test_cancelled_messages_are_found_latest_first(overrides):
    """A repeat of one counts once."""
    for number in (1, 2, 3, 3):
        overrides.cancelled(
            Cancelled(
                lane="MAIN",
                message_id=f"m{number}",
                id="i",
                kind="k",
                group="g",
                source="s",
                sent_at=NOW,
                receive_count=1,
                cancelled_at=NOW + number,
                override="o",
                who="w",
                why="",
            )
        )

    found = overrides.cancellations(since=NOW + 2, limit=10)

    assert [(one.message_id, one.cancelled_at) for one in found] == [("m3", NOW + 3), ("m2", NOW + 2)]
    assert len(overrides.cancellations(since=0, limit=1)) == 1


def test_no_override_is_added_beyond_the_limit(dynamodb):
    """Every environment reads all of it; what has expired makes room."""
    overrides = DynamoDBOverrides(table=TABLE, client=dynamodb, clock=lambda: NOW)
    overrides.add(override("old", at=NOW - 100))
    for number in range(MOST_STANDING):
        overrides.add(override(f"o{number}"))

    with pytest.raises(AwsError, match="withdraw some first"):
        overrides.add(override("more"))
    assert "override#old" not in dynamodb.get_item(TableName=TABLE, Key={"pk": {"S": "overrides"}})["Item"]


def test_an_override_of_another_release_is_named_and_left_out(dynamodb):
    """The others go on."""
    overrides = DynamoDBOverrides(table=TABLE, client=dynamodb, clock=lambda: NOW)
    overrides.add(override("mine"))
    dynamodb.update_item(
        TableName=TABLE,
        Key={"pk": {"S": "overrides"}},
        UpdateExpression="SET #new = :new",
        ExpressionAttributeNames={"#new": "override#later"},
        ExpressionAttributeValues={":new": {"S": '{"action": "dance"}'}},
    )

    active = overrides.active()

    assert ([one.id for one in active.overrides], active.unread) == (["mine"], ("later",))


def test_the_time_is_that_of_the_answers(dynamodb):
    """An operator's own clock may be minutes off."""
    overrides = DynamoDBOverrides(table=TABLE, client=dynamodb, clock=lambda: 0.0)
    headers = {"date": "Fri, 15 Jan 2027 08:00:00 GMT"}
    dynamodb.meta.events.register(
        "after-call.dynamodb.GetItem",
        lambda parsed, **_: parsed["ResponseMetadata"].update(HTTPHeaders=headers),
    )

    assert overrides.now() == NOW + 1


def test_a_record_is_sent_on_with_its_attributes():
    """Group and attributes as they were; body and deduplication id as asked."""
    with mock_aws():
        deployment = make_deployment(boto3.client)
        sqs = boto3.client("sqs")
        record = RawRecord.from_event(
            {
                "messageId": "m",
                "receiptHandle": "r",
                "body": "old",
                "attributes": {"SentTimestamp": "1", "MessageGroupId": "g"},
                "messageAttributes": {"tenant": {"dataType": "String", "stringValue": "acme"}},
            }
        )
        calls = LaneQueueCalls(deployment=deployment, client=sqs)
        for _ in range(2):
            calls.forward("HIGH", record, body="new", deduplication_id="moved-1-m")
        (message,) = sqs.receive_message(
            QueueUrl=deployment.queues["HIGH"].url,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        )["Messages"]

    assert (message["Body"], message["Attributes"]["MessageGroupId"]) == ("new", "g")
    assert message["MessageAttributes"]["tenant"]["StringValue"] == "acme"
