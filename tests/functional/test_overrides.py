"""Overrides and holds in memory and in DynamoDB keep the same promises; what only DynamoDB has is at the end."""

import dataclasses

import boto3
import pytest
from moto import mock_aws

from lanes.aws.queues.lane_queue import LaneQueueCalls
from lanes.aws.table.holds import DynamoDBHolds
from lanes.aws.table.overrides import MOST_STANDING, DynamoDBOverrides
from lanes.consumer.records import RawRecord
from lanes.errors import AwsError
from lanes.holds import Hold, Holds, State
from lanes.message_filter import MessageFilter
from lanes.overrides import Action, Cancelled, GroupRedirect, Override
from lanes.testing.calls import Calls
from lanes.testing.overrides import MemoryHolds, MemoryOverrides
from tests.support.operating import make_deployment
from tests.support.table import TABLE, create_table

NOW = 1_800_000_000.0
HOLD = Hold(lane="MAIN", group="g", leader="m1", id="one", reason="r", error="e", since=NOW, state=State.HELD)


@pytest.fixture
def dynamodb():
    """Return a client of an empty account with the table."""
    with mock_aws():
        create_table()
        yield boto3.client("dynamodb")


@pytest.fixture(params=["memory", "dynamodb"])
def tables(request):
    """The holds and the overrides, each kind in turn."""
    if request.param == "memory":
        store = MemoryHolds(Calls())
        return Holds(store), MemoryOverrides(Calls(), store, lambda: NOW)
    client = request.getfixturevalue("dynamodb")
    return (
        Holds(DynamoDBHolds(table=TABLE, client=client)),
        DynamoDBOverrides(table=TABLE, client=client, clock=lambda: NOW),
    )


@pytest.fixture
def holds(tables):
    """The held groups."""
    return tables[0]


@pytest.fixture
def overrides(tables):
    """The active overrides."""
    return tables[1]


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
    overrides.redirect(GroupRedirect(lane="MAIN", group="g", override="o", expires_at=NOW + 1))
    overrides.redirect(GroupRedirect(lane="MAIN", group="late", override="o", expires_at=NOW - 1))

    assert {
        group: one.override for group, one in overrides.redirects("MAIN", ["g", "late", "h"]).items()
    } == {"g": "o"}
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


def test_a_hold_is_counted_while_it_lasts(holds, overrides):
    """Begun twice and ended twice, it counts once."""
    for _ in range(2):
        holds.begin(HOLD)
    holds.arrived("MAIN", "g", leader="m1")
    again = dataclasses.replace(HOLD, again=True)
    assert overrides.active().held == {"MAIN"}
    assert holds.read("MAIN", ["g", "h"]) == {"g": again}
    assert list(holds.held("MAIN")) == [again]
    assert list(holds.held("HIGH")) == []

    assert [holds.end("MAIN", "g") for _ in range(2)] == [True, False]
    assert overrides.active().held == frozenset()
    assert holds.read("MAIN", ["g"]) == {}


def test_those_that_follow_are_counted_while_it_holds(holds):
    """Not once it lets go, nor where nothing is held."""
    holds.begin(HOLD)
    assert holds.behind("MAIN", "g")
    held = holds.read("MAIN", ["g"])["g"]
    assert held.behind == 1
    holds.open("MAIN", "g", opening="a1")
    assert holds.sending("MAIN", "g", copy="c1", opening="a1")
    assert holds.let_go(held)

    assert not holds.behind("MAIN", "g")
    assert not holds.behind("MAIN", "other")
    assert holds.send_behind("MAIN", "g", copy="c2")


def test_a_hold_does_not_let_go_of_one_that_has_followed_since(holds):
    """Its dead letter is on its way."""
    holds.begin(HOLD)
    read = holds.read("MAIN", ["g"])["g"]
    holds.behind("MAIN", "g")

    assert not holds.let_go(read)
    assert holds.read("MAIN", ["g"])["g"].state is not State.RELEASING


def test_a_hold_with_another_leader_is_not_the_one_that_was_read(holds):
    """A copy has failed again since, and its dead letter is on its way."""
    holds.begin(HOLD)
    read = holds.read("MAIN", ["g"])["g"]
    holds.begin(dataclasses.replace(HOLD, leader="m2"))
    holds.arrived("MAIN", "g", leader="m2")

    assert not holds.let_go(read)
    assert holds.let_go(holds.read("MAIN", ["g"])["g"])


