"""The figures of a run: waits by lane, yields, starvation, idle slots, calls, and the cost of such a day."""

from __future__ import annotations

import dataclasses
import enum
import tomllib
from collections import Counter
from importlib import resources
from typing import TYPE_CHECKING

from lanes.metrics import Metric, percentile
from lanes.testing.clock import START

from .fault_injection import LEDGER_CALLS
from .history import data_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .scenario import Scenario
    from .simulated_lanes import SimulatedLanes


MILLION = 1_000_000


class Item(enum.StrEnum):
    """The items that AWS charges for; the values are the keys of that file."""

    SQS_FIFO = "sqs_fifo_requests"
    SQS_OTHER = "sqs_other_requests"
    INVOCATIONS = "lambda_requests"
    COMPUTE_ARM = "lambda_arm_gb_seconds"
    WRITES = "dynamodb_write_units"
    READS = "dynamodb_read_units"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """
    Prices of one region.

    Attributes:
        region: the AWS region.
        read_on: date of the prices.
        source: source of the prices.
        dollars: US dollars for a million of each item, as the price pages of AWS state them.
    """

    region: str
    read_on: str
    source: str
    dollars: Mapping[Item, float]

    def cost(self, use: Mapping[Item, float], *, times: float = 1.0) -> float:
        """
        Return the cost of some use in US dollars, without free tier and discounts.

        Args:
            use: the amount of each item; missing items are not used.
            times: so often, such as a thousand times for a million messages from the use of a thousand.

        Example:
            >>> use = {Item.SQS_FIFO: 300_000, Item.INVOCATIONS: 100_000, Item.COMPUTE_ARM: 5_000}
            >>> round(read_prices().cost(use), 2)
            0.24
        """
        return sum(use.get(item, 0) * times * self.dollars[item] / MILLION for item in Item)


def read_prices() -> Prices:
    """Read the simulator's prices."""
    raw = tomllib.loads(resources.files(__package__).joinpath("prices.toml").read_text("utf-8"))
    return Prices(
        region=raw["region"],
        read_on=str(raw["read_on"]),
        source=raw["source"],
        dollars={Item(key): float(value) for key, value in raw["dollars"].items()},
    )


DAY_SECONDS = 86_400
MEGABYTES_A_GIGABYTE = 1024
# AWS: send, receive, delete and change of visibility on a FIFO queue have a price of their own; a batch call is one
# request of up to 64 KB (Amazon SQS pricing).
FIFO_CALLS = frozenset(
    {
        "SendMessage",
        "SendMessageBatch",
        "ReceiveMessage",
        "DeleteMessage",
        "DeleteMessageBatch",
        "ChangeMessageVisibility",
        "ChangeMessageVisibilityBatch",
    }
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaneOutcome:
    """
    One lane's figures; waits in seconds from the send to the handler's first start.

    A message without a start counts with its wait until the end of the run.

    Attributes:
        standstill: longest time in which messages of the lane waited and none was started.
        yields: number of yielded records.

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
        drained: seconds from the last arrival until no message was left; None if some were.
        busy: share of slot time with a running handler.
        idle: share of slot time with a startable message and no running handler; see `Meter`.
        invocations: their number.
        throttles: number of tries without a free slot.
        rings: number of rings that the pull engine received; 0 with the other engine.
        refused: number of calls that found the resource away.
        calls: to AWS by the function.
        dollars_a_day: cost of a day of such arrivals, see `use_of`.

    """

    drained: float | None
    busy: float
    idle: float
    invocations: int
    throttles: int
    rings: int
    refused: int
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
    """Return the figures of a run."""
    waits = waits_by_lane(lanes)
    seconds = scenario.duration.total_seconds()
    span = lanes.scheduler.now - START
    slots = lanes.config.consumer.reserved_concurrency
    return Outcome(
        lanes=[_lane_outcome(lanes, lane.name, waits[lane.name]) for lane in lanes.config.lanes],
        totals=Totals(
            drained=None if lanes.left else max(0.0, _last_end(lanes) - START - seconds),
            busy=lanes.meter.worked / (slots * span),
            idle=lanes.meter.idle_share,
            invocations=lanes.function.times.invocations,
            throttles=sum(mapping.throttles for mapping in (*lanes.mappings.values(), lanes.bell_mapping)),
            rings=lanes.bell_mapping.receives,
            refused=lanes.refused,
            calls=sum(lanes.calls.counts.values()),
            dollars_a_day=prices.cost(use_of(lanes), times=DAY_SECONDS / seconds),
        ),
    )


def use_of(lanes: SimulatedLanes) -> dict[Item, float]:
    """
    Return the billed use of a run: requests of mappings and function, rings, compute time, and the table.

    Left out: the producers' other requests, and empty polls of mappings: AWS does not document how often they poll.
    """
    requests = queue_requests(lanes)
    fifo = sum(requests[name] for name in FIFO_CALLS)
    return {
        Item.SQS_FIFO: fifo,
        Item.SQS_OTHER: requests.total() - fifo,
        Item.INVOCATIONS: lanes.function.times.invocations,
        # In GB-seconds: gigabytes of configured memory times seconds.
        Item.COMPUTE_ARM: lanes.function.times.invoked
        * lanes.config.consumer.memory_mb
        / MEGABYTES_A_GIGABYTE,
        Item.WRITES: lanes.ledger.writes + lanes.calls.counts["UpdateItem"],
        Item.READS: lanes.ledger.reads + lanes.calls.counts["GetItem"],
    }


def queue_requests(lanes: SimulatedLanes) -> Counter[str]:
    """Return the billed requests to the queues by operation, under any pattern."""
    requests = Counter(
        {name: count for name, count in lanes.calls.counts.items() if name not in _TABLE_CALLS}
    )
    requests += lanes.senders.calls.counts
    for mapping in (*lanes.mappings.values(), lanes.bell_mapping):
        requests["ReceiveMessage"] += mapping.receives
        requests["DeleteMessageBatch"] += mapping.deletes
    return requests


def waits_by_lane(lanes: SimulatedLanes) -> Mapping[str, list[float]]:
    """Return the waits of messages, shortest first; those without a start count with their wait so far."""
    history, now = lanes.history, lanes.scheduler.now
    waits = {lane.name: lanes.handled.waits(lane.name) for lane in lanes.config.lanes}
    for name, queue in lanes.queues.live.items():
        undone = [
            (history.first_begun_at(place) or now) - history.sent_at(place)
            for place in (data_of(body)["place"] for body in queue.bodies())
            if not history.times_done(place)
        ]
        waits[name] = sorted([*waits[name], *undone])
    return waits


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


_TABLE_CALLS = LEDGER_CALLS | {"GetItem"}
