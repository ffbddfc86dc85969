"""The slot table in memory and the one in DynamoDB answer alike, whatever environments publish."""

from __future__ import annotations

import boto3
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moto import mock_aws

from lanes.aws.table.slots import KEY, DynamoDBSlots
from lanes.consumer.engines.presence import Presence
from lanes.testing.calls import Calls
from lanes.testing.memory import MemorySlots
from tests.support import table

NOW = 1_800_000_000.0
ENVIRONMENTS = st.sampled_from(["a", "b", "c"])
LANES = st.sampled_from(["HIGH", "MAIN"])
TIMES = st.integers(0, 60_000).map(lambda milliseconds: NOW + milliseconds / 1000)
RECORDS = st.builds(
    Presence,
    environment=ENVIRONMENTS,
    lane=LANES,
    records=st.integers(0, 10),
    busy=st.booleans(),
    until=TIMES,
    tenant=st.sampled_from(["", "acme"]),
)
PUBLISHED = st.tuples(RECORDS, st.dictionaries(LANES, TIMES, max_size=2))


def seen(snapshot):
    """Give a snapshot as it compares: DynamoDB returns attributes in no order."""
    return {peer.environment: peer for peer in snapshot.peers}, dict(snapshot.parked_until)


@pytest.fixture(scope="module")
def dynamodb():
    """A table that all examples share."""
    with mock_aws():
        table.create_table()
        yield boto3.client("dynamodb")


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(PUBLISHED, max_size=8))
def test_both_tables_give_the_same_answers(dynamodb, steps):
    """After any sequence of records; none of them is old enough to be removed."""
    dynamodb.delete_item(TableName=table.TABLE, Key=KEY)
    real, memory = DynamoDBSlots(table=table.TABLE, client=dynamodb), MemorySlots(Calls())

    for record, parked_until in steps:
        answers = [slots.publish(record, now=NOW, parked_until=parked_until) for slots in (real, memory)]
        assert seen(answers[0]) == seen(answers[1])
    for environment in "abcd":
        assert seen(real.read(environment)) == seen(memory.read(environment))
