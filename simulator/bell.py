"""The bell in virtual time: rung by senders, by slots, and by the rule that seeds its heartbeat."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from lanes.bell import BODY, HEARTBEAT, LARGEST_BATCH, maximum_concurrency
from lanes.config import Lane
from lanes.testing.calls import Calls
from lanes.testing.queues import BELL

if TYPE_CHECKING:
    from lanes.testing.queues import MemoryBell
    from lanes.testing.world import MemoryStack

    from .scheduler import Scheduler

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
