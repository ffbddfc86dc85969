"""The deployed mappings, functions with their code, queues, schedules and outputs, read through the AWS APIs."""

import io
import shutil
import sys
import tempfile
import zipfile
from base64 import b64decode
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, partial
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from .account import PLATFORM_KEY, REGION, SECRET, USER_KEY
from .function import FunctionSettings
from .polled_queue import QueueMapping, without_qualifier
from .schedules import ScheduleSettings
from .stream_mapping import StreamMappingSettings

_READ_TIMEOUT = 60
_CONNECTIONS = 64


def make_session(access_key: str = USER_KEY) -> boto3.Session:
    """A boto3 session for the AWS server on this machine; its clients need the endpoint too."""
    return boto3.Session(aws_access_key_id=access_key, aws_secret_access_key=SECRET, region_name=REGION)


def make_client(service: str, endpoint_url: str, *, access_key: str = PLATFORM_KEY) -> Any:
    """A boto3 client of the AWS server on this machine, safe to share between threads."""
    # The server is on this machine: a failed call would fail again.
    config = Config(
        retries={"total_max_attempts": 1}, read_timeout=_READ_TIMEOUT, max_pool_connections=_CONNECTIONS
    )
    session: Any = make_session(access_key)
    return session.client(service, endpoint_url=endpoint_url, config=config)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedQueue:
    """A queue that a mapping polls."""

    name: str
    url: str
    visibility_timeout: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """
    Everything that runs needs, as one reading.

    By mapping uuid, function ARN without a qualifier, queue ARN, uuid of a stream's mapping, and rule ARN.
    """

    mappings: Mapping[str, QueueMapping] = field(default_factory=dict)
    functions: Mapping[str, FunctionSettings] = field(default_factory=dict)
    queues: Mapping[str, DeployedQueue] = field(default_factory=dict)
    streams: Mapping[str, StreamMappingSettings] = field(default_factory=dict)
    schedules: Mapping[str, ScheduleSettings] = field(default_factory=dict)


class DeploymentReader:
    """
    Reads the deployed resources from the AWS server.

    Args:
        endpoint_url: of the server.
    """

    def __init__(self, endpoint_url: str) -> None:
        self._client = cache(partial(make_client, endpoint_url=endpoint_url))

    def read(self, *, functions: Collection[str] = ()) -> Deployed:
        """
        Read mappings on queues and streams of tables, and schedules, with their functions and queues.

        A mapping whose function or queue is being replaced at this moment is left out: the next reading
        finds it whole.

        Args:
            functions: ARNs of more functions to read.
        """
        pages = self._client("lambda").get_paginator("list_event_source_mappings").paginate()
        entries = [entry for page in pages for entry in page["EventSourceMappings"]]
        mappings = [QueueMapping.from_api(entry) for entry in entries if ":sqs:" in entry["EventSourceArn"]]
        streams = [
            StreamMappingSettings.from_api(entry)
            for entry in entries
            if ":dynamodb:" in entry["EventSourceArn"]
        ]
        # Where one mapping is moved to an alias before the others, that alias decides for all.
        invoked = {without_qualifier(arn): arn for arn in sorted(one["FunctionArn"] for one in entries)}
        arns = {one.function_arn for one in mappings} | {one.function_arn for one in streams}
        schedules = self._schedules()
        arns.update(arn for one in schedules for arn in one.function_arns)
        found = {arn: self.function(invoked.get(arn, arn)) for arn in arns.union(functions)}
        queues = {arn: self._queue(arn) for arn in {one.queue_arn for one in mappings}}
        whole = {one.uuid: one for one in mappings if found[one.function_arn] and queues[one.queue_arn]}
        return Deployed(
            mappings=whole,
            functions={arn: settings for arn, settings in found.items() if settings},
            queues={arn: queue for arn, queue in queues.items() if queue},
            streams={one.uuid: one for one in streams if found[one.function_arn]},
            schedules={
                one.rule_arn: one for one in schedules if all(found[arn] for arn in one.function_arns)
            },
        )

    def outputs(self) -> dict[str, dict[str, str]]:
        """Outputs of every stack, by stack name."""
        pages = self._client("cloudformation").get_paginator("describe_stacks").paginate()
        return {
            stack["StackName"]: {item["OutputKey"]: item["OutputValue"] for item in stack.get("Outputs", [])}
            for page in pages
            for stack in page["Stacks"]
        }

    def _schedules(self) -> list[ScheduleSettings]:
        found = []
        for rule in self._client("events").list_rules()["Rules"]:
            if not rule.get("ScheduleExpression"):
                continue
            try:
                targets = self._client("events").list_targets_by_rule(Rule=rule["Name"])["Targets"]
            except ClientError as error:
                if _is_gone(error):
                    continue
                raise
            settings = ScheduleSettings.from_api(rule, targets)
            if settings is not None:
                found.append(settings)
        return found

    def function(self, arn: str) -> FunctionSettings | None:
        """Read a function; None if there is none with this ARN."""
        try:
            answer = self._client("lambda").get_function(FunctionName=arn)
            # AWS: GetFunction returns the reserved concurrency unless there is none; moto leaves out 0 as well.
            name = answer["Configuration"]["FunctionName"]
            concurrency = self._client("lambda").get_function_concurrency(FunctionName=name)
        except ClientError as error:
            if _is_gone(error):
                return None
            raise
        reserved = concurrency.get("ReservedConcurrentExecutions")
        return FunctionSettings.from_api(answer, arn=arn, reserved_concurrency=reserved)

    def _queue(self, arn: str) -> DeployedQueue | None:
        name = arn.rpartition(":")[2]
        try:
            url = self._client("sqs").get_queue_url(QueueName=name)["QueueUrl"]
            names = ["VisibilityTimeout"]
            answer = self._client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)
        except ClientError as error:
            if _is_gone(error):
                return None
            raise
        seconds = int(answer["Attributes"]["VisibilityTimeout"])
        return DeployedQueue(name=name, url=url, visibility_timeout=timedelta(seconds=seconds))


