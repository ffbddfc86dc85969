"""The deployed resources that a check compares, and the protocol to read them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.operate.history.audit import AuditEntry
    from lanes.operate.lanes.mappings import Mappings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FunctionState:
    """
    A deployed function; without `reserved_concurrency` it shares the account's.

    `log_group` is the name of its log group.
    """

    variables: Mapping[str, str]
    reserved_concurrency: int | None
    log_group: str


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
