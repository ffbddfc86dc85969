"""What a run comes to: waits by lane, yields, starvation, idle slots, calls, and what a day like this costs."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from lanes.consumer.telemetry import Metric
from lanes.operate.cost import cost_of, gb_seconds, sqs_use, times
from lanes.operate.prices import Item

from .kernel import START
from .letters import data_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.operate.prices import Prices

    from .scenario import Scenario
    from .world import SimulatedLanes

DAY_SECONDS = 86_400


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaneOutcome:
    """
    One lane's figures; waits in seconds from being sent to the handler's first start.

    A message that no handler has begun when the run ends counts with what it has waited so far.

    Attributes:
        standstill: longest time in which messages waited and none of the lane was begun.
        yields: how often one of its messages went back to make way.

    """

    lane: str
    sent: int
    done: int
    dead: int
    left: int
    p50: float
    p90: float
    p99: float
    longest: float
    standstill: float
    yields: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """
    Figures of the whole run.

    Attributes:
        drained: seconds after the last arrival until nothing was left; None where something was.
        busy: share of slot time in which a handler worked.
        idle: share of slot time in which a message might have been begun and no handler worked; see `Meter`.
        invocations: how many.
        throttles: how often a batch found no slot.
        calls: to AWS by the function.
        dollars_a_day: what a day of such arrivals costs, see `use_of`.

    """

    drained: float | None
    busy: float
    idle: float
    invocations: int
    throttles: int
    calls: int
    dollars_a_day: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run."""

    lanes: Sequence[LaneOutcome]
    totals: Totals

    def lane(self, name: str) -> LaneOutcome:
        """Return a lane's figures."""
        return next(one for one in self.lanes if one.lane == name)


def outcome_of(lanes: SimulatedLanes, scenario: Scenario, prices: Prices) -> Outcome:
    """Sum a run up."""
    waits = waits_by_lane(lanes)
    seconds = scenario.duration.total_seconds()
    span = lanes.kernel.now - START
    slots = lanes.config.consumer.reserved_concurrency
    day = times(use_of(lanes), DAY_SECONDS / seconds)
    return Outcome(
        lanes=[_lane_outcome(lanes, lane.name, waits[lane.name]) for lane in lanes.config.lanes],
        totals=Totals(
            drained=None if lanes.left else max(0.0, _last_end(lanes) - START - seconds),
            busy=lanes.meter.worked / (slots * span),
            idle=lanes.meter.idle_share,
            invocations=lanes.function.times.invocations,
            throttles=sum(mapping.throttles for mapping in lanes.mappings.values()),
            calls=sum(lanes.calls.counts.values()),
            dollars_a_day=cost_of(day, prices).dollars,
        ),
    )


def use_of(lanes: SimulatedLanes) -> dict[Item, float]:
    """
    Return what AWS charges the run for: the mappings' and the function's requests, compute time, and the table.

    Left out: what producers send, and polls that bring nothing, since AWS does not tell how often a mapping polls.
    """
    mappings = lanes.mappings.values()
    requests = {
        **lanes.calls.counts,
        "ReceiveMessage": sum(mapping.receives for mapping in mappings),
        "DeleteMessageBatch": sum(mapping.deletes for mapping in mappings),
    }
    sqs = {name: count for name, count in requests.items() if name not in _TABLE_CALLS}
    return {
        **sqs_use(sqs),
        Item.INVOCATIONS: lanes.function.times.invocations,
        Item.COMPUTE_ARM: gb_seconds(lanes.function.times.invoked, lanes.config.consumer.memory_mb),
        Item.WRITES: lanes.ledger.writes + lanes.calls.counts["UpdateItem"],
        Item.READS: lanes.ledger.reads + lanes.calls.counts["GetItem"],
    }


def waits_by_lane(lanes: SimulatedLanes) -> Mapping[str, list[float]]:
    """Return how long messages waited, shortest first; those not begun yet with what they have waited so far."""
    waits = {lane.name: lanes.handled.waits(lane.name) for lane in lanes.config.lanes}
    for name, queue in lanes.queues.live.items():
        unbegun = [
            lanes.kernel.now - lanes.chronicle.sent_at(place)
            for place in (data_of(body)["place"] for body in queue.bodies())
            if not lanes.chronicle.times_begun(place)
        ]
        waits[name] = sorted([*waits[name], *unbegun])
    return waits


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value that a share of all values does not exceed; 0 where there are none."""
    if not ordered:
        return 0.0
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _lane_outcome(lanes: SimulatedLanes, name: str, waits: Sequence[float]) -> LaneOutcome:
    left = lanes.queues.live[name].counts()
    dead = lanes.queues.dead[name].counts().visible
    remaining = left.visible + left.not_visible
    return LaneOutcome(
        lane=name,
        sent=lanes.sent_to[name],
        done=lanes.sent_to[name] - dead - remaining,
        dead=dead,
        left=remaining,
        p50=percentile(waits, 0.5),
        p90=percentile(waits, 0.9),
        p99=percentile(waits, 0.99),
        longest=waits[-1] if waits else 0.0,
        standstill=lanes.meter.standstill(name),
        yields=lanes.tally.by_lane[name][Metric.YIELDED],
    )


def _last_end(lanes: SimulatedLanes) -> float:
    return lanes.handled[len(lanes.handled) - 1].finished_at if len(lanes.handled) else START


_TABLE_CALLS = frozenset(
    {
        "BatchGetItem",
        "BatchWriteItem",
        "DeleteItem",
        "GetItem",
        "PutItem",
        "Query",
        "TransactWriteItems",
        "UpdateItem",
    }
)
