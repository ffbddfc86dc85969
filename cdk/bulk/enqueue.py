"""
Bulk jobs on EMR Serverless: an application that runs while a job does, with everything that a job needs.

``lanes bulk submit`` finds it in the parameter ``/lanes/<stack name>/bulk``.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, cast

from aws_cdk import Duration, RemovalPolicy, Stack, Tags
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_emrserverless as emr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from lanes.config.spark_submit import RUN_TAG, STACK_TAG, spark_submit_parameters
from lanes.errors import ConfigurationError

from ..findings import acknowledge, acknowledge_wildcard
from ..parameter import deployment_document
from ..props import checked
from ..queues.lane_queues import LaneQueues
from ..rights import allow
from ..tables.ledger import Ledger
from .network import JobNetwork
from .packages import entry_point, job_packages
from .permissions import Catalog, add_job_role, grant_pass_role, grant_start

# AWS: Spark 4.1 with support to 2029-09-07 (EMR-Serverless-UserGuide/release-versions).
RELEASE_LABEL = "emr-spark-8.1.0"
FILE_RETENTION = Duration.days(90)
LONGEST_JOB = Duration.days(7)
# AWS: EventBridge Scheduler replaces them. The id of the execution is unique for each attempted invocation, so a retry
# has another one, and the time is that of the schedule (Scheduler user guide, "Adding context attributes").
ATTEMPT = "<aws.scheduler.execution-id>"
SCHEDULED_TIME = "<aws.scheduler.scheduled-time>"
# The name of a run with the 21 characters of a time and its dash: letters, digits, dots, dashes and underscores.
SCHEDULE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,78}")


class BulkEnqueue(Construct):
    """
    An EMR Serverless application for bulk jobs, with role, network, files and the jobs themselves.

    Put it into a stack of its own: CloudFormation can neither update nor delete an application while it is started,
    which lasts ``idle_timeout`` beyond a job, and a failed update rolls back the whole stack.

    Example:
        >>> bulk_stack = Stack(app, "PriorityLanes-bulk")
        >>> bulk = BulkEnqueue(
        ...     bulk_stack, "Bulk", queues=stack.queues, ledger=stack.ledger, inputs=[data_lake]
        ... )
        >>> bulk.grant_start(operators)

    Args:
        scope: The parent construct.
        construct_id: The id in the parent.
        queues: The queues of the lanes.
        ledger: The table of the consumer, for the deployment document.
        lanes: The names of the lanes that jobs may send to. By default only the last lane.
        follow: Whether jobs may follow their runs to the end (``--follow``), which are items of ``ledger``. By default
            they may not.
        inputs: The buckets that jobs may read. None by default.
        databases: The databases of the Glue Data Catalog that jobs may read. None by default. Grant the buckets of
            their tables as ``inputs``.
        vpc: The VPC of the workers. By default the construct makes a closed one, see :class:`JobNetwork`.
        zones: The names of the zones of the closed VPC, by default the first two of the region.
        maximum_vcpus: The vCPUs that all running jobs together may use; each comes with 4 GB of memory.
        idle_timeout: How long the application stays started after its last job, 15 minutes by default.
        parameter_name: The name of the parameter, by default ``/lanes/<stack name>/bulk`` with the stack of ``queues``.
        removal_policy: Whether to keep or delete manifests and logs with the stack. They are kept by default.

    Raises:
        ConfigurationError: ``zones`` is refused by :class:`JobNetwork`, or ``maximum_vcpus`` is not positive.

    Attributes:
        application: The application.
        job_role: The role of jobs.
        network: The network of the workers.
        files: The bucket with manifests (``runs/``) and logs (``logs/``).
        parameter: The parameter that ``lanes bulk`` reads.

    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        queues: LaneQueues,
        ledger: Ledger,
        lanes: Sequence[str] | None = None,
        follow: bool = False,
        inputs: Sequence[s3.IBucket] = (),
        databases: Sequence[str] = (),
        vpc: ec2.IVpc | None = None,
        zones: Sequence[str] = (),
        maximum_vcpus: int = 16,
        idle_timeout: Duration | None = None,
        parameter_name: str | None = None,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        super().__init__(scope, construct_id)
        if maximum_vcpus < 1:
            problem = (
                f"maximum_vcpus is {maximum_vcpus}; at least 1 is needed, and jobs get 16 if you omit it"
            )
            raise ConfigurationError([problem], source="bulk jobs")
        self._lanes_stack = Stack.of(queues).stack_name
        Tags.of(self).add(STACK_TAG, self._lanes_stack)
        granted = [queues.lane(name) for name in lanes or [queues.config.last_lane.name]]
        self._key = queues.encryption_key
        self.files = self._files(removal_policy)
        self.entry_point = entry_point(self, "EntryPoint")
        self.packages = job_packages(self, "Packages")
        catalog = Catalog.of(self, databases)
        self._has_catalog = catalog is not None
        self.network = JobNetwork(
            self,
            "Network",
            lanes=granted,
            vpc=vpc,
            zones=zones,
            catalog=catalog,
            runs=ledger.table if follow else None,
        )
        self.application = self._application(maximum_vcpus, idle_timeout or Duration.minutes(15))
        self.job_role = add_job_role(
            self,
            lanes=granted,
            packages=[self.entry_point, self.packages],
            files=self.files,
            inputs=inputs,
            catalog=catalog,
            application_arn=self.application.attr_arn,
        )
        if follow:
            ledger.grant_follow(self.job_role)
        self.deployment = deployment_document(queues=queues, ledger=ledger)
        self.parameter = ssm.StringParameter(
            self,
            "Parameter",
            parameter_name=parameter_name or f"/lanes/{self._lanes_stack}/bulk",
            description=f"The application for bulk jobs of {self._lanes_stack}",
            string_value=json.dumps(
                {
                    "version": 1,
                    "application": self.application.ref,
                    "role": self.job_role.role_arn,
                    "entry_point": self.entry_point.s3_object_url,
                    "packages": self.packages.s3_object_url,
                    "files": self.files.s3_url_for_object(),
                    "catalog": self._has_catalog,
                }
            ),
        )

    def grant_start(self, grantee: iam.IGrantable) -> iam.Grant:
        """
        Let ``grantee`` start, follow and cancel jobs, and read their logs and manifests.

        Args:
            grantee: The grantee. Jobs themselves run as ``job_role``.

        Returns:
            The grant.

        """
        return grant_start(
            grantee,
            application_arn=self.application.attr_arn,
            job_role=self.job_role,
            parameter_arn=self.parameter.parameter_arn,
            files=self.files,
        )

    @checked
    def add_schedule(
        self,
        construct_id: str,
        *,
        schedule: scheduler.ScheduleExpression,
        arguments: Sequence[str],
        maximum_executors: int = 3,
        timeout: Duration | None = None,
    ) -> scheduler.Schedule:
        """
        Run a job on a schedule.

        Each occasion is a run of its own, named by the schedule and the scheduled time:
        ``Nightly-2026-01-31T03:00:00Z``. If EventBridge Scheduler invokes its target twice, the second job finds the
        session of the first in the manifest and fails without sending; ``lanes bulk submit`` with ``--run`` and this
        name sends the remaining rows of an occasion.

        Args:
            construct_id: The id of the schedule in this construct, which begins the names of its runs.
            schedule: The times to run at.
            arguments: The arguments of the job, without those for lanes and manifest.
            maximum_executors: The maximum number of executors of the job.
            timeout: The job is cancelled after this time, 12 hours by default, 7 days at most.

        Raises:
            ConfigurationError: ``construct_id`` cannot begin the name of a run, or the timeout or the number of
                executors is outside its range.

        """
        if not SCHEDULE_NAME.fullmatch(construct_id):
            problem = (
                f"the id of the schedule is {construct_id!r}, and it begins the names of its runs; use at most 79 "
                f"letters, digits, dots, dashes and underscores, no dot first"
            )
            raise ConfigurationError([problem], source="bulk jobs")
        minutes = (timeout or Duration.hours(12)).to_minutes()
        problems = (
            []
            if 1 <= minutes <= LONGEST_JOB.to_minutes()
            else [f"timeout is {minutes} minutes; 1m to 7d is allowed"]
        )
        if maximum_executors < 1:
            problems.append(f"maximum_executors is {maximum_executors}; at least 1 is needed")
        if problems:
            raise ConfigurationError(problems, source=f"bulk jobs, schedule {construct_id}")
        role = iam.Role(
            self, f"{construct_id}Role", assumed_by=iam.ServicePrincipal("scheduler.amazonaws.com")
        )
        grant_pass_role(role, self.job_role)
        application = self.application.attr_arn
        start = iam.PolicyStatement(actions=["emr-serverless:StartJobRun"], resources=[application])
        tag = iam.PolicyStatement(
            actions=["emr-serverless:TagResource"], resources=[application, f"{application}/jobruns/*"]
        )
        acknowledge_wildcard(role, f"{application}/jobruns/*", "A job that is started has no id before")
        request = self._start_request(
            arguments, run=f"{construct_id}-{SCHEDULED_TIME}", executors=maximum_executors
        ) | {"ExecutionTimeoutMinutes": minutes}
        made = scheduler.Schedule(
            self,
            construct_id,
            schedule=schedule,
            target=targets.Universal(
                service="emrserverless",
                action="startJobRun",
                input=scheduler.ScheduleTargetInput.from_object(request),
                policy_statements=[start, tag],
                role=role,
                # The CDK's default is 185 attempts within a day.
                retry_attempts=3,
                max_event_age=Duration.hours(1),
            ),
        )
        if self._key is not None:
            self._encrypt(made, role, self._key)
        return made

    def _encrypt(self, schedule: scheduler.Schedule, role: iam.Role, key: kms.IKey) -> None:
        """Put a schedule under your key; the CDK's own prop would grant the role more."""
        cast("scheduler.CfnSchedule", schedule.node.default_child).kms_key_arn = key.key_arn
        all_schedules = Stack.of(self).format_arn(
            service="scheduler", resource="schedule", resource_name="default/*"
        )
        context = {"kms:EncryptionContext:aws:scheduler:schedule:arn": all_schedules}
        allow(role, ["kms:Decrypt"], [key.key_arn], conditions={"ArnLike": context})

    def _start_request(self, arguments: Sequence[str], *, run: str, executors: int) -> dict[str, Any]:
        """Write the StartJobRun request of a scheduled execution."""
        submit = {
            "EntryPoint": self.entry_point.s3_object_url,
            "EntryPointArguments": [
                *[*arguments, "--deployment", self.deployment, "--region", Stack.of(self).region],
                *["--run", run, "--manifest", self.files.s3_url_for_object("runs")],
            ],
            "SparkSubmitParameters": spark_submit_parameters(
                packages=self.packages.s3_object_url, executors=executors, catalog=self._has_catalog
            ),
        }
        logs = {"S3MonitoringConfiguration": {"LogUri": self.files.s3_url_for_object("logs/")}}
        return {
            "ApplicationId": self.application.ref,
            # AWS: no colon is allowed in a token, and Scheduler's times have some (API_StartJobRun).
            "ClientToken": ATTEMPT,
            "ExecutionRoleArn": self.job_role.role_arn,
            "JobDriver": {"SparkSubmit": submit},
            "ConfigurationOverrides": {"MonitoringConfiguration": logs},
            "Tags": {STACK_TAG: self._lanes_stack, RUN_TAG: run},
        }

    def _files(self, removal_policy: RemovalPolicy) -> s3.Bucket:
        bucket = s3.Bucket(
            self,
            "Files",
            encryption=s3.BucketEncryption.S3_MANAGED if self._key is None else s3.BucketEncryption.KMS,
            encryption_key=self._key,
            # One call to KMS for many objects.
            bucket_key_enabled=None if self._key is None else True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            lifecycle_rules=[s3.LifecycleRule(expiration=FILE_RETENTION)],
            removal_policy=removal_policy,
            # AWS: a bucket with objects can't be deleted (S3 API, DeleteBucket).
            auto_delete_objects=removal_policy is RemovalPolicy.DESTROY,
        )
        acknowledge(
            bucket,
            "AwsSolutions::AwsSolutions-S1",
            "Manifests and logs of jobs; grants decide who reads them, and CloudTrail records it",
        )
        return bucket

    def _application(self, maximum_vcpus: int, idle_timeout: Duration) -> emr.CfnApplication:
        properties = emr.CfnApplication
        return emr.CfnApplication(
            self,
            "Application",
            release_label=RELEASE_LABEL,
            type="SPARK",
            architecture="ARM64",
            auto_start_configuration=properties.AutoStartConfigurationProperty(enabled=True),
            auto_stop_configuration=properties.AutoStopConfigurationProperty(
                enabled=True, idle_timeout_minutes=idle_timeout.to_minutes()
            ),
            maximum_capacity=properties.MaximumAllowedResourcesProperty(
                cpu=f"{maximum_vcpus} vCPU", memory=f"{4 * maximum_vcpus} GB", disk=f"{20 * maximum_vcpus} GB"
            ),
            # EMR keeps a copy of the logs for a month, under a key of its own.
            monitoring_configuration=None
            if self._key is None
            else properties.MonitoringConfigurationProperty(
                managed_persistence_monitoring_configuration=(
                    properties.ManagedPersistenceMonitoringConfigurationProperty(enabled=False)
                )
            ),
            network_configuration=properties.NetworkConfigurationProperty(
                subnet_ids=self.network.subnets.subnet_ids,
                security_group_ids=[self.network.workers.security_group_id],
            ),
        )
