"""
One deployed stack in memory: queues, table, bell, producers, and the runtime of a consumer's process.

Your tests, those of this repository and the simulator share it, and differ in time: it passes when a test moves its
clock, one invocation after the other, or with the simulator's events and tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.config import EngineName
from lanes.config.deployment import Deployment, LaneQueues
from lanes.consumer.runtime import Runtime
from lanes.producer import Pacing, Producer
from lanes.schedules import Scheduler
from lanes.testing.calls import Calls, InLine
from lanes.testing.function import SCHEDULER_ROLE_ID
from lanes.testing.queues import BELL, MemoryBell, MemoryQueues, bell_queue
from lanes.testing.table import MemoryLedger, MemoryOverrides, MemoryRuns, MemorySlots

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from lanes.config import LanesConfig
    from lanes.consumer.engines import Beside
    from lanes.consumer.telemetry import Telemetry
    from lanes.overrides import Overrides
    from lanes.priority import PriorityRules
    from lanes.testing.sender import MemoryLater, MemorySender

LAST_RESORT = 1000
"""maxReceiveCount of the lanes' queues, as the stack sets it."""


class MemoryStack:
    """
    One deployed stack, with invalid addresses.

    Args:
        config: the lanes.
        clock: returns the time in epoch seconds.
        sleep: lets seconds pass.
        calls: those of the process that runs the consumer.
        queues: of the lanes.

    Attributes:
        deployment: its addresses.
        ledger: the table.
        slots: the slot table, which a single slot does not use.
        bell: the bell's queue, empty for ever in the mapped engine.
        on_rung: called when a ring may have become visible.
        runs: the table of runs, as producers use it.
        overrides: an operator's, which the consumer reads unless they are None.

    """

    def __init__(
        self,
        config: LanesConfig,
        clock: Callable[[], float],
        calls: Calls,
        queues: MemoryQueues,
        *,
        sleep: Callable[[float], None],
    ) -> None:
        self.config = config
        self.clock = clock
        self.sleep = sleep
        self.calls = calls
        self.queues = queues
        self.deployment = deployment_in_memory(config)
        self.bell = bell_queue(config, clock)
        self.on_rung: Callable[[], None] = lambda: None
        self.ledger = MemoryLedger(calls)
        self.slots = MemorySlots(calls)
        self.overrides: Overrides | None = MemoryOverrides(calls, clock)
        self.runs = MemoryRuns(Calls(), clock)
        self._followed = self.runs.within(calls)

    def new_bell(self, calls: Calls | None = None) -> MemoryBell | None:
        """Return the bell as a new process uses it, a sender's by default; None in the mapped engine."""
        if self.deployment.bell is None:
            return None
        return MemoryBell(self.bell, self.config, self.clock, calls or Calls(), on_visible=self.on_rung)

    def new_producer(
        self,
        sqs: MemorySender,
        *,
        rules: PriorityRules | None = None,
        source: str | None = None,
        jitter: Callable[[], float] = lambda: 0.0,
        later: MemoryLater | None = None,
    ) -> Producer:
        """Return a producer to these lanes, for which time passes only while it waits."""
        return Producer(
            deployment=self.deployment,
            sqs=sqs,
            rules=rules,
            source=source,
            pacing=Pacing(clock=self.clock, pause=self.sleep, jitter=jitter, max_concurrency=1),
            runs=lambda: self.runs,
            later=None if later is None else lambda: later,
            clock=self.clock,
        )

    def runtime(
        self,
        telemetry: Telemetry,
        random: Random,
        *,
        beside: Beside | None = None,
        clock: Callable[[], float] | None = None,
    ) -> Runtime:
        """Return the runtime of a new process's consumer; its clock may be wrong."""
        return Runtime(
            deployment=self.deployment,
            queues=self.queues,
            ledger=self.ledger,
            presence=self.slots if self.config.consumer.reserved_concurrency > 1 else None,
            telemetry=telemetry,
            bell=self.new_bell(self.calls),
            beside=beside or InLine(),
            clock=clock or self.clock,
            monotonic=self.clock,
            sleep=self.sleep,
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
    scheduler = Scheduler(
        group="lanes",
        role_arn="arn:aws:iam::123456789012:role/scheduler",
        role_id=SCHEDULER_ROLE_ID,
        dead_letter_arn="arn:aws:sqs:eu-central-1:123456789012:undelivered",
    )
    return Deployment(config=config, queues=queues, table="ledger", bell=bell, scheduler=scheduler)
