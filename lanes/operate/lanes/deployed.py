"""The deployed resources that a check compares, and the protocol to read them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from lanes.operate.history.audit import AuditEntry
    from lanes.operate.lanes.mappings import Mappings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FunctionState:
    """
    A deployed function; without `reserved_concurrency` it shares the account's.

    `version` is the one that the mappings invoke, `log_group` the name of its log group.
    """

    name: str
    timeout: timedelta
    memory_mb: int
    variables: Mapping[str, str]
    role_arn: str
    reserved_concurrency: int | None
    version: str
    log_group: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """A deployed table; without `expires_by` no item expires."""

    arn: str
    status: str
    expires_by: str | None
    indexes: Sequence[str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AccountState:
    """The account's concurrent executions in this region, in total and unreserved."""

    concurrency: int
    unreserved: int


class DeployedState(Protocol):
    """The deployed resources; every method raises `AwsError`."""

    def queue(self, url: str) -> Mapping[str, str]:
        """Return all attributes of a queue."""

    def queues(self, prefix: str) -> Sequence[str]:
        """Return the URLs of the queues with names that begin so."""

    @property
    def mappings(self) -> Mappings:
        """The event source mappings."""

    def switches(self) -> Sequence[AuditEntry]:
        """Return the pauses and resumes of the audit trail, the latest first."""

    def function(self, arn: str) -> FunctionState:
        """Return a function."""

    def newest_version(self, name: str) -> int:
        """Return the newest published version of a function; 0 if there is none."""

    def table(self, name: str) -> TableState:
        """Return a table."""

    def account(self) -> AccountState:
        """Return the account's limits of Lambda."""

    def denied(self, role_arn: str, *, actions: Sequence[str], resource: str) -> Sequence[str]:
        """Return the actions that a role lacks."""
