"""A stack in memory: queues, table and slot table, and the runtime of its consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.config import EngineName
from lanes.config.deployment import Deployment, LaneQueues
from lanes.consumer.runtime import Runtime
from lanes.testing.bell import BELL, MemoryBell, bell_queue
from lanes.testing.calls import Calls
from lanes.testing.followed import MemoryRuns
from lanes.testing.memory import MemoryLedger, MemoryQueues, MemorySlots
from lanes.testing.overrides import MemoryOverrides
from lanes.testing.pulled import InLine

if TYPE_CHECKING:
    from random import Random

    from lanes.config import LanesConfig
    from lanes.consumer.engines import Beside
    from lanes.consumer.telemetry import Telemetry
    from lanes.testing.clock import FakeClock

LAST_RESORT = 1000
"""maxReceiveCount of the lanes' queues, as the stack sets it."""


class MemoryStack:
    """
    One deployed stack, with invalid addresses.

    Args:
        config: the lanes.
        clock: the time.
        calls: those of the process that runs the consumer.
        queues: of the lanes.

    Attributes:
        deployment: its addresses.
        ledger: the table.
        slots: the slot table, which a single slot does not use.
        bell: the bell's queue, empty for ever in the mapped engine.
        runs: the table of runs, as producers use it.
        overrides: an operator's, which the consumer reads.

    """

    def __init__(self, config: LanesConfig, clock: FakeClock, calls: Calls, queues: MemoryQueues) -> None:
        self.config = config
        self.clock = clock
        self.calls = calls
        self.queues = queues
        self.deployment = deployment_in_memory(config)
        self.bell = bell_queue(config, clock)
        self.ledger = MemoryLedger(calls)
        self.slots = MemorySlots(calls)
        self.overrides = MemoryOverrides(calls, clock)
        self.runs = MemoryRuns(Calls(), clock)
        self._followed = self.runs.within(calls)

    def new_bell(self, calls: Calls | None = None) -> MemoryBell | None:
        """Return the bell as a new process uses it, a sender's by default; None in the mapped engine."""
        if self.deployment.bell is None:
            return None
        return MemoryBell(self.bell, self.config, self.clock, calls or Calls())

    def runtime(self, telemetry: Telemetry, random: Random, *, beside: Beside | None = None) -> Runtime:
        """Return the runtime of a new process's consumer."""
        return Runtime(
            deployment=self.deployment,
            queues=self.queues,
            ledger=self.ledger,
            presence=self.slots if self.config.consumer.reserved_concurrency > 1 else None,
            telemetry=telemetry,
            bell=self.new_bell(self.calls),
            beside=beside or InLine(),
            clock=self.clock,
            monotonic=self.clock,
            sleep=self.clock.advance,
            random=random,
            overrides=self.overrides,
            runs=lambda: self._followed,
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
    bell = f"https://sqs.invalid/{BELL}.fifo" if config.consumer.engine is EngineName.PULL else None
    return Deployment(config=config, queues=queues, table="ledger", bell=bell)
