"""
The stage settings of a deployment, from ``-c name=value`` on the command line or from ``cdk.json``.

Only ``app.py`` reads them; constructs take plain values.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from aws_cdk import RemovalPolicy
from constructs import Node

from lanes.errors import ConfigurationError

from .alarms.rule import RUNBOOK

SOURCE = "cdk context"
STACK_NAME = "PriorityLanes"
BULK = "-bulk"
REMOVALS: Mapping[str, RemovalPolicy] = {
    "retain": RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    "destroy": RemovalPolicy.DESTROY,
}
TOPIC_ARN = re.compile(r"arn:[a-z-]+:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]+")
PAGE_URL = re.compile(r"https://[^\s/()#]+[^\s()#]*")
STAGE_NAME = re.compile(r"[A-Za-z0-9-]{1,100}")
NAMES = (
    "stage", "removal", "bulk", "bulk_inputs", "bulk_databases", "bulk_zones", "alarm_topic", "runbook",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSettings:
    """
    The settings of one deployment.

    Attributes:
        stage: The stage of ``lanes.toml``, or None for its general settings.
        removal_policy: Whether to keep or delete queues, tables and logs with the stack.
        bulk_jobs: Whether there is a second stack with an application for bulk jobs.
        bulk_inputs: The names of the buckets that bulk jobs may read.
        bulk_databases: The names of the Glue databases that bulk jobs may read.
        bulk_zones: The names of the zones of bulk jobs; the first two of the region if empty.
        alarm_topic: The ARN of the SNS topic that all alarms notify, or None.
        runbook: The URL of the runbook, or its file in this repository.

    """

    stage: str | None = None
    removal_policy: RemovalPolicy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
    bulk_jobs: bool = False
    bulk_inputs: tuple[str, ...] = ()
    bulk_databases: tuple[str, ...] = ()
    bulk_zones: tuple[str, ...] = ()
    alarm_topic: str | None = None
    runbook: str = RUNBOOK

    @classmethod
    def from_context(cls, node: Node) -> Self:
        """
        Read the settings.

        Args:
            node: The node of the app. Its context may have ``stage``, ``removal`` (``retain`` or ``destroy``), ``bulk``
                (``on`` or ``off``), and with ``bulk=on`` names separated by commas in ``bulk_inputs``,
                ``bulk_databases`` and ``bulk_zones``. ``alarm_topic`` is the ARN of an SNS topic, ``runbook`` an https
                URL.

        Raises:
            ConfigurationError: A setting has another value, or an empty one.

        """
        # An unset variable of a script: an empty stage would deploy, or destroy, the stack without one.
        if empty := [name for name in NAMES if node.try_get_context(name) == ""]:
            raise ConfigurationError(
                [f"{name} is empty: give a value, or leave out -c {name}" for name in empty], source=SOURCE
            )
        removal = node.try_get_context("removal") or "retain"
        if removal not in REMOVALS:
            raise _wrong(
                f"removal is {removal!r}: 'retain' keeps queues, table and logs, 'destroy' deletes them"
            )
        # In cdk.json a value may be a number.
        given = node.try_get_context("stage")
        stage = None if given is None else str(given)
        # AWS: a stack name has letters, digits and hyphens (CloudFormation, CreateStack).
        if stage is not None and not STAGE_NAME.fullmatch(stage):
            raise _wrong(
                f"stage is {stage!r}: it becomes part of the stack name; use letters, digits and hyphens"
            )
        # Its stack would have the name of the stack with the bulk jobs of another stage.
        if stage is not None and f"-{stage}".endswith(BULK):
            raise _wrong(
                f"stage is {stage!r}: names that end in 'bulk' are for the stacks of bulk jobs; use another"
            )
        bulk_jobs = _is_on(node, "bulk", adds="a stack with an application for bulk jobs")
        return cls(
            stage=stage,
            removal_policy=REMOVALS[removal],
            bulk_jobs=bulk_jobs,
            bulk_inputs=_bulk_names(node, "bulk_inputs", bulk_jobs=bulk_jobs),
            bulk_databases=_bulk_names(node, "bulk_databases", bulk_jobs=bulk_jobs),
            bulk_zones=_bulk_names(node, "bulk_zones", bulk_jobs=bulk_jobs),
            alarm_topic=_alarm_topic(node),
            runbook=_runbook(node),
        )

    @property
    def stack_name(self) -> str:
        """The name of the stack: PriorityLanes, or PriorityLanes-<stage>."""
        return f"{STACK_NAME}-{self.stage}" if self.stage else STACK_NAME

    @property
    def bulk_stack_name(self) -> str:
        """The name of the stack with the bulk jobs: that of the stack, and ``-bulk``."""
        return f"{self.stack_name}{BULK}"


def _wrong(problem: str) -> ConfigurationError:
    return ConfigurationError([problem], source=SOURCE)


def _is_on(node: Node, name: str, *, adds: str) -> bool:
    value = node.try_get_context(name) or "off"
    if value not in ("on", "off"):
        raise _wrong(f"{name} is {value!r}: 'on' adds {adds}, 'off' does not")
    return bool(value == "on")


def _alarm_topic(node: Node) -> str | None:
    topic = node.try_get_context("alarm_topic") or None
    if topic is not None and not TOPIC_ARN.fullmatch(str(topic)):
        raise _wrong(
            f"alarm_topic is {topic!r}: give the ARN of an SNS topic, such as arn:aws:sns:REGION:ACCOUNT:NAME"
        )
    return topic


def _runbook(node: Node) -> str:
    runbook = str(node.try_get_context("runbook") or RUNBOOK)
    if runbook != RUNBOOK and not PAGE_URL.fullmatch(runbook):
        problem = (
            f"runbook is {runbook!r}: give the https URL of your copy of docs/runbook.md, such as "
            "https://wiki.example.com/runbook"
        )
        raise _wrong(problem)
    return runbook


def _bulk_names(node: Node, name: str, *, bulk_jobs: bool) -> tuple[str, ...]:
    names = tuple(part.strip() for part in str(node.try_get_context(name) or "").split(",") if part.strip())
    if names and not bulk_jobs:
        raise _wrong(f"{name} is {','.join(names)!r}, but there are no bulk jobs; add -c bulk=on")
    return names
