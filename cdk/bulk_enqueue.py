"""
Bulk jobs on EMR Serverless: an application that costs nothing while no job runs, and all that a job needs.

Owns the construct ``BulkEnqueue``. ``lanes bulk submit`` finds it in the parameter ``/lanes/<stack name>/bulk``.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import Acknowledgment, Duration, RemovalPolicy, Stack, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_emrserverless as emr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from lanes.bulk_settings import spark_submit_parameters

from .job_network import JobNetwork
from .job_package import entry_point, job_packages
from .lane_queues import LaneQueue, LaneQueues
from .lanes_parameter import deployment_document
from .ledger import Ledger

# AWS: Spark 4.1 with support to 2029-09-07 (EMR-Serverless-UserGuide/release-versions).
RELEASE_LABEL = "emr-spark-8.1.0"
KEPT = Duration.days(90)
SERVICE = "emr-serverless.amazonaws.com"
# AWS: the Scheduler puts the id of the execution in its place (Scheduler user guide, "Adding context attributes").
EXECUTION = "<aws.scheduler.execution-id>"


class BulkEnqueue(Construct):
    """
    An EMR Serverless application for bulk jobs, with role, network, files and the jobs themselves.

    Example:
        >>> bulk = BulkEnqueue(stack, "Bulk", queues=stack.queues, ledger=stack.ledger, inputs=[data_lake])
        >>> bulk.grant_start(operators)

    Args:
        scope: The construct that holds this one.
        construct_id: Its id there.
        queues: The lanes' queues.
        ledger: The consumer's table; only its name is used, in the deployment document.
        lanes: Names of the lanes that jobs may send to. The last lane alone by default.
        inputs: Buckets whose objects jobs may read. None by default.
        vpc: The VPC of the workers. By default a closed one is made, see :class:`JobNetwork`.
        maximum_vcpus: The most that all running jobs together may use; 4 GB of memory go with each.
        idle_timeout: When the application stops after its last job.
        parameter_name: The parameter's name, ``/lanes/<stack name>/bulk`` by default.
        removal_policy: What becomes of manifests and logs when they leave the stack. They stay by default.

    Attributes:
        application: The application.
        job_role: What jobs run as.
        network: Where workers run.
        files: The bucket with manifests (``runs/``) and logs (``logs/``).
        parameter: What ``lanes bulk`` reads.

    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        queues: LaneQueues,
        ledger: Ledger,
        lanes: Sequence[str] | None = None,
        inputs: Sequence[s3.IBucket] = (),
        vpc: ec2.IVpc | None = None,
        maximum_vcpus: int = 16,
        idle_timeout: Duration | None = None,
        parameter_name: str | None = None,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN,
    ) -> None:
        super().__init__(scope, construct_id)
        names = lanes or [queues.config.last_lane.name]
        granted = [queues.lane(name) for name in names]
        self.files = self._files(removal_policy)
        self.entry_point = entry_point(self, "EntryPoint")
        self.packages = job_packages(self, "Packages")
        self.network = JobNetwork(self, "Network", lanes=granted, vpc=vpc)
        self.application = self._application(maximum_vcpus, idle_timeout or Duration.minutes(15))
        self.job_role = self._job_role(granted, inputs)
        self.deployment = deployment_document(queues=queues, ledger=ledger)
        self.parameter = ssm.StringParameter(
            self,
            "Parameter",
            parameter_name=parameter_name or f"/lanes/{Stack.of(self).stack_name}/bulk",
            description=f"The application for bulk jobs of {Stack.of(self).stack_name}",
            string_value=json.dumps(
                {
                    "version": 1,
                    "application": self.application.ref,
                    "role": self.job_role.role_arn,
                    "entry_point": self.entry_point.s3_object_url,
                    "packages": self.packages.s3_object_url,
                    "files": self.files.s3_url_for_object(),
                }
            ),
        )

    def grant_start(self, grantee: iam.IGrantable) -> iam.Grant:
        """
        Let ``grantee`` start jobs, follow and cancel them, and read their logs and manifests.

        Args:
            grantee: Who may; what a job does, it does as ``job_role``.

        Returns:
            The grant.

        """
        application = self.application.attr_arn
        grants = [
            iam.Grant.add_to_principal(
                grantee=grantee,
                actions=["emr-serverless:StartJobRun", "emr-serverless:ListJobRuns"],
                resource_arns=[application],
            ),
            iam.Grant.add_to_principal(
                grantee=grantee,
                actions=["emr-serverless:GetJobRun", "emr-serverless:CancelJobRun"],
                resource_arns=[f"{application}/jobruns/*"],
            ),
            self._grant_pass_role(grantee),
            iam.Grant.add_to_principal(
                grantee=grantee, actions=["ssm:GetParameter"], resource_arns=[self.parameter.parameter_arn]
            ),
            iam.Grant.add_to_principal(
                grantee=grantee, actions=["s3:ListBucket"], resource_arns=[self.files.bucket_arn]
            ),
            iam.Grant.add_to_principal(
                grantee=grantee,
                actions=["s3:GetObject"],
                resource_arns=[self.files.arn_for_objects("runs/*"), self.files.arn_for_objects("logs/*")],
            ),
        ]
        first, *others = grants
        for grant in others:
            first = first.combine(grant)
        return first

    def add_schedule(
        self,
        construct_id: str,
        *,
        schedule: scheduler.ScheduleExpression,
        job: str,
        arguments: Sequence[str],
        maximum_executors: int = 3,
    ) -> scheduler.Schedule:
        """
        Run a job again and again.

        Each execution is a run of its own in the manifest, under the execution's id.

        Args:
            construct_id: The schedule's id in this construct.
            schedule: When.
            job: Name of the job, such as ``enqueue``.
            arguments: Its arguments, without those that say where lanes and manifests are.
            maximum_executors: The most executors of the job.

        """
        role = iam.Role(
            self, f"{construct_id}Role", assumed_by=iam.ServicePrincipal("scheduler.amazonaws.com")
        )
        self._grant_pass_role(role)
        start = iam.PolicyStatement(
            actions=["emr-serverless:StartJobRun"], resources=[self.application.attr_arn]
        )
        request = self._start_request([job, *arguments], executors=maximum_executors)
        return scheduler.Schedule(
            self,
            construct_id,
            schedule=schedule,
            target=targets.Universal(
                service="emrserverless",
                action="startJobRun",
                input=scheduler.ScheduleTargetInput.from_object(request),
                policy_statements=[start],
                role=role,
                # The CDK's default is 185 attempts within a day.
                retry_attempts=3,
                max_event_age=Duration.hours(1),
            ),
        )

    def _start_request(self, arguments: Sequence[str], *, executors: int) -> dict[str, Any]:
        """Write the StartJobRun of a schedule's execution."""
        submit = {
            "EntryPoint": self.entry_point.s3_object_url,
            "EntryPointArguments": [
                *[*arguments, "--deployment", self.deployment, "--region", Stack.of(self).region],
                *["--run", EXECUTION, "--manifest", self.files.s3_url_for_object("runs")],
            ],
            "SparkSubmitParameters": spark_submit_parameters(
                packages=self.packages.s3_object_url, executors=executors
            ),
        }
        logs = {"S3MonitoringConfiguration": {"LogUri": self.files.s3_url_for_object("logs/")}}
        return {
            "ApplicationId": self.application.ref,
            "ClientToken": EXECUTION,
            "ExecutionRoleArn": self.job_role.role_arn,
            "JobDriver": {"SparkSubmit": submit},
            "ConfigurationOverrides": {"MonitoringConfiguration": logs},
        }

    def _files(self, removal_policy: RemovalPolicy) -> s3.Bucket:
        bucket = s3.Bucket(
            self,
            "Files",
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            lifecycle_rules=[s3.LifecycleRule(expiration=KEPT)],
            removal_policy=removal_policy,
        )
        Validations.of(bucket).acknowledge(
            Acknowledgment(
                id="AwsSolutions::AwsSolutions-S1",
                reason="Manifests and logs of jobs; who reads them is decided by grants, and CloudTrail can tell",
            )
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
            network_configuration=properties.NetworkConfigurationProperty(
                subnet_ids=self.network.subnets.subnet_ids,
                security_group_ids=[self.network.workers.security_group_id],
            ),
        )

    def _job_role(self, lanes: Sequence[LaneQueue], inputs: Sequence[s3.IBucket]) -> iam.Role:
        role = iam.Role(
            self,
            "JobRole",
            description="What bulk jobs may do",
            assumed_by=iam.ServicePrincipal(
                SERVICE, conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}}
            ),
        )
        for lane in lanes:
            lane.grant_send(role)
            lane.queue.grant(role, "sqs:GetQueueAttributes")
        readable = [
            asset.bucket.arn_for_objects(asset.s3_object_key) for asset in (self.entry_point, self.packages)
        ]
        readable += [bucket.arn_for_objects("*") for bucket in inputs]
        written = [self.files.arn_for_objects("runs/*"), self.files.arn_for_objects("logs/*")]
        listed = [self.files.bucket_arn, *(bucket.bucket_arn for bucket in inputs)]
        for actions, resources in (
            (["s3:GetObject"], [*readable, self.files.arn_for_objects("runs/*")]),
            (["s3:PutObject"], written),
            (["s3:ListBucket"], listed),
        ):
            iam.Grant.add_to_principal(grantee=role, actions=actions, resource_arns=resources)
        for bucket in inputs:
            if bucket.encryption_key is not None:
                bucket.encryption_key.grant_decrypt(role)
        self._acknowledge_wildcards(role, [*written, *(bucket.arn_for_objects("*") for bucket in inputs)])
        return role

    def _acknowledge_wildcards(self, role: iam.Role, arns: Sequence[str]) -> None:
        for arn in arns:
            Validations.of(role).acknowledge(
                Acknowledgment(
                    id=f"AwsSolutions::AwsSolutions-IAM5[Resource::{_flat(Stack.of(self).resolve(arn))}]",
                    reason="A job reads and writes any object of its inputs and below its own prefixes",
                )
            )

    def _grant_pass_role(self, grantee: iam.IGrantable) -> iam.Grant:
        return iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["iam:PassRole"],
            resource_arns=[self.job_role.role_arn],
            conditions={"StringEquals": {"iam:PassedToService": SERVICE}},
        )


def _flat(value: Any) -> str:
    """Write an ARN in the way in which cdk-nag names it: references as <LogicalId>."""
    if not isinstance(value, Mapping):
        return str(value)
    if "Ref" in value:
        return f"<{value['Ref']}>"
    if "Fn::GetAtt" in value:
        return f"<{'.'.join(value['Fn::GetAtt'])}>"
    return "".join(_flat(part) for part in value["Fn::Join"][1])
