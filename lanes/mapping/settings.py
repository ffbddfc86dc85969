"""The documented settings of an event source mapping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# AWS: BatchSize of a FIFO queue is at most 10 (CreateEventSourceMapping, API reference of Lambda).
MAX_BATCH = 10
# AWS documents no concurrency for a FIFO mapping without maximum concurrency beyond the number of its message groups.
# Five is where the pollers of a standard queue start.
DEFAULT_CONCURRENCY = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingSettings:
    """
    The settings of a mapping that decide about its batches.

    Attributes:
        batch_size: largest number of messages of an invocation.
        maximum_concurrency: batches that may be out of the queue at once; None if it has no such setting.
        enabled: a disabled mapping receives nothing; batches that it has received go on.
        reports_failures: ReportBatchItemFailures; without it, every return of the function is a success.
    """

    batch_size: int = MAX_BATCH
    maximum_concurrency: int | None = None
    enabled: bool = True
    reports_failures: bool = False

    @classmethod
    def from_api(cls, configuration: Mapping[str, Any]) -> MappingSettings:
        """Read an entry of ListEventSourceMappings."""
        return cls(
            batch_size=int(configuration.get("BatchSize", MAX_BATCH)),
            maximum_concurrency=(configuration.get("ScalingConfig") or {}).get("MaximumConcurrency"),
            enabled=configuration.get("State") in {"Enabled", "Enabling"},
            reports_failures="ReportBatchItemFailures" in (configuration.get("FunctionResponseTypes") or ()),
        )

    @property
    def concurrency(self) -> int:
        """
        Batches that may be out of the queue at once.

        # AWS: the number of message groups is a limit as well (Configuring scaling for SQS event source mappings).
        # The queue enforces it: it delivers no message of a group that is in flight.
        """
        return self.maximum_concurrency or DEFAULT_CONCURRENCY

    @property
    def receive_size(self) -> int:
        """Messages to ask for at each receive."""
        return min(self.batch_size, MAX_BATCH)
