"""Ledger: the consumer's table."""

import pytest
from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template

from cdk import Ledger
from tests.support.infrastructure import allowed, new_app, resources

TABLE = "AWS::DynamoDB::Table"


def test_the_table_has_the_keys_that_the_consumer_writes(template):
    """One partition key, and a sparse index of what is parked."""
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


def test_the_table_is_encrypted_and_recoverable_and_forgets_by_itself(template):
    """Encryption, point-in-time recovery, expiry, and no capacity to plan."""
    template.has_resource_properties(
        TABLE,
        {
            "SSESpecification": {"SSEEnabled": True},
            "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
            "TimeToLiveSpecification": {"AttributeName": "expires_at", "Enabled": True},
            "BillingMode": "PAY_PER_REQUEST",
        },
    )


@pytest.mark.parametrize(
    ("policy", "expected"), [(None, "Retain"), (RemovalPolicy.DESTROY, "Delete")], ids=["default", "destroy"]
)
def test_the_table_stays_unless_it_may_be_destroyed(policy, expected):
    """Attempts outlive the stack by default."""
    stack = Stack(new_app(), "Stack")
    Ledger(stack, "Ledger", **({} if policy is None else {"removal_policy": policy}))

    Template.from_stack(stack).has_resource(TABLE, {"DeletionPolicy": expected})


def test_keeping_a_ledger_touches_the_table_and_its_one_index():
    """No wildcard over indexes, no scan, no change of the table itself."""
    stack = Stack(new_app(), "Stack")
    role = iam.Role(stack, "Keeper", assumed_by=iam.AccountRootPrincipal())

    grant = Ledger(stack, "Ledger").grant_keep(role)

    template = Template.from_stack(stack)
    (table,) = resources(template, TABLE)
    index = f"arn:<AWS::Partition>:dynamodb:<AWS::Region>:<AWS::AccountId>:table/<{table}>/index/parked"
    actions = ["BatchGetItem", "BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "UpdateItem"]
    assert grant.success
    assert allowed(template, "Keeper") == {
        *((f"dynamodb:{action}", f"<{table}.Arn>") for action in actions),
        ("dynamodb:Query", index),
    }
