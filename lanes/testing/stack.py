"""What a stack has, in memory: queues, table and register, and the surroundings of its consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.consumer.consumer import Surroundings
from lanes.consumer.slots import SingleSlot
from lanes.deployment import Deployment, LaneQueues
from lanes.testing.memory import MemoryLedger, MemoryQueues, MemoryRegister
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
    """One deployed stack, with addresses that lead nowhere."""

    def __init__(self, config: LanesConfig, clock: FakeClock, calls: Calls) -> None:
        self.deployment = deployment_in_memory(config)
        self.queues = MemoryQueues(config, clock, calls, native=LAST_RESORT)
        self.ledger = MemoryLedger(calls)
        self._clock = clock
        self._register = SingleSlot() if config.consumer.reserved_concurrency == 1 else MemoryRegister(calls)
        self._holds = MemoryHolds(calls)
        self._overrides = MemoryOverrides(calls, self._holds, clock)

    def surroundings(self, telemetry: Telemetry, random: Random) -> Surroundings:
        """Return what the consumer of a new process touches."""
        return Surroundings(
            deployment=self.deployment,
            queues=self.queues,
            ledger=self.ledger,
            register=self._register,
            telemetry=telemetry,
            clock=self._clock,
            random=random,
            overrides=self._overrides,
            holds=self._holds,
        )


def deployment_in_memory(config: LanesConfig) -> Deployment:
    """Return a deployment whose addresses lead nowhere."""
    queues = {
        lane.name: LaneQueues(
            url=f"https://sqs.invalid/{lane.name}.fifo",
            dead_letter_url=f"https://sqs.invalid/{lane.name}-dead.fifo",
        )
        for lane in config.lanes
    }
    return Deployment(config=config, queues=queues, table="ledger")
