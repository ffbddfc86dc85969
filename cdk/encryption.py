"""Your key: rights to use it through one service alone, and what its own policy must allow to services."""

import json
from collections.abc import Mapping, Sequence

from aws_cdk import Annotations, Aws, Stack, Token
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IConstruct

from lanes.errors import ConfigurationError

from .findings import statements_to_paste

# AWS: what a sender and a receiver of an encrypted queue need of its key (SQS Developer Guide, "Key management").
SENDING = ("kms:GenerateDataKey", "kms:Decrypt")
RECEIVING = ("kms:Decrypt",)
# AWS: DynamoDB uses the key on behalf of whoever calls it (DynamoDB Developer Guide, "Authorizing use of your AWS KMS
# key"). Only who creates a table needs kms:CreateGrant, and that is CloudFormation.
ITEMS = (
    "kms:Encrypt",
    "kms:Decrypt",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:DescribeKey",
)
# AWS: Scheduler User Guide, "Using identity-based policies", CreateSchedule with a customer managed key.
SCHEDULING = ("kms:DescribeKey", "kms:GenerateDataKey", "kms:Decrypt")
LOGGING = ("kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*")


def region_of(construct: IConstruct) -> str:
    """Give the region of a construct, in words that any template of it understands."""
    region = Stack.of(construct).region
    return Aws.REGION if Token.is_unresolved(region) else region


def account_of(construct: IConstruct) -> str:
    """Give the account of a construct, in words that any template of it understands."""
    account = Stack.of(construct).account
    return Aws.ACCOUNT_ID if Token.is_unresolved(account) else account


def refuse_key_elsewhere(scope: Construct, key: kms.IKey | None) -> None:
    """
    Refuse a key of another region; one of another account is as good as one of this.

    Raises:
        ConfigurationError: AWS would refuse the resource when it is deployed.

    """
    theirs, ours = None if key is None else key.env.region, Stack.of(scope).region
    if theirs not in (None, ours) and not Token.is_unresolved(theirs) and not Token.is_unresolved(ours):
        problem = (
            f"the encryption_key of {scope.node.path} is in the region {theirs}, and the stack in {ours}; a service "
            "uses keys of its own region: pass one of there, for example a replica of a multi-Region key"
        )
        raise ConfigurationError([problem])


def grant_key(
    key: kms.IKey,
    grantee: iam.IGrantable,
    actions: Sequence[str],
    *,
    scope: IConstruct,
    service: str,
) -> iam.Grant:
    """
    Let a grantee use a key through one service, and for nothing else.

    Args:
        key: The key.
        grantee: The grantee; one without a policy in this app is allowed by the policy of the key.
        actions: What it may do.
        scope: The encrypted construct.
        service: The service, such as ``sqs``.

    """
    via = f"{service}.{region_of(scope)}.{Aws.URL_SUFFIX}"
    conditions = {"StringEquals": {"kms:ViaService": via}}
    grant = iam.Grant.add_to_principal(
        grantee=grantee, actions=[*actions], resource_arns=[key.key_arn], conditions=conditions
    )
    principal = grantee.grant_principal
    if not grant.success or _is_foreign(principal, scope):
        allow_in_key(key, principal, actions, scope=scope, conditions=conditions)
    return grant


def _is_foreign(principal: iam.IPrincipal, scope: IConstruct) -> bool:
    """Whether a principal is known to be of another account, where a policy of its own is not enough."""
    theirs, ours = principal.principal_account, Stack.of(scope).account
    return theirs not in (None, ours) and not Token.is_unresolved(theirs) and not Token.is_unresolved(ours)


def allow_in_key(
    key: kms.IKey,
    principal: iam.IPrincipal,
    actions: Sequence[str],
    *,
    scope: IConstruct,
    conditions: Mapping[str, Mapping[str, object]],
) -> None:
    """Allow something in the policy of a key; of one that this app does not define, print the statement to add."""
    statement = iam.PolicyStatement(
        principals=[principal], actions=[*actions], resources=["*"], conditions=conditions
    )
    if not key.add_to_resource_policy(statement).statement_added:
        (text,) = map(json.dumps, statements_to_paste(scope, statement))
        Annotations.of(scope).add_warning_v2(
            "lanes:keyPolicy",
            f"The policy of the key of {scope.node.path} can't be changed by this app. Add this statement where the "
            f"key is defined, in which ${{...}} is a value of this app: {text}",
        )


def allow_events(key: kms.IKey, scope: Construct) -> None:
    """Let rules of EventBridge in this account send to queues under a key."""
    allow_in_key(
        key,
        iam.ServicePrincipal("events.amazonaws.com"),
        SENDING,
        scope=scope,
        conditions={"StringEquals": {"aws:SourceAccount": account_of(scope)}},
    )


def allow_logs(key: kms.IKey, scope: Construct) -> None:
    """Let CloudWatch Logs keep log groups of this account under a key."""
    region, account = region_of(scope), account_of(scope)
    # AWS: CloudWatch Logs User Guide, "Encrypt log data using AWS KMS".
    allow_in_key(
        key,
        iam.ServicePrincipal(f"logs.{region}.amazonaws.com"),
        LOGGING,
        scope=scope,
        conditions={
            "ArnLike": {
                "kms:EncryptionContext:aws:logs:arn": f"arn:{Aws.PARTITION}:logs:{region}:{account}:log-group:*"
            }
        },
    )


def queue_encryption(key: kms.IKey | None) -> sqs.QueueEncryption:
    """Give the encryption of a queue with a key, or by SQS."""
    return sqs.QueueEncryption.SQS_MANAGED if key is None else sqs.QueueEncryption.KMS


def table_encryption(key: kms.IKey | None) -> dynamodb.TableEncryption:
    """Give the encryption of a table with a key, or with one that AWS manages in your account."""
    return dynamodb.TableEncryption.AWS_MANAGED if key is None else dynamodb.TableEncryption.CUSTOMER_MANAGED


def with_key(grant: iam.Grant, grantee: iam.IGrantable, table: dynamodb.Table) -> iam.Grant:
    """Add the rights on its key to a grant on a table, if the key is yours."""
    key = table.encryption_key
    return (
        grant
        if key is None
        else grant.combine(grant_key(key, grantee, ITEMS, scope=table, service="dynamodb"))
    )
