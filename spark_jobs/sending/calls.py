"""The batch calls of a task, addressed by lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.aws.queues.batch_calls import BatchCalls, CallEnded
    from lanes.config.deployment import Deployment

    from ..rows.outgoing import OutgoingRow


class LaneCalls:
    """
    Starts batch calls to lanes and collects their answers.

    Args:
        deployment: The lanes.
        calls: Makes the calls.
    """

    def __init__(self, deployment: Deployment, calls: BatchCalls) -> None:
        self._deployment = deployment
        self._calls = calls

    def lane_for(self, priority: int) -> str:
        """Give the name of the lane for a priority."""
        return self._deployment.config.lane_for(priority).name

    def start(self, lane: str, batch: Sequence[OutgoingRow]) -> int:
        """Start a call and give its number."""
        return self._calls.start(self._deployment.queues[lane].url, batch)

    def ended(self, timeout: float | None) -> Sequence[CallEnded]:
        """Wait for at least one call to end, or for the timeout."""
        return self._calls.ended(timeout)
