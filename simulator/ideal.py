"""The bound of all consumers: slots that always know the most urgent message and need no time to get it."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, NamedTuple

from .history import Handled, HandledLog
from .scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.config import LanesConfig


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
