"""Inject delays, refusals, lost answers and crashes into the function's calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.errors import AwsError

from .function import Doom

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from lanes.testing.calls import Calls

    from .parameters import Faults, Unknowns
    from .scheduler import Scheduler

SLOW_CALL = 1.0
"""Seconds of a call slowed down by `slow_calls`."""

LEDGER_CALLS = frozenset(
    {"BatchGetItem", "PutItem", "BatchWriteItem", "TransactWriteItems", "Query", "UpdateItem", "DeleteItem"}
)

OUT: Sequence[frozenset[str]] = (
    LEDGER_CALLS,
    frozenset({"DeleteMessageBatch"}),
    frozenset({"ReceiveMessage"}),
    frozenset({"ChangeMessageVisibilityBatch"}),
    frozenset({"SendMessageBatch"}),
    frozenset(),
)
"""Calls that fail together in an outage; the last one is of all calls."""

LONGEST_OUTAGE = 120.0
"""Seconds."""

JUMP_EVERY = 30.0
"""Mean seconds between two jumps of a clock."""


class JumpingClock:
    """A clock that is set to a time near the right one now and then."""

    def __init__(self, scheduler: Scheduler, *, within: float, chance: Random) -> None:
        self._scheduler = scheduler
        self._within = within
        self._chance = chance
        self._wrong_by = 0.0
        self._jumps_at = scheduler.now

    def read(self) -> float:
        """Return epoch seconds."""
        now = self._scheduler.now
        if now >= self._jumps_at:
            self._wrong_by = self._chance.uniform(-self._within, self._within)
            self._jumps_at = now + self._chance.expovariate(1 / JUMP_EVERY)
        return now + self._wrong_by


class Outages:
    """Outages of kinds of calls, one after the other."""

    def __init__(self, scheduler: Scheduler, *, every: float, chance: Random) -> None:
        self._scheduler = scheduler
        self._every = every
        self._chance = chance
        self._calls: frozenset[str] = frozenset()
        self._begins_at = self._ends_at = scheduler.now

    def has(self, operation: str) -> bool:
        """Whether such a call fails now."""
        now, chance = self._scheduler.now, self._chance
        while now >= self._ends_at:
            self._begins_at = self._ends_at + chance.expovariate(1 / self._every)
            self._ends_at = self._begins_at + chance.uniform(1.0, LONGEST_OUTAGE)
            self._calls = chance.choice(OUT)
        return now >= self._begins_at and (not self._calls or operation in self._calls)


class FaultInjector:
    """
    Delay and break calls as often as `Faults` says.

    Args:
        chance: used for nothing else, so a run with a fault differs from one without by that fault alone.

    """

    def __init__(self, faults: Faults, unknowns: Unknowns, *, scheduler: Scheduler, chance: Random) -> None:
        self._faults = faults
        self._unknowns = unknowns
        self._scheduler = scheduler
        self._chance = chance
        every = faults.outages
        self._outages = Outages(scheduler, every=every, chance=chance) if every else None

    def attach(self, calls: Calls) -> None:
        """Inject faults into these calls from now on."""
        calls.takes = self._take
        calls.break_if = self._refuse
        calls.lose_if = self._lose

    def doom(self, mean: float) -> Doom:
        """Decide whether an invocation's process dies: at any time of its work, or just before its answer."""
        if not self._faults.crashes or self._chance.random() >= self._faults.crashes:
            return Doom()
        return Doom(after=self._chance.random() * 2 * mean, before_answer=True)

    def clock(self) -> Callable[[], float]:
        """Return the clock of a new environment."""
        if not self._faults.clock_jumps:
            return self._scheduler.clock
        return JumpingClock(self._scheduler, within=self._faults.clock_jumps, chance=self._chance).read

    def _take(self, operation: str) -> None:
        seconds = self._unknowns.call
        if operation == "ReceiveMessage" and self._unknowns.receive is not None:
            seconds = self._unknowns.receive
        if self._unknowns.call_spread:
            seconds *= self._chance.lognormvariate(0.0, self._unknowns.call_spread)
        if self._faults.slow_calls and self._chance.random() < self._faults.slow_calls:
            seconds = SLOW_CALL
        self._scheduler.sleep(seconds)

    def _refuse(self, operation: str, position: int) -> AwsError | None:  # noqa: ARG002
        faults = self._faults
        if self._outages is not None and self._outages.has(operation):
            return AwsError(operation=operation, code="ServiceUnavailable", retryable=True)
        if faults.call_errors and self._chance.random() < faults.call_errors:
            return AwsError(operation=operation, code="InternalError", retryable=True)
        throttled = faults.ledger_throttled and operation in LEDGER_CALLS
        if throttled and self._chance.random() < faults.ledger_throttled:
            return AwsError(
                operation=operation, code="ProvisionedThroughputExceededException", retryable=True
            )
        return None

    def _lose(self, operation: str, position: int) -> AwsError | None:  # noqa: ARG002
        faults = self._faults
        if faults.lost_answers and self._chance.random() < faults.lost_answers:
            return AwsError(operation=operation, code="ReadTimeoutError", retryable=True, answered=False)
        return None
