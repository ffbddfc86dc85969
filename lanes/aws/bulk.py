"""
Bulk jobs on EMR Serverless: start and follow them, and count their sent rows from the names of their files.

The files of a run's manifest hold the counts in their names: a listing is enough to see how far a run is.

    <run>/sent/<session>/p00003-a17-0001-1000.json          1,000 messages of partition 3, attempt 17
    <run>/quarantine/<session>/p00003-a17-0002-2.jsonl      2 rows of it that cannot be sent
    <run>/ended/<session>/p00003-a17.json                   rows that it skipped, or the reason of its failure
    <run>/streams/<query>/batch-7/sent/...                  the same for a batch of a stream
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from lanes.aws.clients import parameter_name
from lanes.aws.errors import aws_errors
from lanes.config.spark_submit import spark_submit_parameters
from lanes.errors import AwsError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lanes.aws.clients import Clients

OF_TASK = re.compile(
    r"(?P<place>.*)/(?P<kind>sent|quarantine|ended)/(?P<session>[^/]+)/p(?P<partition>\d+)-a(?P<attempt>\d+)"
    r"(-(?P<number>\d+)-(?P<rows>\d+))?\.jsonl?"
)
OF_SESSION = re.compile(r"(?P<place>.*)/sessions/(?P<session>[^/]+)\.json")


class ManifestCounts(NamedTuple):
    """The messages that all sessions of a run have sent, and the rows that its last session has set aside."""

    sent: int
    quarantined: int


def counts_of(names: Iterable[str]) -> ManifestCounts:
    """
    Count messages and rows from the names of all files of a run.

    A row that cannot be sent is set aside by each session and each attempt at its partition. It counts once: in the
    last session of its part of the run, and there by the attempt that set most rows aside.
    """
    sent = 0
    last: dict[str, str] = {}
    aside: dict[tuple[str, str], dict[tuple[str, str], int]] = defaultdict(Counter)
    for name in names:
        found = OF_TASK.fullmatch(name) or OF_SESSION.fullmatch(name)
        if found is None:
            continue
        place, session = found["place"], found["session"]
        last[place] = max(last.get(place, ""), session)
        if found.re is OF_SESSION or found["rows"] is None:
            continue
        if found["kind"] == "sent":
            sent += int(found["rows"])
        else:
            aside[place, session][found["partition"], found["attempt"]] += int(found["rows"])
    return ManifestCounts(sent, sum(_by_partition(aside[place]).total() for place in last.items()))


def task_of(name: str) -> tuple[str, str]:
    """
    Return partition, with the part of the run that it belongs to, and attempt of a file that a task has written.

    Raises:
        ValueError: the name has another form.
    """
    found = OF_TASK.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} is not the name of a task's file")
    return f"{found['place']}/{found['partition']}", found["attempt"]


def last_attempts(names: Iterable[str]) -> list[str]:
    """Return the file of the last attempt at each partition, in the order of the partitions."""
    last: dict[str, tuple[int, str]] = {}
    for name in names:
        partition, attempt = task_of(name)
        last[partition] = max(last.get(partition, (-1, "")), (int(attempt), name))
    return [name for _, (_, name) in sorted(last.items())]


def _by_partition(attempts: dict[tuple[str, str], int]) -> Counter[str]:
    most: Counter[str] = Counter()
    for (partition, _), rows in attempts.items():
        most[partition] = max(most[partition], rows)
    return most


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
