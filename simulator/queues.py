"""The queues as the function sees them, with counts as approximate as AWS's, and the senders that ring the bell."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING

from lanes.bell import BODY, HEARTBEAT, LARGEST_BATCH, maximum_concurrency
from lanes.config import Lane
from lanes.depth import LaneDepth
from lanes.testing.calls import Calls
from lanes.testing.fifo.message import LOOK_AHEAD, GroupOrder
from lanes.testing.queues import BELL, MemoryQueues

if TYPE_CHECKING:
    from random import Random

    from lanes.config import LanesConfig
    from lanes.consumer.records import RawRecord
    from lanes.testing.queues import MemoryBell
    from lanes.testing.world import MemoryStack

    from .parameters import Unknowns
    from .scheduler import Scheduler


SAMPLES = 10
"""Samples taken within the age of counts: ages are right to a tenth."""


class ApproximateQueues(MemoryQueues):
    """
    Queues with counts as approximate as the unknowns say.

    AWS: the counts "may not achieve consistency until at least 1 minute" (API_GetQueueAttributes). It is not
    documented whether they include messages of a group in flight.
    """

    def __init__(
        self,
        config: LanesConfig,
        *,
        scheduler: Scheduler,
        calls: Calls,
        unknowns: Unknowns,
        chance: Random,
        look_ahead: int = LOOK_AHEAD,
    ) -> None:
        numbers = itertools.count(1)
        super().__init__(
            config, scheduler.clock, calls, native=None, new_message_id=lambda: f"sqs-{next(numbers):x}"
        )
        if look_ahead != LOOK_AHEAD or unknowns.group_order is not GroupOrder.OLDEST:
            for queue in self.live.values():
                queue.settings = dataclasses.replace(
                    queue.settings, look_ahead=look_ahead, group_order=unknowns.group_order
                )
        self._scheduler = scheduler
        self._unknowns = unknowns
        self._chance = chance
        self._past: dict[str, deque[tuple[float, LaneDepth]]] = {lane.name: deque() for lane in config.lanes}
        if unknowns.stale:
            self._sample()

    def depth(self, lane: str) -> LaneDepth:
        """Return the counts as AWS might return them."""
        with self.calls.make("GetQueueAttributes"):
            counts = self._aged(lane) if self._unknowns.stale else self._exact(lane)
            if not self._unknowns.noise:
                return counts
            return LaneDepth(backlog=self._wrong(counts.backlog), in_flight=self._wrong(counts.in_flight))

    def receive(self, lane: str, *, maximum: int, visibility: int, wait: int) -> list[RawRecord]:
        """Receive records; a long poll waits for one, and a short poll may miss those that are there."""
        until = self._scheduler.now + wait
        if not wait and self._unknowns.missed_polls and self._chance.random() < self._unknowns.missed_polls:
            with self.calls.make("ReceiveMessage"):
                return []
        received = super().receive(lane, maximum=maximum, visibility=visibility, wait=wait)
        while not received and self._scheduler.now < until:
            self._scheduler.sleep(min(self._unknowns.notice, until - self._scheduler.now))
            if self.live[lane].is_receivable():
                received = self.taken(lane, maximum=maximum, visibility=visibility)
        return received

    def _exact(self, lane: str) -> LaneDepth:
        queue = self.live[lane]
        counts = queue.counts()
        blocked = 0 if self._unknowns.blocked_counted else queue.blocked()
        return LaneDepth(backlog=counts.visible - blocked, in_flight=counts.not_visible)

    def _aged(self, lane: str) -> LaneDepth:
        """Return the last counts that are old enough; before the first ones, the queue was empty."""
        latest = self._scheduler.now - self._unknowns.stale
        past = self._past[lane]
        while len(past) > 1 and past[1][0] <= latest:
            past.popleft()
        known = past and past[0][0] <= latest
        return past[0][1] if known else LaneDepth(backlog=0, in_flight=0)

    def _sample(self) -> None:
        for lane, past in self._past.items():
            past.append((self._scheduler.now, self._exact(lane)))
            if len(past) > SAMPLES + 2:
                past.popleft()
        self._scheduler.after(self._unknowns.stale / SAMPLES, self._sample)

    def _wrong(self, count: int) -> int:
        return max(0, round(count * (1 + self._unknowns.noise * self._chance.uniform(-1, 1))))


SEEDED_EVERY = 60.0
"""Seconds between two heartbeats of the rule; SQS drops those of the same five minutes."""


class SimulatedBell:
    """
    The senders and the rule that ring the bell of one deployment.

    Attributes:
        calls: the senders' calls; they take no time.
        as_lane: the settings of the bell's mapping.

    """

    def __init__(self, stack: MemoryStack, scheduler: Scheduler) -> None:
        self._stack = stack
        self._scheduler = scheduler
        self._sent = Counter[str]()
        self.calls = Calls()
        self._at_senders: MemoryBell | None = None
        self.as_lane = Lane(
            name=BELL,
            batch_size=1,
            visibility_timeout=stack.bell.settings.visibility_timeout,
            maximum_concurrency=maximum_concurrency(stack.config.consumer.reserved_concurrency),
        )

    def deploy(self) -> None:
        """Follow a deploy: senders ring as these lanes say, and heartbeats are sent from now on, or no more."""
        was_seeded, self._at_senders = self._at_senders, self._stack.new_bell(self.calls)
        if was_seeded is None:
            self._seed()

    def ring_for(self, lane: str) -> None:
        """Ring as a sender does, at once, if senders know of the bell; those of one moment send in calls of ten."""
        if lane not in self._sent:
            self._scheduler.after(0.0, partial(self._ring_for, lane))
        self._sent[lane] += 1

    def _ring_for(self, lane: str) -> None:
        messages = min(LARGEST_BATCH, self._sent.pop(lane))
        if self._at_senders is not None:
            self._at_senders.ring_for(lane, messages=messages)

    def _seed(self) -> None:
        if self._at_senders is not None:
            self._stack.bell.send(BODY, group=HEARTBEAT)
            self._stack.on_rung()
            self._scheduler.after(SEEDED_EVERY, self._seed)
