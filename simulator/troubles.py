"""What the function's calls meet: time that passes, refusals, lost answers, and the death of their process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.errors import AwsError

from .function import Doom

if TYPE_CHECKING:
    from random import Random

    from .kernel import Kernel
    from .memory import Calls
    from .parameters import Faults, Unknowns

SLOW_CALL = 1.0
"""Seconds of a call that `slow_calls` slows down."""

LEDGER_CALLS = frozenset(
    {"BatchGetItem", "PutItem", "BatchWriteItem", "TransactWriteItems", "Query", "UpdateItem", "DeleteItem"}
)


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
