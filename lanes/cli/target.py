"""
The target of a command, which its global options name: the stack, account and region; and how a command may end.

`docs/reference/command-line.md` explains the exit codes.
"""

from __future__ import annotations

import dataclasses
import enum
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lanes.aws.clients import Clients, read_deployment, relay_config
from lanes.errors import ConfigurationError, InvalidMessageError
from lanes.operate.send import read_priority

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import typer

    from lanes.config.deployment import Deployment


class UsageError(ConfigurationError):
    """An option or argument is wrong; nothing was changed."""


@contextmanager
def usage(source: str) -> Iterator[None]:
    """
    Turn errors about values that the operator typed into usage errors.

    Args:
        source: the option or argument that the error names.

    Raises:
        UsageError: the block raised an error about a value.
    """
    try:
        yield
    except (ConfigurationError, InvalidMessageError) as error:
        raise UsageError(error.problems, source=source) from error


def parse_priority(text: str) -> int:
    """
    Parse a priority: a number, or a name such as HIGH.

    Raises:
        UsageError: the text is neither.
    """
    with usage("priority"):
        return read_priority(text)


class ExitCode(enum.IntEnum):
    """How a verb ended."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    # Not 1: a script distinguishes a found problem from a command that failed.
    NO = 3
    # Of a verb that waits: a script may wait on.
    NOT_IN_TIME = 4
    # 128 and the number of SIGINT, as shells report it.
    INTERRUPTED = 130


DEFAULT_STACK = "PriorityLanes"
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
ENDPOINTS = ("AWS_ENDPOINT_URL_", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
"""Beginnings of the variables that have priority over AWS_ENDPOINT_URL."""


class Output(enum.StrEnum):
    """The format of printed data."""

    TABLE = "table"
    JSON = "json"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """
    The deployment that a command works on.

    Attributes:
        stage: selects the stack `PriorityLanes-STAGE`; empty for `PriorityLanes`.
        stack: name of the stack; has priority over the stage.
        profile: profile of the AWS configuration; None for the credentials of the environment.
        region: AWS region; None for the region of the profile or environment.
        endpoint: address of a local AWS; None for AWS.
        is_endpoint_typed: whether the address holds for every service. One of AWS_ENDPOINT_URL gives way to the address
            of a single service, as in all of AWS's tools (AWS SDKs and Tools Reference, "Service-specific endpoints").
        output: format of printed data.

    """

    stage: str = ""
    stack: str | None = None
    profile: str | None = None
    region: str | None = None
    endpoint: str | None = None
    is_endpoint_typed: bool = True
    output: Output = Output.TABLE

    @property
    def stack_name(self) -> str:
        """Name of the stack."""
        return self.stack or (f"{DEFAULT_STACK}-{self.stage}" if self.stage else DEFAULT_STACK)

    def clients(self, *, for_relay: bool = False) -> Clients:
        """Return a factory of AWS clients for this target, with the settings of a relay's sends or of producers."""
        return Clients(
            profile=self.profile,
            region=self.region,
            endpoint_url=self.endpoint if self.is_endpoint_typed else None,
            config=relay_config() if for_relay else None,
        )

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a process that is to reach the same account and address."""
        variables = dict(environ)
        if self.profile is not None:
            # boto3 prefers keys in variables to a profile in a variable, but not to one that is typed.
            variables = {name: value for name, value in variables.items() if name not in KEYS}
        if self.endpoint is not None and self.is_endpoint_typed:
            # Both win over AWS_ENDPOINT_URL, as the clients of this command don't let them.
            variables = {name: value for name, value in variables.items() if not name.startswith(ENDPOINTS)}
        chosen = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_PROFILE": self.profile,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
        }
        return variables | {name: value for name, value in chosen.items() if value is not None}

    def deployment(self) -> Deployment:
        """
        Return the lanes of the stack.

        Raises:
            LanesError: the parameter of the stack can't be found or read.

        """
        return read_deployment(self.clients().ssm(), self.stack_name)


def target_of(context: typer.Context) -> Target:
    """Return the target that the global options name."""
    target = context.find_root().obj
    if not isinstance(target, Target):
        raise TypeError("the verb was not called through the lanes command")
    return target
