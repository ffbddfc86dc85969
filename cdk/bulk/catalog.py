"""The part of the AWS Glue Data Catalog that bulk jobs may read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from aws_cdk import Stack
from constructs import Construct

# A Spark session with a catalog looks for these two when it starts (org.apache.spark.sql.internal.SharedState).
LOOKED_UP = ("default", "global_temp")
READS = (
    "glue:GetDatabase",
    "glue:GetDatabases",
    "glue:GetTable",
    "glue:GetTables",
    "glue:GetPartition",
    "glue:GetPartitions",
    "glue:BatchGetPartition",
    "glue:GetUserDefinedFunctions",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """
    Databases of the catalog of this account and region.

    Attributes:
        actions: The actions of a reader.
        resources: The ARNs of catalog, databases, tables and functions.

    """

    actions: Sequence[str]
    resources: Sequence[str]

    @classmethod
    def of(cls, scope: Construct, databases: Sequence[str]) -> Self | None:
        """
        Describe the reading of databases; None if there are none.

        Args:
            scope: A construct of the stack.
            databases: The names of the databases.

        """
        if not databases:
            return None
        stack = Stack.of(scope)
        paths = [f"database/{name}" for name in [*LOOKED_UP, *databases]]
        paths += [f"{kind}/{name}/*" for name in databases for kind in ("table", "userDefinedFunction")]
        return cls(
            actions=READS,
            resources=[
                f"arn:{stack.partition}:glue:{stack.region}:{stack.account}:{path}"
                for path in ["catalog", *paths]
            ],
        )
