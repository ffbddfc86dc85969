"""What AWS does not document, as parameters with their range, the times that calls take, and what may go wrong."""

from __future__ import annotations

import dataclasses
import enum
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from .backoff import ThrottleBackoff

if TYPE_CHECKING:
    from collections.abc import Mapping


class Winner(enum.StrEnum):
    """Which of the batches that wait for a slot gets the one that becomes free."""

    CHANCE = "chance"  # the one that happens to be tried next
    HIGHEST = "highest"  # at once the one of the highest lane
    LOWEST = "lowest"  # at once the one of the lowest lane
    OLDEST = "oldest"  # at once the one that has waited longest


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unknowns:
    """
    The range of behaviours that a claim has to hold over; the defaults are in the middle of it.

    Attributes:
        backoff: waits of a throttled batch; AWS says only that they grow.
        winner: which throttled batch gets a slot that becomes free; AWS says nothing.
        first_pollers: pollers that a mapping begins with; 0 for its maximum concurrency at once. AWS tells
            numbers for standard queues only: 5, and 300 more a minute.
        ramp: pollers that are added each second while there is more to receive, up to the maximum concurrency.
        poll: seconds of a receive that brings something.
        notice: seconds until an idle poller notices a message.
        invoke: seconds that an invocation takes beside its handler, and as long again to answer.
        delete: seconds after the answer until the done records are deleted.
        call: seconds of a call that the function makes.
        call_spread: how unlike each other those calls are: sigma of a log-normal distribution around `call`.
        stale: age in seconds of the queue counts that the function reads; AWS: up to a minute
            (API_GetQueueAttributes).
        noise: share by which such a count is wrong, up or down.
        blocked_counted: whether messages behind a group in flight count as waiting.
        cold_start: seconds until a new environment runs its first batch.

    """

    backoff: ThrottleBackoff = dataclasses.field(
        default_factory=lambda: ThrottleBackoff(longest=timedelta(seconds=2))
    )
    winner: Winner = Winner.CHANCE
    first_pollers: int = 0
    ramp: float = 5.0
    poll: float = 0.010
    notice: float = 0.020
    invoke: float = 0.007
    delete: float = 0.010
    call: float = 0.008
    call_spread: float = 0.0
    stale: float = 0.0
    noise: float = 0.0
    blocked_counted: bool = True
    cold_start: float = 0.4


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """
    What goes wrong, as shares of all cases; nothing unless set.

    Attributes:
        call_errors: of the function's calls, that AWS refuses without doing anything.
        lost_answers: of the function's calls, that take effect although the function learns of an error.
        slow_calls: of the function's calls, that take a second instead.
        ledger_throttled: of the calls to the ledger's table, that are refused because it is over its capacity.
        crashes: of invocations, in which the process dies somewhere between its start and its answer.
        duplicates: of batches, that the mapping hands to the function twice.
        undeleted: of batches, whose done records are not deleted, so that they are delivered again.
        redeploy_every: seconds from one deployment of the function to the next: every environment is replaced,
            invocations that run are left to end; 0 for none.
        clock_jumps: seconds by which the clock of an environment may be wrong, ahead or behind; it jumps every half
            minute or so.

    """

    call_errors: float = 0.0
    lost_answers: float = 0.0
    slow_calls: float = 0.0
    ledger_throttled: float = 0.0
    crashes: float = 0.0
    duplicates: float = 0.0
    undeleted: float = 0.0
    redeploy_every: float = 0.0
    clock_jumps: float = 0.0


def variants(base: Unknowns) -> Mapping[str, Unknowns]:
    """
    Return the range of what AWS leaves open, one thing changed at a time, by what was changed.

    The first, "as given", is the base itself.
    """

    def capped(seconds: float) -> ThrottleBackoff:
        return dataclasses.replace(base.backoff, longest=timedelta(seconds=seconds))

    changed: dict[str, dict[str, Any]] = {
        "as given": {},
        "backoff up to 0.3 s": {"backoff": capped(0.3)},
        "backoff up to 10 s": {"backoff": capped(10)},
        "highest lane wins slots": {"winner": Winner.HIGHEST},
        "lowest lane wins slots": {"winner": Winner.LOWEST},
        "two pollers, slow ramp": {"first_pollers": 2, "ramp": 0.1},
        "counts 1 s old": {"stale": 1.0},
        "counts 5 s old": {"stale": 5.0},
        "counts wrong by a third": {"noise": 0.34},
        "blocked groups not counted": {"blocked_counted": False},
        "calls of 25 ms, unlike": {"call": 0.025, "call_spread": 0.7},
    }
    return {name: dataclasses.replace(base, **change) for name, change in changed.items()}
