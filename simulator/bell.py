"""The bell in virtual time: rung by senders, by slots, and by the rule that seeds its heartbeat."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from lanes.bell import BODY, HEARTBEAT, LARGEST_BATCH, maximum_concurrency
from lanes.config import EngineName, Lane
from lanes.testing.bell import BELL, MemoryBell, bell_queue
from lanes.testing.calls import Calls

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.config import LanesConfig

    from .scheduler import Scheduler

SEEDED_EVERY = 60.0
"""Seconds between two heartbeats of the rule; SQS drops those of the same five minutes."""


class SimulatedBell:
    """
    The bell of one deployment.

    Attributes:
        queue: its queue.
        of_senders: the senders' calls to it; they take no time.
        as_lane: its mapping's settings.
        on_visible: called when a ring may have become visible.

    """

    def __init__(self, scheduler: Scheduler, config: LanesConfig) -> None:
        self._scheduler = scheduler
        self._is_seeded = False
        self._sent = Counter[str]()
        self.queue = bell_queue(config, scheduler.clock)
        self.as_lane = Lane(
            name=BELL,
            batch_size=1,
            visibility_timeout=self.queue.settings.visibility_timeout,
            maximum_concurrency=maximum_concurrency(config.consumer.reserved_concurrency),
        )
        self.on_visible: Callable[[], None] = lambda: None
        self.of_senders = Calls()
        self._at_senders = self.of_environment(config, self.of_senders)

    def deploy(self, config: LanesConfig) -> None:
        """Follow a deploy: senders ring as these lanes say, and heartbeats are sent from now on, or no more."""
        self._at_senders = self.of_environment(config, self.of_senders)
        was_seeded, self._is_seeded = self._is_seeded, config.consumer.engine is EngineName.PULL
        if self._is_seeded and not was_seeded:
            self._seed()

    def of_environment(self, config: LanesConfig, calls: Calls) -> MemoryBell:
        """Return the bell as one process uses it."""
        return MemoryBell(self.queue, config, self._scheduler.clock, calls, on_visible=self.on_change)

    def on_change(self) -> None:
        """Tell the mapping."""
        self.on_visible()

    def ring_for(self, lane: str) -> None:
        """Ring as a sender does, at once, if senders know of the bell; those of one moment send in calls of ten."""
        if lane not in self._sent:
            self._scheduler.after(0.0, partial(self._ring_for, lane))
        self._sent[lane] += 1

    def _ring_for(self, lane: str) -> None:
        messages = min(LARGEST_BATCH, self._sent.pop(lane))
        if self._is_seeded:
            self._at_senders.ring_for(lane, messages=messages)

    def _seed(self) -> None:
        if self._is_seeded:
            self.queue.send(BODY, group=HEARTBEAT)
            self.on_visible()
            self._scheduler.after(SEEDED_EVERY, self._seed)
