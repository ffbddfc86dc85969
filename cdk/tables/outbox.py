"""
The table of the outbox: entries, their three sparse indexes, and the stream that invokes the relay.

Keys and indexes are those of ``lanes.outbox.dynamodb.table``.
"""

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from lanes.outbox.dynamodb.table import GLOBAL_INDEXES, KEY, LOCAL_INDEXES, TTL_ATTRIBUTE

from ..encryption import table_encryption, with_key
from ..rights import allow
from .ledger import text_attribute


class OutboxTable(Construct):
    """
    One DynamoDB table: on-demand, encrypted, with point-in-time recovery and a stream of keys.

    :class:`Outbox` makes it; do not build it yourself.

    Args:
        scope: The parent construct.
        construct_id: The id in the parent.
        encryption_key: Your key for the table, or None for one that AWS manages in your account.
        removal_policy: Whether to keep or delete the table with the stack.
        deletion_protection: Whether AWS refuses to delete the table.

    Attributes:
        table: The table.

    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        encryption_key: kms.IKey | None,
        removal_policy: RemovalPolicy,
        deletion_protection: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        self.table = dynamodb.Table(
            self,
            "Table",
            partition_key=text_attribute(KEY[0]),
            sort_key=text_attribute(KEY[1]),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=table_encryption(encryption_key),
            encryption_key=encryption_key,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            stream=dynamodb.StreamViewType.KEYS_ONLY,
            time_to_live_attribute=TTL_ATTRIBUTE,
            removal_policy=removal_policy,
            deletion_protection=deletion_protection,
        )
        for name, (keys, included) in GLOBAL_INDEXES.items():
            self.table.add_global_secondary_index(
                index_name=name,
                partition_key=text_attribute(keys[0]),
                sort_key=text_attribute(keys[1]),
                projection_type=dynamodb.ProjectionType.INCLUDE,
                non_key_attributes=[*included],
            )
        for name, (local_keys, local_included) in LOCAL_INDEXES.items():
            self.table.add_local_secondary_index(
                index_name=name,
                sort_key=text_attribute(local_keys[1]),
                projection_type=dynamodb.ProjectionType.INCLUDE,
                non_key_attributes=[*local_included],
            )

    @property
    def stream_arn(self) -> str:
        """The stream's ARN."""
        return str(self.table.table_stream_arn)

    def grant_add(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` put entries, and nothing else."""
        # AWS: TransactWriteItems needs the permissions of its parts (Developer Guide, "IAM for transactions").
        return self._grant(grantee, ["dynamodb:PutItem"], [self.table.table_arn])

    def grant_relay(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let a relay claim and update entries, and nothing else."""
        indexes = [self._index_arn(name) for name in (*GLOBAL_INDEXES, *LOCAL_INDEXES)]
        queries = self._grant(grantee, ["dynamodb:Query"], indexes)
        return queries.combine(self._grant(grantee, ["dynamodb:UpdateItem"], [self.table.table_arn]))

    def grant_stream(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let a function's mapping read the stream; ``grant_stream_read`` would list the streams of all tables."""
        actions = ["DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"]
        return self._grant(grantee, [f"dynamodb:{action}" for action in actions], [self.stream_arn])

    def _index_arn(self, name: str) -> str:
        return Stack.of(self).format_arn(
            service="dynamodb", resource="table", resource_name=f"{self.table.table_name}/index/{name}"
        )

    def _grant(self, grantee: iam.IGrantable, actions: list[str], resource_arns: list[str]) -> iam.Grant:
        return with_key(allow(grantee, actions, resource_arns), grantee, self.table)
