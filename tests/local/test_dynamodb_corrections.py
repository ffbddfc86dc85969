"""moto's DynamoDB as corrected: transactions and isolation."""

import threading

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from local.corrections import dynamodb as corrections


@pytest.fixture
def table():
    """A table with a thousand items, in this process."""
    corrections.install()
    with mock_aws():
        client = boto3.client("dynamodb")
        client.create_table(
            TableName="t",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        for number in range(100):
            client.put_item(TableName="t", Item={"pk": {"S": str(number)}, "n": {"N": "0"}})
        yield client


def update(key, *, condition="n = :old", old="0"):
    return {
        "Update": {
            "TableName": "t",
            "Key": {"pk": {"S": key}},
            "UpdateExpression": "SET n = :new",
            "ConditionExpression": condition,
            "ExpressionAttributeValues": {":new": {"N": "1"}, ":old": {"N": old}},
        }
    }


def numbers(client):
    return {item["pk"]["S"]: item["n"]["N"] for item in client.scan(TableName="t")["Items"]}


def test_a_transaction_changes_all_of_its_items(table):
    """Without a failing condition every update takes effect."""
    table.transact_write_items(TransactItems=[update("1"), update("2")])

    assert {"1", "2"} == {key for key, number in numbers(table).items() if number == "1"}


def test_one_failing_condition_cancels_the_transaction_with_its_reason(table):
    """Nothing changes, and the reasons come in the order of the actions."""
    with pytest.raises(ClientError) as raised:
        table.transact_write_items(TransactItems=[update("1"), update("2", old="7")])

    reasons = raised.value.response["CancellationReasons"]
    assert [reason["Code"] for reason in reasons] == ["None", "ConditionalCheckFailed"]
    assert {"0"} == set(numbers(table).values())


def test_a_cancelled_transaction_undoes_nothing_of_others(table):
    """What was written between two transactions stays when the second is cancelled."""
    table.put_item(TableName="t", Item={"pk": {"S": "other"}, "n": {"N": "5"}})

    with pytest.raises(ClientError):
        table.transact_write_items(TransactItems=[update("1", old="7")])

    assert numbers(table)["other"] == "5"


def test_no_table_is_copied_for_a_transaction(table, monkeypatch):
    """The cost of a transaction does not depend on what else is in its table."""
    copied = []
    monkeypatch.setattr(
        corrections.copy, "deepcopy", lambda value: copied.append(type(value).__name__) or value
    )

    table.transact_write_items(TransactItems=[update("1")])

    assert "Table" not in copied


def test_one_of_many_conditional_writers_wins(table):
    """Eight threads claim the same item; the condition lets one of them in."""
    won = []
    start = threading.Barrier(8)

    def claim(name):
        start.wait()
        try:
            table.update_item(
                TableName="t",
                Key={"pk": {"S": "1"}},
                UpdateExpression="SET held_by = :me",
                ConditionExpression="attribute_not_exists(held_by)",
                ExpressionAttributeValues={":me": {"S": name}},
            )
        except ClientError:
            return
        won.append(name)

    threads = [threading.Thread(target=claim, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(won) == 1
