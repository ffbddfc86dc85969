"""
Engines: where records come from, when they give way, and how their outcomes reach the queue.

An engine receives Lambda's event, lets the corridor (`lanes.consumer.batch`) handle each batch, and answers. For each
batch it gives the corridor a `Turn`, which the corridor asks before every record.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lanes.config import Lane
    from lanes.consumer.engines.reserve import Reserve
    from lanes.consumer.outcome import Outcome, Outcomes
    from lanes.consumer.records import PartialBatchResponse, RawRecord


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Proceed:
    """
    The next record may start.

    Attributes:
        reserve: the account that its time is charged to, if it is overdue and served from the reserve.
        may_yield: whether its handler may yield at a checkpoint.
        ages: whether the knowledge of the lanes above ages in calls before its handler, so that it is checked again.

    """

    reserve: Reserve | None = None
    may_yield: bool = True
    ages: bool = False


class Turn(Protocol):
    """One batch's turn with a slot, from its acquisition to the last call for its records."""

    def hold(self, outcomes: Outcomes) -> Collection[str]:
        """Keep the records invisible while they are handled; return the ids of lost ones; raises `AwsError`."""

    def decide(self, rest: Sequence[RawRecord], *, expected: float, has_worked: bool) -> Proceed | Outcome:
        """
        Return whether the first record of the rest may start, or the outcome with which all of the rest yields.

        Args:
            rest: the undecided records of the batch.
            expected: seconds that a record of the lane is likely to take at most.
            has_worked: whether a record of this batch was finished before.

        """

    def checkpoint(self) -> Lane | None:
        """Return the lane that a handler at a checkpoint has to yield to, or None."""

    def yielded(self, rest: Sequence[RawRecord], *, to: Lane | None) -> Outcome:
        """Return the outcome of the rest after the handler of its first record yielded at a checkpoint."""

    def close(self, outcomes: Outcomes) -> None:
        """
        Release the slot at once, settle the outcomes with the queue and the ledger, and wake parked records.

        Called once for each turn, also after an error or an interrupt.
        """


class Engine(Protocol):
    """One way to run a consumer."""

    def run(self, event: Mapping[str, Any], context: Any) -> PartialBatchResponse:
        """Handle one invocation."""

    def work(self, context: Any, *, slot: int) -> float:
        """
        Serve the lanes for one slot of a process, without an event; return the seconds until the next call.

        Raises:
            ConfigurationError: the engine only handles batches of mappings.

        """
