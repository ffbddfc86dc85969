"""Undocumented behaviour of AWS as parameters with a range, the duration of calls, and faults."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes.mapping.rules import Scaling, ThrottleBackoff, Winner
from lanes.testing.fifo.message import GroupOrder

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unknowns:
    """
    The behaviour that AWS leaves open; a claim must hold over the whole range. The defaults are in its middle.

    Attributes:
        backoff: waits of a throttled batch; AWS says only that they grow.
        winner: which throttled batch gets a slot that becomes free; AWS says nothing.
        first_pollers: pollers of a new mapping; 0 for its maximum concurrency at once. AWS gives numbers for standard
            queues only: 5, and 300 more a minute.
        throttles_shrink: whether throttles reduce the pollers, as AWS documents without numbers; see `Scaling`.
        ramp: pollers added each second while there is more to receive, up to the maximum concurrency.
        poll: seconds of a receive with messages.
        notice: seconds until an idle poller notices a message.
        invoke: seconds from the mapping to the handler, and again for the answer.
        delete: seconds from the answer to the deletion of the done records.
        call: seconds of a call from the function to AWS.
        call_spread: sigma of a log-normal distribution of these calls around `call`.
        stale: age in seconds of the queue counts when the function reads them; AWS: up to a minute
            (API_GetQueueAttributes).
        noise: largest relative error of such a count, up or down.
        blocked_counted: whether messages behind a group in flight count as visible.
        cold_start: seconds until a new environment runs its first batch.
        group_order: order in which groups are received; see `lanes.testing.fifo.message.GroupOrder`.
        receive: seconds of a receive of the function; None for `call`.
        missed_polls: share of short polls that miss the messages of a queue. AWS: a short poll asks a subset of the
            servers (Amazon SQS short and long polling).

    """

    backoff: ThrottleBackoff = dataclasses.field(
        default_factory=lambda: ThrottleBackoff(longest=timedelta(seconds=2))
    )
    winner: Winner = Winner.CHANCE
    first_pollers: int = 0
    ramp: float = 5.0
    throttles_shrink: bool = False
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
    group_order: GroupOrder = GroupOrder.OLDEST
    receive: float | None = None
    missed_polls: float = 0.0

    @property
    def scaling(self) -> Scaling:
        """How a mapping comes to its concurrency."""
        return Scaling(first=self.first_pollers, per_second=self.ramp, shrinks=self.throttles_shrink)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """
    Faults, as shares of all cases; 0 by default.

    Attributes:
        call_errors: calls of the function that AWS refuses without an effect.
        lost_answers: calls of the function that take effect but return an error.
        slow_calls: calls of the function that take a second.
        ledger_throttled: calls to the ledger's table that are refused because it is over its capacity.
        crashes: invocations with a process that dies between its start and its answer.
        duplicates: batches that the mapping delivers twice.
        undeleted: batches with done records that are not deleted, and so delivered again.
        redeploy_every: seconds between two deployments of the function. Each replaces all environments; running
            invocations may end. 0 for none.
        clock_jumps: largest error in seconds of an environment's clock, ahead or behind; it jumps about every half
            minute.
        outages: mean seconds between two outages of one kind of call, or of all calls; each lasts up to two minutes.
            0 for none.

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
    outages: float = 0.0


def variants(base: Unknowns) -> Mapping[str, Unknowns]:
    """
    Return the range of the behaviour that AWS leaves open: one change at a time, by its description.

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
        "throttles shrink concurrency": {"throttles_shrink": True},
        "counts 1 s old": {"stale": 1.0},
        "counts 5 s old": {"stale": 5.0},
        "counts wrong by a third": {"noise": 0.34},
        "blocked groups not counted": {"blocked_counted": False},
        "calls of 25 ms, spread": {"call": 0.025, "call_spread": 0.7},
        "groups in turn": {"group_order": GroupOrder.TURN},
        "returned groups at the back": {"group_order": GroupOrder.BACK},
        "short polls miss 1 in 10": {"missed_polls": 0.1},
        "short polls miss 1 in 3": {"missed_polls": 1 / 3},
        "receives of 25 ms": {"receive": 0.025, "poll": 0.025},
    }
    return {name: dataclasses.replace(base, **change) for name, change in changed.items()}


def all_variants(base: Unknowns) -> Mapping[str, Unknowns]:
    """
    Return the range, and a throttled batch that is dropped until its visibility timeout ends, in two orders of groups.

    AWS documents that Lambda retries such a batch (see `ThrottleBackoff`), so no plan has to tolerate that.
    """
    dropped = dataclasses.replace(base, backoff=dataclasses.replace(base.backoff, retries=False))
    return {
        **variants(base),
        "throttled batches dropped": dropped,
        "dropped, groups at the back": dataclasses.replace(dropped, group_order=GroupOrder.BACK),
    }
