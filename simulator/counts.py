"""The queues as the function sees them: counts may be old or wrong, and polls may miss messages."""

from __future__ import annotations

import dataclasses
import itertools
from collections import deque
from typing import TYPE_CHECKING

from lanes.depth import LaneDepth
from lanes.testing.fifo.message import LOOK_AHEAD, GroupOrder
from lanes.testing.queues import MemoryQueues

if TYPE_CHECKING:
    from random import Random

    from lanes.config import LanesConfig
    from lanes.consumer.records import RawRecord
    from lanes.testing.calls import Calls

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
