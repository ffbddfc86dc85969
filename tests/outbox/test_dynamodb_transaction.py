"""Transactions of DynamoDB that lock the group of their entries."""

import boto3
import pytest
from botocore.exceptions import ClientError

from lanes.errors import AwsError, ConfigurationError, TransactionTooLargeError
from lanes.outbox import DynamoOutbox, SqlOutbox
from lanes.outbox.dynamodb.transaction import MAX_TRIES, OutboxTransaction
from lanes.outbox.entry import Positions
from lanes.testing.clock import START, FakeClock
from tests.support.outbox import Bench

CONFLICT = {
    "Error": {"Code": "TransactionCanceledException"},
    "CancellationReasons": [{"Code": "TransactionConflict"}, {"Code": "None"}],
}


class Conflicts:
    """A client that meets other transactions a number of times."""

    def __init__(self, client, times):
        self._client, self.left = client, times

    def transact_write_items(self, **parameters):
        """Refuse or pass on."""
        if self.left:
            self.left -= 1
            raise ClientError(CONFLICT, "TransactWriteItems")
        return self._client.transact_write_items(**parameters)


def transaction(subject, clock, client=None, pauses=None):
    """Begin a transaction of a writer with its own clock."""
    outbox = SqlOutbox(positions=Positions(clock))
    pauses = [] if pauses is None else pauses
    return OutboxTransaction(
        prepare=outbox.prepare_unique,
        table=subject.name,
        client=client or subject.client,
        pause=pauses.append,
    )


@pytest.mark.parametrize("skew", [-3600.0, -0.04, 0.0, 0.04, 3600.0])
def test_a_locked_group_has_the_order_of_commits_whatever_the_clocks(dynamodb_subject, clock, skew):
    """Two writers in turn, one of them with another time; several entries of one transaction stay together."""
    clocks = [FakeClock(), FakeClock(START + skew)]
    for number in range(6):
        one = transaction(dynamodb_subject, clocks[number % 2])
        one.lock_group("g", "unused")
        for part in "ab":
            one.add("k", None, id=f"{number}{part}", group="g")
        one.add("k", None, group="h")
        one.commit()
        for own in clocks:
            own.advance(0.01)

    bench = Bench(dynamodb_subject, clock)
    order = [entry.id for entry in bench.claim(50)[0].entries if entry.group == "g"]
    assert order == [f"{number}{part}" for number in range(6) for part in "ab"]
    assert bench.store.remove_expired(now=START, limit=10) == 0


def test_transactions_that_overlap_have_the_order_of_their_commits(dynamodb_subject, clock):
    """The one that began first commits last."""
    first, second = (transaction(dynamodb_subject, clock) for _ in range(2))
    for name, one in (("first", first), ("second", second)):
        one.lock_group("g")
        one.add("k", None, id=name, group="g")
        clock.advance(1)
    second.commit()
    first.commit()

    assert Bench(dynamodb_subject, clock).ids() == ["second", "first"]


def test_a_transaction_that_meets_another_one_is_tried_again(dynamodb_subject, clock):
    """After growing pauses, and not for ever; without a locked group it is the caller's to try again."""
    pauses = []
    one = transaction(dynamodb_subject, clock, Conflicts(dynamodb_subject.client, 3), pauses)
    one.lock_group("g")
    one.add("k", None, id="a", group="g")
    one.commit()
    assert len(pauses) == 3

    endless = transaction(dynamodb_subject, clock, Conflicts(dynamodb_subject.client, MAX_TRIES), pauses)
    endless.lock_group("g")
    endless.add("k", None, id="lost", group="g")
    with pytest.raises(AwsError) as failed:
        endless.commit()
    assert failed.value.retryable
    plain = transaction(dynamodb_subject, clock, Conflicts(dynamodb_subject.client, 1))
    plain.add("k", None, id="lost", group="g")
    with pytest.raises(AwsError) as failed:
        plain.commit()
    assert failed.value.reasons == ("TransactionConflict", "None")
    assert Bench(dynamodb_subject, clock).ids() == ["a"]


def test_a_condition_of_the_caller_ends_a_transaction_with_a_locked_group(dynamodb_subject, clock):
    """At once, with its reason; nothing is written."""
    one = transaction(dynamodb_subject, clock)
    one.lock_group("g")
    one.add("k", None, group="g")
    one.write(
        {
            "ConditionCheck": {
                "TableName": dynamodb_subject.name,
                "Key": {"pk": {"S": "none"}, "sk": {"S": "none"}},
                "ConditionExpression": "attribute_exists(pk)",
            }
        }
    )
    with pytest.raises(AwsError) as failed:
        one.commit()

    assert failed.value.reasons == ("None", "None", "ConditionalCheckFailed")
    assert not failed.value.retryable
    assert Bench(dynamodb_subject, clock).ids() == []


def test_counters_count_against_the_limit_of_a_transaction(dynamodb_subject, clock):
    """Refused before any call."""
    one = transaction(dynamodb_subject, clock)
    one.lock_group("g")
    for _ in range(100):
        one.add("k", None, group="g")

    with pytest.raises(TransactionTooLargeError, match="101 actions"):
        one.commit()


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        ({}, "pass a dict with one of Put, Update, Delete, ConditionCheck"),
        ({"Put": {}, "Delete": {}}, r"has the keys \['Put', 'Delete'\]; pass a dict with one of"),
        ({"put": {"TableName": "orders", "Item": {}}}, "pass a dict with one of"),
        ("Put", "the action is a str"),
        ({"Put": {"TableName": "orders", "Item": {"id": "7"}}}, r"Item\['id'\] is a str; .* use `put`"),
        ({"Delete": {"TableName": "orders", "Key": {"id": 7}}}, r"Key\['id'\] is a int"),
        (
            {"Update": {"TableName": "orders", "Key": {}, "ExpressionAttributeValues": {":a": None}}},
            r"ExpressionAttributeValues\[':a'\] is a NoneType",
        ),
    ],
)
def test_an_action_in_another_form_is_refused_at_once(dynamodb_subject, clock, action, problem):
    """Where it is added, with what to write instead."""
    with pytest.raises(ValueError, match=problem):
        transaction(dynamodb_subject, clock).write(action)


def test_a_resource_of_boto3_is_not_a_client():
    """It has other methods, and takes values without their types."""
    outbox = DynamoOutbox("outbox", client=boto3.resource("dynamodb"))

    with pytest.raises(ConfigurationError, match=r"pass a client, as boto3.client\('dynamodb'\) makes it"):
        outbox.transaction().__enter__()
