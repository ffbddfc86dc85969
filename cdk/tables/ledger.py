"""The ledger: the table of the consumer for attempts, yields and handled messages."""

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from ..encryption import refuse_key_elsewhere, table_encryption, with_key
from ..props import checked
from ..rights import allow

PARKED_INDEX = "parked"
FOLLOWED = "run#*"
"""The keys of the items of runs, which producers write too."""

WRITTEN = (
    "message#*",
    "effect#*",
    "hashed-effect#*",
    "follow#*",
    "cancelled#*",
    "slots",
    FOLLOWED,
)
"""
The keys of items that a consumer writes. Not the overrides, audit trail, pauses and redrives, which operators write.

AWS: dynamodb:LeadingKeys is the partition key of each item of a call (DynamoDB Developer Guide, "Using IAM policy
conditions for fine-grained access control").
"""


class Ledger(Construct):
    """
    One DynamoDB table: on-demand, encrypted, with point-in-time recovery.

    Items expire at ``expires_at``. The sparse index ``parked`` holds the items of yielded batches, by lane and time.

    Example:
        >>> ledger = Ledger(stack, "Ledger", removal_policy=RemovalPolicy.DESTROY)

    Args:
        scope: The parent construct.
        construct_id: The id in the parent.
        encryption_key: Your key for the table; by default AWS manages one in your account.
        removal_policy: Whether to keep or delete the table with the stack. It is kept by default.
        deletion_protection: Whether AWS refuses to delete the table, whoever asks; off by default, since a first
            deployment that fails could not remove it.

    Attributes:
        table: The table.

    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        encryption_key: kms.IKey | None = None,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        deletion_protection: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        refuse_key_elsewhere(self, encryption_key)
        self.table = dynamodb.Table(
            self,
            "Table",
            partition_key=text_attribute("pk"),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=table_encryption(encryption_key),
            encryption_key=encryption_key,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            time_to_live_attribute="expires_at",
            removal_policy=removal_policy,
            deletion_protection=deletion_protection,
        )
        self.table.add_global_secondary_index(
            index_name=PARKED_INDEX,
            partition_key=text_attribute("parked_lane"),
            sort_key=text_attribute("parked_until"),
            projection_type=dynamodb.ProjectionType.ALL,
        )

    def grant_keep(self, grantee: iam.IGrantable) -> iam.Grant:
        """
        Let a consumer keep its ledger here: read items, write its own, and query parked batches.

        It can't write the items of operators, such as those of the audit trail.

        Args:
            grantee: The function or role of the consumer.

        Returns:
            The grant, on this table and its one index.

        """
        # Table.grant() would add "<table>/index/*"; the consumer needs one index.
        index_arn = Stack.of(self).format_arn(
            service="dynamodb",
            resource="table",
            resource_name=f"{self.table.table_name}/index/{PARKED_INDEX}",
        )
        table = self.table.table_arn
        reads = allow(grantee, ["dynamodb:GetItem", "dynamodb:BatchGetItem"], [table])
        writes = allow(
            grantee,
            ["dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem"],
            [table],
            conditions={"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [*WRITTEN]}},
        )
        queries = allow(grantee, ["dynamodb:Query"], [table, index_arn])
        return with_key(reads.combine(writes).combine(queries), grantee, self.table)

    def grant_follow(self, grantee: iam.IGrantable) -> iam.Grant:
        """
        Let a producer follow its runs: read and write their items, and no others.

        Args:
            grantee: The function or role of the producer, which also needs ``LaneQueues.grant_send``.

        Returns:
            The grant, on this table.

        """
        grant = allow(
            grantee,
            ["dynamodb:GetItem", "dynamodb:UpdateItem"],
            [self.table.table_arn],
            conditions={"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [FOLLOWED]}},
        )
        return with_key(grant, grantee, self.table)


def text_attribute(name: str) -> dynamodb.Attribute:
    """Give an attribute of texts, for a key."""
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)
