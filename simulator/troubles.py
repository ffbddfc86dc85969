"""What the function's calls meet: time that passes, refusals, lost answers, and the death of their process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.errors import AwsError

from .function import Doom

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from .kernel import Kernel
    from .memory import Calls
    from .parameters import Faults, Unknowns

SLOW_CALL = 1.0
"""Seconds of a call that `slow_calls` slows down."""

LEDGER_CALLS = frozenset(
    {"BatchGetItem", "PutItem", "BatchWriteItem", "TransactWriteItems", "Query", "UpdateItem", "DeleteItem"}
)


JUMP_EVERY = 30.0
"""Seconds from one jump of a clock to the next, on average."""


class JumpingClock:
    """A clock that is set now and then, to a time near the right one."""

    def __init__(self, kernel: Kernel, *, within: float, chance: Random) -> None:
        self._kernel = kernel
        self._within = within
        self._chance = chance
        self._wrong_by = 0.0
        self._jumps_at = kernel.now

    def read(self) -> float:
        """Return epoch seconds."""
        now = self._kernel.now
        if now >= self._jumps_at:
            self._wrong_by = self._chance.uniform(-self._within, self._within)
            self._jumps_at = now + self._chance.expovariate(1 / JUMP_EVERY)
        return now + self._wrong_by


class Troubles:
    """
    Lets calls take their time and go wrong as often as `Faults` says.

    Args:
        chance: a source of its own, so that a run with a fault differs from one without by that fault alone.

    """

    def __init__(self, faults: Faults, unknowns: Unknowns, *, kernel: Kernel, chance: Random) -> None:
        self._faults = faults
        self._unknowns = unknowns
        self._kernel = kernel
        self._chance = chance

    def attach(self, calls: Calls) -> None:
        """Act on these calls from now on."""
        calls.takes = self._take
        calls.break_if = self._refuse
        calls.lose_if = self._lose

    def doom(self, usual: float) -> Doom:
        """Decide whether an invocation's process dies: at any moment of its work, or right before its answer."""
        if not self._faults.crashes or self._chance.random() >= self._faults.crashes:
            return Doom()
        return Doom(after=self._chance.random() * 2 * usual, before_answer=True)

    def clock(self) -> Callable[[], float]:
        """Return the clock of a new environment."""
        if not self._faults.clock_jumps:
            return self._kernel.clock
        return JumpingClock(self._kernel, within=self._faults.clock_jumps, chance=self._chance).read

    def _take(self, operation: str) -> None:  # noqa: ARG002 - all calls take about the same
        seconds = self._unknowns.call
        if self._unknowns.call_spread:
            seconds *= self._chance.lognormvariate(0.0, self._unknowns.call_spread)
        if self._faults.slow_calls and self._chance.random() < self._faults.slow_calls:
            seconds = SLOW_CALL
        self._kernel.sleep(seconds)

    def _refuse(self, operation: str, position: int) -> AwsError | None:  # noqa: ARG002
        faults = self._faults
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
