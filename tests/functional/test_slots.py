"""The slot table in memory and in DynamoDB: the same answers, and an item that stays small."""

import dataclasses

import boto3
import pytest
from moto import mock_aws

from lanes.aws.slots import FORGOTTEN_AFTER, DynamoDBPauses, DynamoDBSlots
from lanes.consumer.engines.presence import Presence
from lanes.errors import AwsError
from lanes.testing.calls import Calls
from lanes.testing.table import MemoryPauses, MemorySlots
from tests.support.operating import TABLE, create_table

NOW = 1_800_000_000.0


@pytest.fixture(params=["memory", "dynamodb"])
def slots(request):
    """Each slot table in turn."""
    if request.param == "memory":
        return MemorySlots(Calls())
    return DynamoDBSlots(table=TABLE, client=request.getfixturevalue("dynamodb"))


def presence(environment, lane="HIGH", *, records=10, busy=True, until=NOW + 30, **fields):
    return Presence(environment=environment, lane=lane, records=records, busy=busy, until=until, **fields)


def publish(slots, record, now=NOW, **parked_until):
    return slots.publish(record, now=now, parked_until=parked_until)


def test_an_environment_sees_its_peers_and_not_itself(slots):
    """Also in the answer to its own record."""
    assert publish(slots, presence("a")).peers == ()

    assert publish(slots, presence("b")).peers == (presence("a"),)
    assert slots.read("a").peers == (presence("b"),)
    assert set(slots.read("c").peers) == {presence("a"), presence("b")}


def test_a_record_replaces_the_one_before(slots):
    """An environment runs one invocation at a time."""
    publish(slots, presence("a", tenant="acme"))
    publish(slots, presence("a", "MAIN", records=3, busy=False))

    assert slots.read("b").peers == (presence("a", "MAIN", records=3, busy=False),)


def test_every_field_of_a_record_arrives(slots):
    """Times to the millisecond."""
    record = presence("a", until=NOW + 0.257, busy=False, tenant="größer ✓")

    publish(slots, record)

    assert slots.read("b").peers == (record,)


def test_an_empty_table_can_be_read(slots):
    """Before the first invocation has published anything."""
    assert slots.read("a").peers == ()
    assert slots.read("a").parked_until == {}


def test_each_lane_has_its_own_time_until_which_it_is_parked(slots):
    """The latest one published counts."""
    publish(slots, presence("a"), MAIN=NOW + 5.5, MEDIUM=NOW + 7)
    publish(slots, presence("b"), MAIN=NOW + 9)

    assert slots.read("c").parked_until == {"MAIN": NOW + 9, "MEDIUM": NOW + 7}
    assert publish(slots, presence("c")).parked_until == {"MAIN": NOW + 9, "MEDIUM": NOW + 7}


def test_names_of_lanes_need_no_care(slots):
    """Digits, dashes, words that DynamoDB reserves."""
    publish(slots, presence("a", "TABLE-1_b"), **{"TABLE-1_b": NOW + 1, "SET": NOW + 2})

    assert slots.read("b").peers == (presence("a", "TABLE-1_b"),)
    assert set(slots.read("b").parked_until) == {"TABLE-1_b", "SET"}


def test_dead_records_are_removed(dynamodb):
    """Environments come and go, and an item has at most 400 KB."""
    for number in range(50):
        publish(DynamoDBSlots(table=TABLE, client=dynamodb), presence(f"old{number}"))
    later = NOW + 30 + FORGOTTEN_AFTER + 1
    survivor = DynamoDBSlots(table=TABLE, client=dynamodb)
    publish(survivor, presence("young", until=later + 30), later)
    publish(survivor, presence("young", until=later + 60), later)

    item = dynamodb.get_item(TableName=TABLE, Key={"pk": {"S": "slots"}})["Item"]
    assert {name for name in item if name.startswith("line#")} == {"line#young"}


def test_an_environment_that_comes_back_keeps_its_record(dynamodb):
    """Another one found the record dead before, and removes it no more."""
    slots = DynamoDBSlots(table=TABLE, client=dynamodb)
    publish(slots, presence("a"))
    later = NOW + 30 + FORGOTTEN_AFTER + 1
    publish(slots, presence("b", until=later + 30), later)

    back = presence("b", until=later + 60)
    publish(slots, dataclasses.replace(back, environment="a"), later)

    assert {record.environment for record in slots.read("c").peers} == {"a", "b"}


def test_a_missing_table_is_an_aws_error(dynamodb):
    """For both calls."""
    slots = DynamoDBSlots(table="nowhere", client=dynamodb)

    with pytest.raises(AwsError, match="GetItem"):
        slots.read("a")
    with pytest.raises(AwsError, match="UpdateItem"):
        publish(slots, presence("a"))


@pytest.fixture(params=["memory", "dynamodb"])
def pauses(request):
    """Each kind in turn."""
    if request.param == "memory":
        yield MemoryPauses(Calls())
        return
    with mock_aws():
        create_table()
        yield DynamoDBPauses(table=TABLE, client=boto3.client("dynamodb"))


def test_no_lane_is_paused_at_first(pauses):
    """The item does not exist."""
    assert pauses.paused() == set()


def test_lanes_are_paused_and_resumed_one_by_one(pauses):
    """A change of one lane leaves the others as they are."""
    pauses.pause("HIGH")
    pauses.pause("MAIN")
    assert pauses.paused() == {"HIGH", "MAIN"}

    pauses.resume("HIGH")

    assert pauses.paused() == {"MAIN"}


def test_every_change_can_be_repeated(pauses):
    """Pausing twice is pausing once, and what is not paused can be resumed."""
    pauses.resume("HIGH")
    pauses.pause("HIGH")
    pauses.pause("HIGH")
    assert pauses.paused() == {"HIGH"}

    pauses.resume("HIGH")
    pauses.resume("HIGH")

    assert pauses.paused() == set()


def test_a_failed_call_is_an_error_of_aws():
    """A missing table, for example."""
    with mock_aws():
        missing = DynamoDBPauses(table="missing", client=boto3.client("dynamodb"))

        with pytest.raises(AwsError, match="GetItem"):
            missing.paused()
        with pytest.raises(AwsError, match="UpdateItem"):
            missing.pause("HIGH")
