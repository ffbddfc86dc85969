"""A stack in memory: queues, table and slot table, and the runtime of its consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.config import EngineName
from lanes.config.deployment import Deployment, LaneQueues
from lanes.consumer.runtime import Runtime
from lanes.holds import Holds
from lanes.testing.bell import BELL, MemoryBell, bell_queue
from lanes.testing.calls import Calls
from lanes.testing.followed import MemoryRuns
from lanes.testing.memory import MemoryLedger, MemoryQueues, MemorySlots
from lanes.testing.overrides import MemoryHolds, MemoryOverrides
from lanes.testing.pulled import InLine, PulledQueues

if TYPE_CHECKING:
    from random import Random

    from lanes.config import LanesConfig
    from lanes.consumer.telemetry import Telemetry
    from lanes.testing.clock import FakeClock
    from lanes.testing.journal import Journal

LAST_RESORT = 1000
"""maxReceiveCount of the lanes' queues, as the stack sets it."""


class MemoryStack:
    """
    One deployed stack, with invalid addresses.

    Attributes:
        deployment: its addresses.
        queues: of the lanes.
        ledger: the table.
        bell: the bell's queue, empty for ever in the mapped engine.
        runs: the table of runs, as producers use it.

    """

    def __init__(self, config: LanesConfig, clock: FakeClock, calls: Calls, journal: Journal) -> None:
        self.deployment = deployment_in_memory(config)
        self.queues: MemoryQueues
        if config.consumer.engine is EngineName.PULL:
            self.queues = PulledQueues(config, clock, calls, native=LAST_RESORT, journal=journal)
        else:
            self.queues = MemoryQueues(config, clock, calls, native=LAST_RESORT)
        self.bell = bell_queue(config, clock)
        self._calls = calls
        self.ledger = MemoryLedger(calls)
        self._clock = clock
        self._presence = MemorySlots(calls) if config.consumer.reserved_concurrency > 1 else None
        holds = MemoryHolds(calls)
        self._holds = Holds(holds)
        self._overrides = MemoryOverrides(calls, holds, clock)
        self.runs = MemoryRuns(Calls(), clock)
        self._followed = self.runs.within(calls)

    def new_bell(self, calls: Calls | None = None) -> MemoryBell | None:
        """Return the bell as a new process uses it, a sender's by default; None in the mapped engine."""
        if self.deployment.bell is None:
            return None
        return MemoryBell(self.bell, self.deployment.config, self._clock, calls or Calls())

    def runtime(self, telemetry: Telemetry, random: Random) -> Runtime:
        """Return the runtime of a new process's consumer."""
        return Runtime(
            deployment=self.deployment,
            queues=self.queues,
            ledger=self.ledger,
            presence=self._presence,
            telemetry=telemetry,
            bell=self.new_bell(self._calls),
            beside=InLine(),
            clock=self._clock,
            monotonic=self._clock,
            sleep=self._clock.advance,
            random=random,
            overrides=self._overrides,
            holds=self._holds,
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
