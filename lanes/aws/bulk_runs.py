"""Bulk jobs on EMR Serverless: started, followed, cancelled, and what they leave in S3."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lanes.aws.errors import aws_errors
from lanes.aws.parameters import parameter_name
from lanes.bulk_settings import spark_submit_parameters
from lanes.errors import AwsError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lanes.aws.clients import Clients

# Files of a manifest have the number of their rows at the end of their names.
SEGMENT = re.compile(r"-(\d+)\.jsonl?")
OVER = ("SUCCESS", "FAILED", "CANCELLED")


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkApplication:
    """
    Where the bulk jobs of a stack run, as the stack's parameter says.

    Attributes:
        application: id of the application.
        role: what jobs run as.
        entry_point: the program that starts a job by its name.
        packages: the archive that it needs.
        files: the bucket with manifests and logs.
    """

    application: str
    role: str
    entry_point: str
    packages: str
    files: str

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
                [f"there is no parameter {name}; deploy the stack with bulk jobs: cdk deploy -c bulk=on"],
                source=f"stack {stack_name}",
            ) from error
        document: Mapping[str, str] = json.loads(answer["Parameter"].get("Value", ""))
        return cls(
            application=document["application"],
            role=document["role"],
            entry_point=document["entry_point"],
            packages=document["packages"],
            files=document["files"].rstrip("/"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkRun:
    """
    How a run stands.

    Attributes:
        id: of the run.
        state: SUBMITTED, PENDING, SCHEDULED, RUNNING, SUCCESS, FAILED, CANCELLING, CANCELLED or QUEUED.
        details: the reason of a state, in words.
        arguments: of the job.
        seconds: that it has run.
        vcpu_hours: that it has used, where AWS says so.
    """

    id: str
    state: str
    details: str
    arguments: Sequence[str]
    seconds: float | None = None
    vcpu_hours: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether it will not change any more."""
        return self.state in OVER

    def argument(self, name: str) -> str | None:
        """Give the value of an argument such as `--run`."""
        places = [place for place, one in enumerate(self.arguments[:-1]) if one == name]
        return self.arguments[places[-1] + 1] if places else None


class BulkRuns:
    """
    The runs of an application.

    Args:
        application: where they run.
        clients: makes the clients.
    """

    def __init__(self, application: BulkApplication, clients: Clients) -> None:
        self._application = application
        self._emr: Any = clients.operations("emr-serverless")
        self._s3: Any = clients.operations("s3")

    def start(self, arguments: Sequence[str], *, executors: int, token: str) -> str:
        """
        Start a job and give the id of its run.

        Args:
            arguments: name of the job and its arguments.
            executors: the most executors, of two cores each.
            token: starting again with the same token starts nothing.
        """
        bulk = self._application
        submit = {
            "entryPoint": bulk.entry_point,
            "entryPointArguments": list(arguments),
            "sparkSubmitParameters": spark_submit_parameters(packages=bulk.packages, executors=executors),
        }
        logs = {"s3MonitoringConfiguration": {"logUri": f"{bulk.files}/logs/"}}
        with aws_errors("StartJobRun"):
            answer = self._emr.start_job_run(
                applicationId=bulk.application,
                clientToken=token,
                executionRoleArn=bulk.role,
                jobDriver={"sparkSubmit": submit},
                configurationOverrides={"monitoringConfiguration": logs},
                name=arguments[0],
            )
        return str(answer["jobRunId"])

    def get(self, run_id: str) -> BulkRun:
        """Read how a run stands."""
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

    def cancel(self, run_id: str) -> None:
        """Ask a run to end; what it has sent is sent, and its manifest says what."""
        with aws_errors("CancelJobRun"):
            self._emr.cancel_job_run(applicationId=self._application.application, jobRunId=run_id)

    def rows(self, run: BulkRun, kind: str) -> int | None:
        """Count what a run's manifest has under `sent` or `quarantine`, earlier sessions too."""
        manifest, name = run.argument("--manifest"), run.argument("--run")
        if manifest is None or name is None:
            return None
        names = (key for key, _ in self._keys(f"{manifest.rstrip('/')}/{name}/{kind}/"))
        return sum(int(found[1]) for key in names if (found := SEGMENT.search(key)))

    def log(self, run_id: str, *, stream: str) -> Iterator[str]:
        """Give what the driver of a run has written so far to `stdout` or `stderr`, piece by piece."""
        bulk = self._application
        prefix = f"{bulk.files}/logs/applications/{bulk.application}/jobs/{run_id}/"
        # AWS: older pieces are kept under rotated names; the newest has none (EMR-Serverless-UserGuide/logging).
        for key, _ in sorted(self._keys(prefix), key=lambda found: found[1]):
            if "/SPARK_DRIVER/" in key and key.rpartition("/")[2].startswith(stream):
                with aws_errors("GetObject"):
                    content = self._s3.get_object(Bucket=urlsplit(prefix).netloc, Key=key)["Body"].read()
                yield (gzip.decompress(content) if key.endswith(".gz") else content).decode(errors="replace")

    def _keys(self, prefix: str) -> Iterator[tuple[str, Any]]:
        place = urlsplit(prefix)
        pages = self._s3.get_paginator("list_objects_v2")
        with aws_errors("ListObjectsV2"):
            for page in pages.paginate(Bucket=place.netloc, Prefix=place.path.lstrip("/")):
                yield from ((item["Key"], item["LastModified"]) for item in page.get("Contents", ()))
