"""The permissions of bulk jobs: the role that a job runs as, and the grant to start jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from ..encryption import SENDING, grant_key
from ..findings import acknowledge_wildcard
from ..queues.lane_queue import LaneQueue
from ..rights import allow

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


SERVICE = "emr-serverless.amazonaws.com"


def add_job_role(
    scope: Construct,
    *,
    lanes: Sequence[LaneQueue],
    packages: Sequence[assets.Asset],
    files: s3.IBucket,
    inputs: Sequence[s3.IBucket],
    catalog: Catalog | None,
    application_arn: str,
) -> iam.Role:
    """
    Add the role of jobs: send to the lanes, read packages, inputs and the catalog, keep manifests and logs.

    Args:
        scope: The construct to add it to.
        lanes: The lanes that jobs may send to.
        packages: The assets that jobs load.
        files: The bucket with manifests and logs.
        inputs: The buckets that jobs may read.
        catalog: The part of the Glue Data Catalog that jobs may read, or None.
        application_arn: The ARN of the application; only its jobs run as the role.

    """
    role = iam.Role(
        scope,
        "JobRole",
        description="Permissions of bulk jobs",
        assumed_by=iam.ServicePrincipal(
            SERVICE,
            conditions={
                "StringEquals": {"aws:SourceAccount": Stack.of(scope).account},
                # AWS: the source is the application (EMR-Serverless-UserGuide, "Job runtime roles").
                "ArnLike": {"aws:SourceArn": application_arn},
            },
        ),
    )
    for lane in lanes:
        lane.grant_send(role)
        lane.grant_count(role)
    readable = [asset.bucket.arn_for_objects(asset.s3_object_key) for asset in packages]
    readable += [bucket.arn_for_objects("*") for bucket in inputs]
    written = [files.arn_for_objects("runs/*"), files.arn_for_objects("logs/*")]
    listed = [files.bucket_arn, *(bucket.bucket_arn for bucket in inputs)]
    for actions, resources in (
        (["s3:GetObject"], [*readable, files.arn_for_objects("runs/*")]),
        (["s3:PutObject"], written),
        (["s3:ListBucket"], listed),
    ):
        allow(role, actions, resources)
    for bucket in inputs:
        if bucket.encryption_key is not None:
            grant_key(bucket.encryption_key, role, ["kms:Decrypt"], scope=bucket, service="s3")
    if files.encryption_key is not None:
        grant_key(files.encryption_key, role, SENDING, scope=files, service="s3")
    wide = [*written, *(bucket.arn_for_objects("*") for bucket in inputs)]
    if catalog is not None:
        allow(role, catalog.actions, catalog.resources)
        wide += [arn for arn in catalog.resources if arn.endswith("*")]
    for arn in wide:
        acknowledge_wildcard(
            role,
            arn,
            "A job reads any object and table of its inputs, and writes any object below its own prefixes",
        )
    return role


def grant_start(
    grantee: iam.IGrantable,
    *,
    application_arn: str,
    job_role: iam.IRole,
    parameter_arn: str,
    files: s3.IBucket,
) -> iam.Grant:
    """
    Let ``grantee`` start, follow and cancel jobs, and read their logs and manifests.

    Args:
        grantee: The grantee.
        application_arn: The ARN of the EMR Serverless application.
        job_role: The role of jobs.
        parameter_arn: The ARN of the parameter that ``lanes bulk`` reads.
        files: The bucket with manifests and logs.

    """
    runs_and_logs = [files.arn_for_objects("runs/*"), files.arn_for_objects("logs/*")]
    grant = grant_pass_role(grantee, job_role)
    for actions, resources in (
        (["emr-serverless:StartJobRun", "emr-serverless:ListJobRuns"], [application_arn]),
        (["emr-serverless:GetJobRun", "emr-serverless:CancelJobRun"], [f"{application_arn}/jobruns/*"]),
        (["emr-serverless:TagResource"], [application_arn, f"{application_arn}/jobruns/*"]),
        (["ssm:GetParameter"], [parameter_arn]),
        (["s3:ListBucket"], [files.bucket_arn]),
        (["s3:GetObject"], runs_and_logs),
    ):
        grant = grant.combine(allow(grantee, actions, resources))
    if files.encryption_key is not None:
        key = grant_key(files.encryption_key, grantee, ["kms:Decrypt"], scope=files, service="s3")
        grant = grant.combine(key)
    return grant


def grant_pass_role(grantee: iam.IGrantable, job_role: iam.IRole) -> iam.Grant:
    """Let ``grantee`` pass the role of jobs to EMR Serverless, and to no other service."""
    return allow(
        grantee,
        ["iam:PassRole"],
        [job_role.role_arn],
        conditions={"StringEquals": {"iam:PassedToService": SERVICE}},
    )