def test_a_hold_ends_only_once_its_leader_has_arrived(holds):
    """The leader that it has now: a note of an earlier one changes nothing."""
    holds.begin(dataclasses.replace(HOLD, state=State.ARRIVING))
    holds.arrived("MAIN", "g", leader="m0")
    assert not holds.let_go(holds.read("MAIN", ["g"])["g"])

    holds.arrived("MAIN", "g", leader="m1")

    assert holds.let_go(holds.read("MAIN", ["g"])["g"])
    holds.arrived("MAIN", "g", leader="m1")
    assert holds.read("MAIN", ["g"]) == {}


def test_a_release_before_the_leader_arrives_is_kept_for_it(holds, overrides):
    """The group counts as held until the consumer has seen the release."""
    holds.begin(dataclasses.replace(HOLD, state=State.ARRIVING))
    holds.forget("MAIN", "g")

    assert holds.end("MAIN", "g")
    assert holds.read("MAIN", ["g"])["g"].state is State.RELEASED
    assert overrides.active().held == {"MAIN"}
    holds.forget("MAIN", "g")

    assert holds.read("MAIN", ["g"]) == {}
    assert overrides.active().held == frozenset()


def test_one_redrive_opens_a_group_at_a_time(holds):
    """Its own opening may be repeated; another run finds it closed."""
    holds.begin(HOLD)
    assert [holds.open("MAIN", "g", opening=one) for one in ("a1", "a1", "b2")] == [True, True, False]
    assert holds.sending("MAIN", "g", copy="c", opening="a1")
    assert not holds.sending("MAIN", "g", copy="c", opening="b2")


def test_a_hold_ends_with_the_last_copy(holds):
    """Earlier copies end nothing."""
    holds.begin(HOLD)
    holds.open("MAIN", "g", opening="a1")
    for copy in ("c1", "c2"):
        holds.sending("MAIN", "g", copy=copy, opening="a1")
    holds.let_go(holds.read("MAIN", ["g"])["g"])
    holds.copy_done("MAIN", "g", copy="c1")
    assert holds.read("MAIN", ["g"])["g"].state is State.RELEASING

    holds.copy_done("MAIN", "g", copy="c2")

    assert holds.read("MAIN", ["g"]) == {}


def test_a_hold_whose_copies_are_all_done_ends_at_once(holds):
    """There is nothing to wait for."""
    holds.begin(HOLD)
    holds.open("MAIN", "g", opening="a1")
    holds.sending("MAIN", "g", copy="c1", opening="a1")
    holds.copy_done("MAIN", "g", copy="c1")

    assert holds.let_go(holds.read("MAIN", ["g"])["g"])
    assert holds.read("MAIN", ["g"]) == {}


def test_copies_pass_only_while_the_hold_is_open(holds):
    """A new leader closes it and forgets the copies."""
    holds.begin(HOLD)
    assert not holds.sending("MAIN", "g", copy="c1", opening="a1")
    assert holds.open("MAIN", "g", opening="a1")
    assert holds.sending("MAIN", "g", copy="c1", opening="a1")
    holds.begin(Hold(lane="MAIN", group="g", leader="m2", id="two", reason="r2", error="", since=NOW + 9))

    found = holds.read("MAIN", ["g"])["g"]
    assert (found.leader, found.id, found.reason, found.since) == ("m2", "two", "r2", NOW)
    assert (found.opening, found.state, found.last, found.again) == ("", State.ARRIVING, "", True)
    assert not holds.sending("MAIN", "g", copy="c2", opening="a1")
    assert not holds.open("MAIN", "other", opening="a1")
    assert not holds.send_behind("MAIN", "g", copy="c3")


def test_one_that_follows_may_close_the_hold_again(holds):
    """Also one that lets go; a redrive opens it as before."""
    holds.begin(HOLD)
    holds.arrived("MAIN", "g", leader="m1")
    holds.open("MAIN", "g", opening="a1")
    holds.sending("MAIN", "g", copy="c1", opening="a1")
    assert holds.let_go(holds.read("MAIN", ["g"])["g"])
    assert holds.behind("MAIN", "g", closes=True)

    found = holds.read("MAIN", ["g"])["g"]
    assert (found.opening, found.state, found.last, found.again) == ("", State.HELD, "", True)
    assert found.behind == 1
    assert not holds.behind("MAIN", "other", closes=True)
    assert holds.open("MAIN", "g", opening="a2")


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
