"""Bulk jobs on EMR Serverless: start and follow them, and count their sent rows."""

from __future__ import annotations

import json
import math
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lanes.aws.bulk.manifest_files import ManifestCounts, counts_of
from lanes.aws.errors import aws_errors
from lanes.aws.parameters import parameter_name
from lanes.config.spark_submit import spark_submit_parameters
from lanes.errors import AwsError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lanes.aws.clients import Clients

# AWS: a run that exceeds its timeout ends as CANCELLED, not as FAILED (EMR Serverless user guide).
SUCCESS = "SUCCESS"
CANCELLED = "CANCELLED"
OVER = (SUCCESS, "FAILED", CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkApplication:
    """
    The EMR Serverless application of a stack, from the stack's parameter.

    Attributes:
        application: id of the application.
        role: role of the jobs.
        entry_point: program that starts the job.
        packages: archive of its packages.
        files: the bucket with manifests and logs.
        catalog: whether jobs read the Glue Data Catalog.
    """

    application: str
    role: str
    entry_point: str
    packages: str
    files: str
    catalog: bool

    @classmethod
    def of_stack(cls, clients: Clients, stack_name: str) -> BulkApplication:
        """
        Read the parameter.

        Raises:
            ConfigurationError: the stack has no application for bulk jobs.
            AwsError: the call failed.
        """
        name = f"{parameter_name(stack_name)}/bulk"
        try:
            with aws_errors("GetParameter"):
                answer = clients.ssm().get_parameter(Name=name)
        except AwsError as error:
            if error.code != "ParameterNotFound":
                raise
            raise ConfigurationError(
                [f"there is no parameter {name}; deploy the bulk jobs: lanes cdk deploy --all -c bulk=on"],
                source=f"stack {stack_name}",
            ) from error
        document: Mapping[str, Any] = json.loads(answer["Parameter"].get("Value", ""))
        return cls(
            application=document["application"],
            role=document["role"],
            entry_point=document["entry_point"],
            packages=document["packages"],
            files=document["files"].rstrip("/"),
            catalog=document["catalog"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkRun:
    """
    The status of a run.

    Attributes:
        id: id of the run.
        state: SUBMITTED, PENDING, SCHEDULED, RUNNING, SUCCESS, FAILED, CANCELLING, CANCELLED or QUEUED.
        details: reason of the state.
        arguments: arguments of the job.
        seconds: duration so far.
        vcpu_hours: vCPU hours used so far; None if AWS has no figure.
    """

    id: str
    state: str
    details: str
    arguments: Sequence[str]
    seconds: float | None = None
    vcpu_hours: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether the state is final."""
        return self.state in OVER

    @property
    def has_failed(self) -> bool:
        """Whether the run ended without success; one that exceeded its timeout is CANCELLED."""
        return self.is_over and self.state != SUCCESS

    def argument(self, name: str) -> str | None:
        """Return the value of an argument such as `--run`."""
        places = [place for place, one in enumerate(self.arguments[:-1]) if one == name]
        return self.arguments[places[-1] + 1] if places else None


class BulkRuns:
    """
    The runs of an application.

    Args:
        application: the application.
        clients: creates the clients.
    """

    def __init__(self, application: BulkApplication, clients: Clients) -> None:
        self._application = application
        self._emr: Any = clients.operations("emr-serverless")
        self._s3: Any = clients.operations("s3")

    def start(
        self,
        arguments: Sequence[str],
        *,
        executors: int,
        timeout: timedelta,
        tags: Mapping[str, str],
        spark: str = "",
    ) -> str:
        """
        Start a job and return the id of its run; the manifest refuses a second session of its run.

        Args:
            arguments: of the job.
            executors: maximum number of executors, of two cores each.
            timeout: the run is cancelled after this time, rounded up to minutes.
            tags: tags of the run, for cost allocation.
            spark: further parameters of spark-submit.
        """
        bulk = self._application
        submit = {
            "entryPoint": bulk.entry_point,
            "entryPointArguments": list(arguments),
            "sparkSubmitParameters": spark_submit_parameters(
                packages=bulk.packages, executors=executors, catalog=bulk.catalog, more=spark
            ),
        }
        logs = {"s3MonitoringConfiguration": {"logUri": f"{bulk.files}/logs/"}}
        with aws_errors("StartJobRun"):
            # AWS: one attempt, the default for batch jobs: another one would find the session of the first.
            answer = self._emr.start_job_run(
                applicationId=bulk.application,
                clientToken=uuid.uuid4().hex,
                executionRoleArn=bulk.role,
                jobDriver={"sparkSubmit": submit},
                configurationOverrides={"monitoringConfiguration": logs},
                executionTimeoutMinutes=math.ceil(timeout / timedelta(minutes=1)),
                name="enqueue",
                tags=dict(tags),
            )
        return str(answer["jobRunId"])

    def get(self, run_id: str) -> BulkRun:
        """Read the status of a run."""
        with aws_errors("GetJobRun"):
            answer = self._emr.get_job_run(applicationId=self._application.application, jobRunId=run_id)
        run = answer["jobRun"]
        return BulkRun(
            id=run_id,
            state=run["state"],
            details=run.get("stateDetails", ""),
            arguments=run.get("jobDriver", {}).get("sparkSubmit", {}).get("entryPointArguments", []),
            seconds=run.get("totalExecutionDurationSeconds"),
            vcpu_hours=run.get("totalResourceUtilization", {}).get("vCPUHour"),
        )

    def counts(self, run: BulkRun) -> ManifestCounts | None:
        """Count the messages and the rows set aside in a run's manifest; None if it has none."""
        manifest, name = run.argument("--manifest"), run.argument("--run")
        if manifest is None or name is None:
            return None
        return counts_of(self._keys(f"{manifest.rstrip('/')}/{name}/"))

    def _keys(self, prefix: str) -> Iterator[str]:
        place = urlsplit(prefix)
        pages = self._s3.get_paginator("list_objects_v2")
        with aws_errors("ListObjectsV2"):
            for page in pages.paginate(Bucket=place.netloc, Prefix=place.path.lstrip("/")):
                yield from (item["Key"] for item in page.get("Contents", ()))
