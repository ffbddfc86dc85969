"""Bulk jobs on EMR Serverless: start, follow and cancel them, and count their sent rows."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lanes.aws.bulk.manifest_files import ManifestCounts, counts_of
from lanes.aws.errors import aws_errors
from lanes.aws.parameters import parameter_name
from lanes.config.spark_submit import NO_EXTRAS, SparkExtras, spark_submit_parameters
from lanes.errors import AwsError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lanes.aws.clients import Clients

# AWS: a run that exceeds its timeout ends as CANCELLED, not as FAILED (EMR Serverless user guide).
SUCCESS = "SUCCESS"
CANCELLED = "CANCELLED"
OVER = (SUCCESS, "FAILED", CANCELLED)
# AWS: the default of executionTimeoutMinutes is 720 (API_StartJobRun).
DEFAULT_TIMEOUT = timedelta(hours=12)
S3_SCHEMES = ("s3", "s3a", "s3n")
# Jobs in a row that ended before their session began: a wrong table, say, that was mended since.
MAX_STARTS = 20
# AWS: up to 64 letters, digits, dots, dashes and underscores (API_StartJobRun, clientToken).
NOT_IN_TOKEN = re.compile(r"[^A-Za-z0-9._-]")
TOKEN_NAME_LENGTH = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkApplication:
    """
    The EMR Serverless application of a stack, from the stack's parameter.

    Attributes:
        application: id of the application.
        role: role of the jobs.
        entry_point: program that starts a job by its name.
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
        run: str,
        timeout: timedelta = DEFAULT_TIMEOUT,
        tags: Mapping[str, str],
        spark: SparkExtras = NO_EXTRAS,
    ) -> str:
        """
        Start a job and return the id of its run.

        A second start with the same arguments and session returns the id of the first, unless that one has ended
        without beginning its session.

        Args:
            arguments: name of the job and its arguments.
            executors: maximum number of executors, of two cores each.
            run: name of the run and number of its session, from `next_session`.
            timeout: the run is cancelled after this time, rounded up to minutes.
            tags: tags of the run, for cost allocation.
            spark: additions to Spark.
        """
        for start in count():
            token = _token(run, start, [*arguments, *spark.arguments()])
            run_id = self._start(
                arguments, executors=executors, token=token, timeout=timeout, tags=tags, spark=spark
            )
            if start == MAX_STARTS or not self.get(run_id).is_over:
                break
        return run_id

    def _start(
        self,
        arguments: Sequence[str],
        *,
        executors: int,
        token: str,
        timeout: timedelta,
        tags: Mapping[str, str],
        spark: SparkExtras,
    ) -> str:
        bulk = self._application
        submit = {
            "entryPoint": bulk.entry_point,
            "entryPointArguments": list(arguments),
            "sparkSubmitParameters": spark_submit_parameters(
                packages=bulk.packages, executors=executors, catalog=bulk.catalog, extras=spark
            ),
        }
        logs = {"s3MonitoringConfiguration": {"logUri": f"{bulk.files}/logs/"}}
        with aws_errors("StartJobRun"):
            answer = self._emr.start_job_run(
                applicationId=bulk.application,
                clientToken=token,
                executionRoleArn=bulk.role,
                jobDriver={"sparkSubmit": submit},
                configurationOverrides={"monitoringConfiguration": logs},
                executionTimeoutMinutes=math.ceil(timeout / timedelta(minutes=1)),
                name=arguments[0],
                tags=dict(tags),
            )
        return str(answer["jobRunId"])

    def next_session(self, manifests: str, run: str, *, take_over: bool) -> str:
        """
        Return the name of a run with the number of its next session.

        Args:
            manifests: folder of the manifests.
            run: name of the run.
            take_over: whether an earlier session may be without an end.

        Raises:
            ConfigurationError: a session of the run has begun and has not ended.
        """
        if urlsplit(manifests).scheme not in S3_SCHEMES:
            raise ConfigurationError(
                [f"--manifest is {manifests!r}; a job on AWS needs s3://bucket/folder"], source="lanes bulk"
            )
        folder = f"{manifests.rstrip('/')}/{run}"
        begun = sorted(self._keys(f"{folder}/begun/"))
        if begun and not take_over:
            last = json.loads(self._read(f"{folder}/begun/{begun[-1].rpartition('/')[2]}"))
            if not any(self._keys(f"{folder}/sessions/{last['session']}.json")):
                problem = (
                    f"run {run!r} has a session that began at {last['begun']} and has not ended; wait for its end, or "
                    f"cancel it. If it has crashed, take its run over with --take-over"
                )
                raise ConfigurationError([problem], source="lanes bulk")
        return f"{run}-{len(begun) + 1}"

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

    def _read(self, url: str) -> bytes:
        place = urlsplit(url)
        with aws_errors("GetObject"):
            answer = self._s3.get_object(Bucket=place.netloc, Key=place.path.lstrip("/"))
            content: bytes = answer["Body"].read()
        return content

    def _keys(self, prefix: str) -> Iterator[str]:
        place = urlsplit(prefix)
        pages = self._s3.get_paginator("list_objects_v2")
        with aws_errors("ListObjectsV2"):
            for page in pages.paginate(Bucket=place.netloc, Prefix=place.path.lstrip("/")):
                yield from (item["Key"] for item in page.get("Contents", ()))


def _token(run: str, start: int, arguments: Sequence[str]) -> str:
    """Name a start, so that one with a lost answer that is tried again is one job, also by another process."""
    digest = hashlib.sha256(json.dumps([run, start, *arguments]).encode()).hexdigest()
    return f"{NOT_IN_TOKEN.sub('-', run)[:TOKEN_NAME_LENGTH]}-{digest[:20]}"
