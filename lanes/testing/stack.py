"""A stack in memory: queues, table and slot table, and the runtime of its consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.config.deployment import Deployment, LaneQueues
from lanes.consumer.runtime import Runtime
from lanes.testing.memory import MemoryLedger, MemoryQueues, MemorySlots
from lanes.testing.overrides import MemoryHolds, MemoryOverrides

if TYPE_CHECKING:
    from random import Random

    from lanes.config import LanesConfig
    from lanes.consumer.telemetry import Telemetry
    from lanes.testing.clock import FakeClock
    from lanes.testing.memory import Calls

LAST_RESORT = 1000
"""maxReceiveCount of the lanes' queues, as the stack sets it."""


class MemoryStack:
    """One deployed stack, with invalid addresses."""

    def __init__(self, config: LanesConfig, clock: FakeClock, calls: Calls) -> None:
        self.deployment = deployment_in_memory(config)
        self.queues = MemoryQueues(config, clock, calls, native=LAST_RESORT)
        self.ledger = MemoryLedger(calls)
        self._clock = clock
        self._presence = MemorySlots(calls) if config.consumer.reserved_concurrency > 1 else None
        self._holds = MemoryHolds(calls)
        self._overrides = MemoryOverrides(calls, self._holds, clock)

    def runtime(self, telemetry: Telemetry, random: Random) -> Runtime:
        """Return the runtime of a new process's consumer."""
        return Runtime(
            deployment=self.deployment,
            queues=self.queues,
            ledger=self.ledger,
            presence=self._presence,
            telemetry=telemetry,
            clock=self._clock,
            random=random,
            overrides=self._overrides,
            holds=self._holds,
        )


def deployment_in_memory(config: LanesConfig) -> Deployment:
    """Return a deployment with invalid addresses."""
    queues = {
        lane.name: LaneQueues(
            url=f"https://sqs.invalid/{lane.name}.fifo",
            dead_letter_url=f"https://sqs.invalid/{lane.name}-dead.fifo",
        )
        for lane in config.lanes
    }
    return Deployment(config=config, queues=queues, table="ledger")
