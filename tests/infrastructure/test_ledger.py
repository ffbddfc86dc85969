"""Ledger: the consumer's table."""

import pytest
from aws_cdk import RemovalPolicy, Stack
from aws_cdk.assertions import Template

from cdk import Ledger
from tests.support.infrastructure import new_app

TABLE = "AWS::DynamoDB::Table"


def test_the_table_has_the_keys_that_the_consumer_writes(template):
    """One partition key, and a sparse index of parked batches."""
    template.has_resource_properties(
        TABLE,
        {
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
            "GlobalSecondaryIndexes": [
                {
                    "IndexName": "parked",
                    "KeySchema": [
                        {"AttributeName": "parked_lane", "KeyType": "HASH"},
                        {"AttributeName": "parked_until", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
        },
    )


def test_the_table_is_recoverable_and_expires_its_items(template):
    """Point-in-time recovery, expiry, and no capacity to plan."""
    template.has_resource_properties(
        TABLE,
        {
            "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
            "TimeToLiveSpecification": {"AttributeName": "expires_at", "Enabled": True},
            "BillingMode": "PAY_PER_REQUEST",
        },
    )


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(None, "RetainExceptOnCreate"), (RemovalPolicy.DESTROY, "Delete")],
    ids=["default", "destroy"],
)
def test_the_table_stays_unless_it_may_be_destroyed(policy, expected):
    """Attempts outlive the stack by default."""
    stack = Stack(new_app(), "Stack")
    Ledger(stack, "Ledger", **({} if policy is None else {"removal_policy": policy}))

    Template.from_stack(stack).has_resource(TABLE, {"DeletionPolicy": expected})


def test_nobody_deletes_a_protected_table():
    """Not by hand either, where retention helps only against CloudFormation."""
    stack = Stack(new_app(), "Stack")
    Ledger(stack, "Ledger", deletion_protection=True)

    Template.from_stack(stack).has_resource_properties(TABLE, {"DeletionProtectionEnabled": True})
