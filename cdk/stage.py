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

STACK_NAME = "PriorityLanes"
REMOVALS: Mapping[str, RemovalPolicy] = {"retain": RemovalPolicy.RETAIN, "destroy": RemovalPolicy.DESTROY}
STAGE_NAME = re.compile(r"[A-Za-z0-9-]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSettings:
    """
    The settings of one deployment.

    Attributes:
        stage: The stage of ``lanes.toml``, or None for its general settings.
        removal_policy: Whether to keep or delete queues, tables and logs with the stack.
        bulk_jobs: Whether the stack has an application for bulk jobs.
        intake: Whether the stack has an intake.

    """

    stage: str | None = None
    removal_policy: RemovalPolicy = RemovalPolicy.RETAIN
    bulk_jobs: bool = False
    intake: bool = False

    @classmethod
    def from_context(cls, node: Node) -> Self:
        """
        Read the settings.

        Args:
            node: The node of the app. Its context may have ``stage``, ``removal`` (``retain`` or ``destroy``), ``bulk``
                and ``intake`` (``on`` or ``off``).

        Raises:
            ConfigurationError: A setting has another value.

        """
        removal = node.try_get_context("removal") or "retain"
        if removal not in REMOVALS:
            raise ConfigurationError(
                [f"removal is {removal!r}: 'retain' keeps queues, table and logs, 'destroy' deletes them"],
                source="cdk context",
            )
        stage = node.try_get_context("stage") or None
        # AWS: a stack name has letters, digits and hyphens (CloudFormation, CreateStack).
        if stage is not None and not STAGE_NAME.fullmatch(stage):
            raise ConfigurationError(
                [f"stage is {stage!r}: it becomes part of the stack name; use letters, digits and hyphens"],
                source="cdk context",
            )
        return cls(
            stage=stage,
            removal_policy=REMOVALS[removal],
            bulk_jobs=_is_on(node, "bulk", adds="an application for bulk jobs"),
            intake=_is_on(node, "intake", adds="a queue for senders that can't ring the bell"),
        )

    @property
    def stack_name(self) -> str:
        """The name of the stack: PriorityLanes, or PriorityLanes-<stage>."""
        return f"{STACK_NAME}-{self.stage}" if self.stage else STACK_NAME


def _is_on(node: Node, name: str, *, adds: str) -> bool:
    value = node.try_get_context(name) or "off"
    if value not in ("on", "off"):
        raise ConfigurationError(
            [f"{name} is {value!r}: 'on' adds {adds}, 'off' does not"], source="cdk context"
        )
    return bool(value == "on")
