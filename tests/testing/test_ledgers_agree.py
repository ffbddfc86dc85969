"""The table in memory and the one in DynamoDB answer alike, whatever is asked of them."""

from __future__ import annotations

import dataclasses

import boto3
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moto import mock_aws

from lanes.aws.ledger import DynamoDBLedger
from lanes.consumer.ledger import Blocking, Ending, Entry, Park
from lanes.testing.calls import Calls
from lanes.testing.table import MemoryLedger
from tests.support.operating import TABLE, create_table

NOW = 1_800_000_000.0
IDS = st.sampled_from(["m1", "m2", "m3"])
LANES = st.sampled_from(["MEDIUM", "MAIN"])
ENTRIES = st.builds(
    Entry,
    lane=LANES,
    message_id=IDS,
    attempts=st.integers(0, 3),
    yields=st.integers(0, 3),
    ending=st.sampled_from([Ending.FAILED, Ending.YIELDED, Ending.STARTED]),
    noted_receive=st.integers(1, 5),
    noted_at=st.just(NOW),
    first_received_at=st.sampled_from([NOW, NOW + 60]),
    blocking=st.sampled_from([None, Blocking(group="g", kind="", id="i", since=NOW)]),
    park=st.sampled_from([None, Park.YIELD, Park.REST]),
    parked_until=st.sampled_from([NOW + 5, NOW + 9]),
    batch=st.sampled_from(["b1", "b2"]),
    receipt_handle=st.sampled_from(["r1", "r2"]),
)
OWNERS = st.sampled_from(["a/1", "a/2", "b/1"])
SECONDS = st.sampled_from([0.0, 4.0, 20.0, 100.0])
STEPS = st.one_of(
    st.tuples(
        st.just("note"), st.lists(ENTRIES, min_size=1, max_size=3, unique_by=lambda e: (e.lane, e.message_id))
    ),
    st.tuples(st.just("amend"), ENTRIES),
    st.tuples(st.just("unpark"), ENTRIES),
    st.tuples(st.just("begin"), IDS, OWNERS, SECONDS),
    st.tuples(st.just("finish"), IDS, OWNERS, SECONDS),
    st.tuples(st.just("release"), IDS, OWNERS),
)


def parked(entry):
    """Give an entry as a settlement notes it: parked with all that belongs to it, or with none of it."""
    if entry.park is not None:
        return entry
    return dataclasses.replace(entry, parked_until=0.0, batch="", receipt_handle="")


def apply(ledger, step):
    """Do one step and give its answer."""
    match step:
        case "note", entries:
            return ledger.note([parked(entry) for entry in entries])
        case "amend", entry:
            return ledger.amend([parked(entry)])
        case "unpark", entry:
            return ledger.unpark([entry])
        case "begin", effect, owner, at:
            return ledger.begin_effect(effect, owner=owner, now=NOW + at, until=NOW + at + 10)
        case "finish", effect, owner, at:
            return ledger.finish_effect(
                effect, owner=owner, lane="MAIN", now=NOW + at, keep_until=NOW + at + 50
            )
        case "release", effect, owner:
            return ledger.release_effect(effect, owner=owner)
    raise AssertionError(step)


def seen(ledger):
    """Give all that a consumer could read."""
    return [
        (dict(ledger.read(lane, ["m1", "m2", "m3"])), {e.message_id for e in ledger.parked(lane, after=NOW)})
        for lane in ("MEDIUM", "MAIN")
    ]


@pytest.fixture(scope="module")
def dynamodb():
    """A table that all examples share."""
    with mock_aws():
        create_table()
        yield boto3.client("dynamodb")


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=8))
def test_both_tables_give_the_same_answers(dynamodb, steps):
    """After any sequence of what a consumer does."""
    for item in dynamodb.scan(TableName=TABLE)["Items"]:
        dynamodb.delete_item(TableName=TABLE, Key={"pk": item["pk"]})
    real, memory = DynamoDBLedger(table=TABLE, client=dynamodb), MemoryLedger(Calls())

    assert [apply(real, step) for step in steps] == [apply(memory, step) for step in steps]
    assert seen(real) == seen(memory)