def _is_gone(error: ClientError) -> bool:
    code = error.response["Error"]["Code"]
    return any(word in code for word in ("NotFound", "NonExistentQueue", "DoesNotExist"))


class CodeStore:
    """
    Unzipped code below one directory, by content; several processes may share it.

    Args:
        s3: client of the AWS server.
        directory: where the task roots lie.
    """

    def __init__(self, *, s3: Any, directory: Path) -> None:
        self._s3 = s3
        self._directory = directory

    def task_root(self, location: str, *, code_sha256: str) -> Path:
        """
        The folder with the code of a function.

        Args:
            location: Code.Location of GetFunction; it names Lambda's own bucket and the key in it.
            code_sha256: CodeSha256 of the function.
        """
        # The digest is base64; the folder's name must not contain a slash.
        root = self._directory / b64decode(code_sha256).hex()[:32]
        if not root.exists():
            self._unzip(self._fetch(location), root)
        return root

    def _fetch(self, location: str) -> bytes:
        parts = urlparse(location)
        bucket = parts.netloc.split(".s3.")[0]
        stored = self._s3.get_object(Bucket=bucket, Key=unquote(parts.path.lstrip("/")))
        return bytes(stored["Body"].read())

    def _unzip(self, archive: bytes, root: Path) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=self._directory, prefix="unzip-"))
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            opened.extractall(scratch)
        _drop_foreign(scratch)
        try:
            scratch.rename(root)
        except OSError:
            # Another process was faster; its copy is the same.
            shutil.rmtree(scratch)
            if not root.exists():
                raise


def _drop_foreign(root: Path) -> None:
    """Remove packages with native code for another machine or Python; this environment has its own."""
    ours = _machine_of(Path(sys.executable))
    files = [(file, f".{file.name.partition('.')[2]}") for file in root.rglob("*.so")]
    foreign = [one for one, suffix in files if suffix not in EXTENSION_SUFFIXES or _machine_of(one) != ours]
    for package in {file.relative_to(root).parts[0] for file in foreign}:
        shutil.rmtree(root / package, ignore_errors=True)


def _machine_of(file: Path) -> bytes:
    """Return the class and the machine of an ELF file."""
    header = file.read_bytes()[:20]
    return header[:5] + header[18:]
