"""What is deployed, as a check sees it: the records, and the protocol of what reads them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from lanes.operate.mappings import LaneMapping


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FunctionState:
    """
    A function as it is deployed; without `reserved_concurrency` it shares the account's.

    `architecture` is AWS's word for its processor, `log_group` the name of the group that it logs into.
    """

    name: str
    timeout: timedelta
    memory_mb: int
    variables: Mapping[str, str]
    role_arn: str
    reserved_concurrency: int | None
    architecture: str
    log_group: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """A table as it is deployed; without `expires_by` nothing expires."""

    arn: str
    status: str
    expires_by: str | None
    indexes: Sequence[str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AccountState:
    """Concurrent executions that the account may have in this region, and those that no function reserves."""

    concurrency: int
    unreserved: int


class DeployedState(Protocol):
    """Reads what is deployed; every method raises `AwsError`."""

    def queue(self, url: str) -> Mapping[str, str]:
        """Return all attributes of a queue."""

    def mappings(self, lane: str) -> Sequence[LaneMapping]:
        """Return the mappings on a lane's queue."""

    def function(self, arn: str) -> FunctionState:
        """Return a function."""

    def table(self, name: str) -> TableState:
        """Return a table."""

    def account(self) -> AccountState:
        """Return the account's limits of Lambda."""

    def denied(self, role_arn: str, *, actions: Sequence[str], resource: str) -> Sequence[str]:
        """Return which of the actions a role may not do."""
