"""The encryption of tables, with a key of AWS or with yours."""

from typing import TypedDict

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms

# AWS: DynamoDB uses the key on behalf of whoever calls it (DynamoDB Developer Guide, "Authorizing use of your AWS KMS
# key").
ACTIONS = (
    "kms:Encrypt",
    "kms:Decrypt",
    "kms:ReEncrypt*",
    "kms:GenerateDataKey*",
    "kms:DescribeKey",
    "kms:CreateGrant",
)


class TableEncryptionProps(TypedDict, total=False):
    """Props of a table."""

    encryption: dynamodb.TableEncryption
    encryption_key: kms.IKey


def table_encryption(key: kms.IKey | None) -> TableEncryptionProps:
    """Give the props of a table for a key, or for one that AWS manages in your account."""
    if key is None:
        return {"encryption": dynamodb.TableEncryption.AWS_MANAGED}
    return {"encryption": dynamodb.TableEncryption.CUSTOMER_MANAGED, "encryption_key": key}


def with_key(grant: iam.Grant, grantee: iam.IGrantable, table: dynamodb.Table) -> iam.Grant:
    """Add to a grant on a table what its key needs, if it is yours."""
    return (
        grant
        if table.encryption_key is None
        else grant.combine(table.encryption_key.grant(grantee, *ACTIONS))
    )
