"""The event source mappings of the lanes, one invocation after the other, under a test's clock."""

from __future__ import annotations

import contextlib
import contextvars
from collections import deque
from random import Random
from typing import TYPE_CHECKING

from lanes.mapping.rules import MappingRules, is_expired
from lanes.mapping.settings import MappingSettings
from lanes.testing.fifo.errors import FifoQueueError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.config import Lane, LanesConfig
    from lanes.mapping.rules import Batch
    from lanes.testing.calls import Calls
    from lanes.testing.clock import FakeClock
    from lanes.testing.fifo.message import ReceivedMessage
    from lanes.testing.fifo.queue import FifoQueue
    from lanes.testing.invocations import Invocations
    from lanes.testing.journal import Journal


class Mappings:
    """
    Invokes the consumer with batches of the lanes.

    Each mapping follows the rules of `lanes.mapping`: it receives batches as soon as it can, whether a slot is free or
    not, up to its maximum concurrency. A free slot goes to the highest lane with a batch; AWS documents no order, and
    the consumer answers a wrong one with a yield. With several slots, other invocations run between two records of
    one, as they would beside it.

    Args:
        config: the lanes.
        queues: their queues, by name.
        clock: moved by every handler.
        journal: records deletions.
        calls: those of the process that runs.
        invocations: run the consumer.

    """

    def __init__(
        self,
        *,
        config: LanesConfig,
        queues: Mapping[str, FifoQueue],
        clock: FakeClock,
        journal: Journal,
        calls: Calls,
        invocations: Invocations,
    ) -> None:
        self._config = config
        self._queues = queues
        self._clock = clock
        self._journal = journal
        self._invocations = invocations
        self._rules = {lane.name: _rules(lane) for lane in config.lanes}
        self._waiting: dict[str, deque[Batch[ReceivedMessage]]] = {
            lane.name: deque() for lane in config.lanes
        }
        self._running: list[tuple[Lane, Sequence[ReceivedMessage]]] = []
        self._outside = contextvars.copy_context()
        calls.takes = lambda _operation: self._receive()
        invocations.after_handler = self._run_beside

    def step(self, *, until: Callable[[], bool]) -> bool:  # noqa: ARG002 - a batch is not cut short
        """Run one invocation if a lane has work; return whether one ran."""
        self._outside = contextvars.copy_context()
        return self._invoke_next()

    def next_moment(self) -> float | None:
        """Return the next time at which a message becomes visible by itself; None if no message is hidden."""
        moments = [queue.next_event_at() for queue in self._queues.values()]
        return min((moment for moment in moments if moment is not None), default=None)

    def _run_beside(self) -> None:
        """Let each free slot run one invocation."""
        for _ in range(self._config.consumer.reserved_concurrency - self._invocations.running):
            # Another process: the priority block of the paused handler does not apply to it.
            self._outside.copy().run(self._invoke_next)

    def _receive(self) -> None:
        """Let every mapping receive as much as it may."""
        for lane in self._config.lanes:
            rules, queue = self._rules[lane.name], self._queues[lane.name]
            while queue.is_receivable() and rules.start():
                messages = queue.receive(rules.settings.receive_size)
                self._waiting[lane.name].append(rules.take(messages, now=self._clock.now))

    def _drop_expired(self, lane: str) -> None:
        waiting = self._waiting[lane]
        while waiting and is_expired(waiting[0], now=self._clock.now):
            waiting.popleft()
            self._rules[lane].finish()

    def _invoke_next(self) -> bool:
        """Run one invocation for the highest lane with a batch; return whether there is one."""
        self._receive()
        for lane in self._config.lanes:
            self._drop_expired(lane.name)
            if self._waiting[lane.name]:
                self._invoke(lane)
                return True
        return False

    def _invoke(self, lane: Lane) -> None:
        messages = self._waiting[lane.name].popleft().messages
        for message in messages:
            # Known already, unless the consumer itself sent it to this lane.
            self._journal.note_sent(
                lane.name, message.body, group=message.group, message_id=message.message_id
            )
        self._keep_running_invisible()
        self._running.append((lane, messages))
        try:
            done = self._invocations.invoke(lane.name, messages)
        finally:
            self._running.pop()
            self._rules[lane.name].finish()
        for message in done:
            # A receipt that is old by now belongs to a record that was received again.
            with contextlib.suppress(FifoQueueError):
                self._queues[lane.name].delete(message.receipt_handle)
                self._journal.note_deleted(message.message_id)

    def _keep_running_invisible(self) -> None:
        """Hide the batches of paused handlers: an invocation beside them takes no time of theirs."""
        for lane, messages in self._running:
            for message in messages:
                with contextlib.suppress(FifoQueueError):
                    self._queues[lane.name].change_visibility(message.receipt_handle, lane.visibility_timeout)


def _rules(lane: Lane) -> MappingRules[ReceivedMessage]:
    settings = MappingSettings(
        batch_size=lane.batch_size, maximum_concurrency=lane.maximum_concurrency, reports_failures=True
    )
    # Nothing is throttled here, so chance decides nothing.
    return MappingRules(settings, visibility_timeout=lane.visibility_timeout, random=Random(0))  # noqa: S311
