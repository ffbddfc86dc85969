"""Paused lanes in memory and in DynamoDB keep the same promises."""

import boto3
import pytest
from moto import mock_aws

from lanes.aws.slots import DynamoDBPauses
from lanes.errors import AwsError
from lanes.testing.calls import Calls
from lanes.testing.table import MemoryPauses
from tests.support.operating import TABLE, create_table


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
