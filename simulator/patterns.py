"""
What the consumer is compared with: the plain pattern, and the ideal.

The plain pattern is the first published description of priority queues on Lambda. It reads the higher queues before
each record, counts messages in any state, leaves the visibility timeout alone (SQS's default), takes records one by
one, and has no dead-letter queue. Where it has several slots, it yields to a queue if one of its two counts exceeds
them. Added here: the maximum concurrency of our mappings, without which most of its calls are throttled, and larger
batches, of which it returns everything from the first record that yields, as SQS asks for (Lambda developer guide,
"Implementing partial batch responses").

The ideal are lanes whose slots always know the most urgent message and need no time to get it.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections import Counter, defaultdict, deque
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from lanes.config import EngineName, LanesConfig

from .history import Handled, HandledLog
from .scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.consumer.engines.check import DepthReader


VISIBILITY = timedelta(seconds=30)
"""Of the plain pattern's queues: that of SQS by default, for which a yielded record is away."""


def as_published(config: LanesConfig, *, batch: int = 1) -> LanesConfig:
    """Return the lanes with the pattern's own queues and mappings."""
    lanes = [
        dataclasses.replace(lane, batch_size=batch, visibility_timeout=VISIBILITY)
        for lane in without_shares(config).lanes
    ]
    return dataclasses.replace(config, lanes=tuple(lanes))


def without_shares(config: LanesConfig) -> LanesConfig:
    """Return the lanes with the defaults of mappings that share no slots, each with a whole batch."""
    if not config.serves_in_place:
        return config
    document = config.to_dict(brief=True)
    document["consumer"]["engine"] = EngineName.PULL.value
    return dataclasses.replace(LanesConfig.from_dict(document), consumer=config.consumer)


class PlainConsumer:
    """
    Check and yield like the plain pattern.

    Args:
        config: the lanes.
        depths: reads the queues.
        lane_of: returns the lane's name for the ARN of its queue.
        work: handles one record: lane, group, body.
        yields: False never reads the other queues: no priority at all.
        count_yields: called with the lane and its number of yielded records.

    """

    def __init__(
        self,
        *,
        config: LanesConfig,
        depths: DepthReader,
        lane_of: Callable[[str], str],
        work: Callable[[str, str, str], None],
        yields: bool,
        count_yields: Callable[[str, int], None] = lambda _lane, _count: None,
    ) -> None:
        self._config = config
        self._depths = depths
        self._lane_of = lane_of
        self._work = work
        self._yields = yields
        self._count_yields = count_yields

    def handle(self, event: Mapping[str, Any], context: object) -> dict[str, Any]:  # noqa: ARG002
        """Handle a batch up to the first record that yields or fails."""
        records = event["Records"]
        lane = self._config.lane(self._lane_of(records[0]["eventSourceARN"]))
        for position, record in enumerate(records):
            if self._yields and self._must_yield(lane.name):
                self._count_yields(lane.name, len(records) - position)
                return _kept(records[position:])
            try:
                self._work(lane.name, record["attributes"]["MessageGroupId"], record["body"])
            except Exception:  # noqa: BLE001 - like the pattern: any failure is returned
                return _kept(records[position:])
        return _kept([])

    def _must_yield(self, lane: str) -> bool:
        slots = self._config.consumer.reserved_concurrency
        most = slots if slots > 1 else 0
        above = (self._depths.depth(one.name) for one in self._config.lanes_above(self._config.lane(lane)))
        return any(depth.backlog > most or depth.in_flight > most for depth in above)


def _kept(records: list[Mapping[str, Any]]) -> dict[str, Any]:
    return {"batchItemFailures": [{"itemIdentifier": record["messageId"]} for record in records]}


class Waiting(NamedTuple):
    """A message that waits; `number` is its place in its group, `place` the one among all messages."""

    place: int
    number: int
    sent_at: float
    seconds: float


class IdealLanes:
    """
    Lanes without latency and calls, to send a load to like `SimulatedLanes`.

    A free slot takes the oldest message of the highest lane of those in groups without a running message. A running
    handler is not interrupted.

    Args:
        config: the lanes.
        one_queue: whether one queue holds all messages, so that a free slot takes the oldest of any lane.

    Attributes:
        handled: the handled messages, by the end of their handlers.
        sent_to: number of messages sent to each lane.

    """

    def __init__(self, config: LanesConfig, *, one_queue: bool = False) -> None:
        self.config = config
        self.scheduler = Scheduler()
        self.handled = HandledLog()
        self.sent_to: Counter[str] = Counter()
        self._free = config.consumer.reserved_concurrency
        self._groups: defaultdict[tuple[str, str], deque[Waiting]] = defaultdict(deque)
        self._numbers: Counter[tuple[str, str]] = Counter()
        shared: list[tuple[int, str, str]] = []
        self._ready = {lane.name: shared if one_queue else [] for lane in config.lanes}
        self._running: set[tuple[str, str]] = set()
        self._starting = False

    @property
    def sent(self) -> int:
        """Number of messages sent."""
        return self.sent_to.total()

    def send(self, lane: str, *, group: str, seconds: float, fault: str = "") -> None:
        """
        Send a message with this handler time.

        Raises:
            ValueError: a fault was asked for; nothing fails here.

        """
        if fault:
            raise ValueError(f"the ideal has no faults, so not {fault!r}")
        key = (lane, group)
        self._numbers[key] += 1
        self.sent_to[lane] += 1
        one = Waiting(self.sent, self._numbers[key], self.scheduler.now, seconds)
        self._groups[key].append(one)
        if len(self._groups[key]) == 1 and key not in self._running:
            heapq.heappush(self._ready[lane], (one.place, lane, group))
        self._start_soon()

    def run(self, *, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass; return whether `until` became true."""
        return self.scheduler.run(seconds=seconds, until=until)

    def _start_soon(self) -> None:
        """Start messages after all sends of this moment, so that the most urgent of them is first."""
        if self._free and not self._starting:
            self._starting = True
            self.scheduler.after(0.0, self._start)

    def _start(self) -> None:
        self._starting = False
        for ready in self._ready.values():
            while self._free and ready:
                _, lane, group = heapq.heappop(ready)
                self._begin(lane, group)

    def _begin(self, lane: str, group: str) -> None:
        key = (lane, group)
        one = self._groups[key].popleft()
        self._free -= 1
        self._running.add(key)
        started = self.scheduler.now

        def end() -> None:
            self._free += 1
            self._running.remove(key)
            self.handled.append(
                Handled(lane, group, one.number, one.sent_at, started, started, self.scheduler.now)
            )
            if self._groups[key]:
                heapq.heappush(self._ready[lane], (self._groups[key][0].place, lane, group))
            self._start_soon()

        self.scheduler.after(one.seconds, end)
