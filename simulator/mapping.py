"""Event source mappings in virtual time: pollers that receive, try the function, back off, and delete."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lanes.mapping.rules import handled
from lanes.testing.mapping import deleted, rules_of

from .parameters import Faults

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from lanes.config import Lane
    from lanes.mapping.answer import Verdict
    from lanes.mapping.rules import Batch
    from lanes.testing.fifo.message import ReceivedMessage
    from lanes.testing.fifo.queue import FifoQueue

    from .function import SimulatedFunction
    from .parameters import Unknowns
    from .scheduler import Scheduler

RAMP_EVERY = 1.0
"""Seconds between two looks at whether more pollers are needed."""

_PLACED = -1


class SimulatedMapping:
    """
    The mapping of one lane, after the rules of `lanes.mapping`.

    A poller is one unit of concurrency. Without work, pollers sleep until the queue has something.
    """

    def __init__(
        self,
        lane: Lane,
        *,
        queue: FifoQueue,
        function: SimulatedFunction,
        scheduler: Scheduler,
        unknowns: Unknowns,
        chance: Random,
        faults: Faults | None = None,
        enabled: bool = True,
    ) -> None:
        self._lane = lane
        self._queue = queue
        self._function = function
        self._scheduler = scheduler
        self._unknowns = unknowns
        self._chance = chance
        self._faults = faults or Faults()
        self._idle = 0
        self._alarm_at = float("inf")
        self._ramping = False
        self._rules = rules_of(
            lane, random=chance, enabled=enabled, backoff=unknowns.backoff, scaling=unknowns.scaling
        )
        self.throttles = 0
        self.receives = 0
        self.deletes = 0
        for _ in range(self._rules.concurrency):
            self._add_poller()

    @property
    def pollers(self) -> int:
        """How many batches it may have at once by now."""
        return self._rules.concurrency

    def notice(self) -> None:
        """Wake idle pollers after something was sent, deleted, or made visible."""
        if not self._idle or not self._rules.settings.enabled:
            return
        if not self._queue.is_receivable():
            self._set_alarm()
            return
        woken, self._idle = self._idle, 0
        for _ in range(woken):
            self._scheduler.after(self._unknowns.notice * self._chance.random(), self._poll)

    def deploy(self, *, enabled: bool, maximum_concurrency: int) -> None:
        """Follow a deploy: a disabled mapping receives nothing more, but places the batches that it has."""
        settings = dataclasses.replace(
            self._rules.settings, enabled=enabled, maximum_concurrency=maximum_concurrency
        )
        before = self._rules.concurrency
        self._rules.update(settings, visibility_timeout=self._lane.visibility_timeout)
        for _ in range(self._rules.concurrency - before):
            self._add_poller()
        self.notice()

    def _ramp_soon(self) -> None:
        if not self._ramping and self._rules.can_scale:
            self._ramping = True
            self._scheduler.after(RAMP_EVERY, self._ramp)

    def _add_poller(self) -> None:
        self._scheduler.after(self._chance.random() * self._unknowns.notice, self._poll)

    def _ramp(self) -> None:
        """Add pollers while all are busy and there is more to receive."""
        self._ramping = False
        if self._idle or not self._queue.is_receivable():
            return
        for _ in range(self._rules.scale(RAMP_EVERY)):
            self._add_poller()
        self._ramp_soon()

    def _poll(self) -> None:
        # Refused only after a deploy: each poller is one unit of concurrency.
        if not self._rules.start():
            self._idle += self._rules.settings.enabled is False
            return
        messages = self._queue.receive(self._rules.settings.receive_size)
        if not messages:
            self._rules.finish()
            self._idle += 1
            self._set_alarm()
            return
        self.receives += 1
        self._ramp_soon()
        batch = self._rules.take(messages, now=self._scheduler.now)
        self._scheduler.after(self._unknowns.poll, lambda: self._try(batch))

    def _set_alarm(self) -> None:
        """Look again when the queue says that something will become visible."""
        moment = self._queue.next_event_at()
        if moment is None or moment >= self._alarm_at:
            return
        self._alarm_at = moment
        self._scheduler.after(max(0.0, moment - self._scheduler.now), self._alarm)

    def _alarm(self) -> None:
        if self._scheduler.now >= self._alarm_at:
            self._alarm_at = float("inf")
        self.notice()

    def _try(self, batch: Batch[ReceivedMessage]) -> None:
        if self._function.invoke(
            self._lane, batch.messages, lambda verdict: self._answered(batch.messages, verdict)
        ):
            batch.throttles = _PLACED
            self._repeat_perhaps(batch.messages)
            return
        self.throttles += 1
        wait = self._rules.throttled(batch, now=self._scheduler.now)
        if wait is None:
            self._rules.finish()
            self._poll()
            return
        self._wait_for_slot(batch, wait.total_seconds())

    def _wait_for_slot(self, batch: Batch[ReceivedMessage], seconds: float) -> None:
        throttles = batch.throttles

        def again() -> None:
            if batch.throttles == throttles:
                self._try(batch)

        self._scheduler.after(seconds, again)
        rank = self._unknowns.winner.rank(position=self._lane.position, until=batch.until)
        if rank is not None:
            self._function.queue_for_slot(rank, again)

    def _repeat_perhaps(self, messages: Sequence[ReceivedMessage]) -> None:
        """AWS: a mapping may hand out a batch more than once (Lambda developer guide, "Using Lambda with SQS")."""
        faults = self._faults
        if faults.duplicates and self._chance.random() < faults.duplicates:
            self._scheduler.after(
                self._chance.random(),
                lambda: self._function.invoke(
                    self._lane, messages, lambda verdict: self._delete(messages, verdict)
                ),
            )

    def _answered(self, messages: Sequence[ReceivedMessage], verdict: Verdict) -> None:
        def delete() -> None:
            self._delete(messages, verdict)
            self._rules.finish()
            self._poll()

        self._scheduler.after(self._unknowns.delete, delete)

    def _delete(self, messages: Sequence[ReceivedMessage], verdict: Verdict) -> None:
        done = handled(messages, verdict)
        if not done:
            return
        faults = self._faults
        if faults.undeleted and self._chance.random() < faults.undeleted:
            return
        self.deletes += 1
        deleted(self._queue, done)
        self.notice()
