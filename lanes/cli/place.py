"""Where a command works: the options that lead every verb to an account or to this machine, and how it prints."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

from lanes.aws.clients import Clients
from lanes.aws.errors import aws_errors
from lanes.aws.parameters import read_deployment

if TYPE_CHECKING:
    import typer

    from lanes.deployment import Deployment

DEFAULT_STACK = "PriorityLanes"


class Output(enum.StrEnum):
    """How a command prints its data."""

    TABLE = "table"
    JSON = "json"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """
    The deployment that a command works on.

    Attributes:
        stage: names the stack `PriorityLanes-STAGE`; empty for `PriorityLanes`.
        stack: name of another stack, which goes before the stage.
        profile: of the AWS configuration; None for the environment's own credentials.
        region: AWS region; None for that of the profile or environment.
        endpoint: address of AWS on this machine; None for AWS.
        output: how data is printed.

    """

    stage: str = ""
    stack: str | None = None
    profile: str | None = None
    region: str | None = None
    endpoint: str | None = None
    output: Output = Output.TABLE

    @property
    def stack_name(self) -> str:
        """The stack whose lanes are meant."""
        return self.stack or (f"{DEFAULT_STACK}-{self.stage}" if self.stage else DEFAULT_STACK)

    def clients(self) -> Clients:
        """Return what makes clients for this place."""
        return Clients(profile=self.profile, region=self.region, endpoint_url=self.endpoint)

    def deployment(self) -> Deployment:
        """
        Return the lanes of the stack.

        Raises:
            LanesError: the stack's parameter can't be found or read.

        """
        with aws_errors("Client"):
            ssm = self.clients().ssm()
        return read_deployment(ssm, self.stack_name)


def place_of(context: typer.Context) -> Place:
    """Return the place that the options before the verb gave."""
    place = context.find_root().obj
    if not isinstance(place, Place):
        raise TypeError("the verb was not called through the lanes command")
    return place
