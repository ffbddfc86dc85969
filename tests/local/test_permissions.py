"""What `lanes check` asks of the account: rights of a role, and the limits of Lambda."""

import json

import pytest

from local.deployed import make_client

QUEUE = "arn:aws:sqs:eu-central-1:123456789012:a"


@pytest.fixture
def role(server):
    """A role that may send to one queue, by TLS only, and do anything with tables except deleting them."""
    iam = make_client("iam", server.endpoint_url)
    said = json.dumps({"Version": "2012-10-17", "Statement": []})
    arn = iam.create_role(RoleName="asked", AssumeRolePolicyDocument=said)["Role"]["Arn"]
    statements = [
        {"Effect": "Allow", "Action": ["sqs:SendMessage"], "Resource": QUEUE},
        {"Effect": "Allow", "Action": "dynamodb:*", "Resource": "*"},
        {"Effect": "Deny", "Action": "dynamodb:DeleteTable", "Resource": "*"},
        {
            "Effect": "Allow",
            "Action": "sqs:PurgeQueue",
            "Resource": "*",
            "Condition": {"ForAllValues:StringLike": {"aws:TagKeys": ["a*"]}},
        },
        {
            "Effect": "Deny",
            "Action": "sqs:*",
            "Resource": "*",
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        },
    ]
    document = json.dumps({"Version": "2012-10-17", "Statement": statements})
    iam.put_role_policy(RoleName="asked", PolicyName="p", PolicyDocument=document)
    yield arn
    iam.delete_role_policy(RoleName="asked", PolicyName="p")
    iam.delete_role(RoleName="asked")


@pytest.mark.parametrize(
    ("action", "resource", "decision"),
    [
        ("sqs:SendMessage", QUEUE, "allowed"),
        ("sqs:SendMessage", f"{QUEUE}b", "implicitDeny"),
        ("sqs:DeleteMessage", QUEUE, "implicitDeny"),
        ("sqs:PurgeQueue", QUEUE, "allowed"),
        ("dynamodb:Query", "arn:aws:dynamodb:eu-central-1:123456789012:table/t", "allowed"),
        ("dynamodb:DeleteTable", "arn:aws:dynamodb:eu-central-1:123456789012:table/t", "explicitDeny"),
    ],
)
def test_the_rights_of_a_role_are_known(server, role, action, resource, decision):
    """By its policies; the call gives no values for conditions, which only ForAllValues is content with."""
    iam = make_client("iam", server.endpoint_url)

    (found,) = iam.simulate_principal_policy(
        PolicySourceArn=role, ActionNames=[action], ResourceArns=[resource]
    )["EvaluationResults"]

    assert (found["EvalActionName"], found["EvalResourceName"], found["EvalDecision"]) == (
        action,
        resource,
        decision,
    )


def test_the_limits_of_lambda_are_those_of_a_new_account(server):
    """Whatever functions reserve comes off the unreserved part."""
    limit = make_client("lambda", server.endpoint_url).get_account_settings()["AccountLimit"]

    assert limit["ConcurrentExecutions"] == 1000
    assert limit["UnreservedConcurrentExecutions"] <= 1000
