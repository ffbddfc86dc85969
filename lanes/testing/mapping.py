"""What starts invocations: the event source mappings of lanes and bell, and runs of the lanes under a test's clock."""

from __future__ import annotations

import contextlib
import contextvars
import math
from collections import deque
from random import Random
from typing import TYPE_CHECKING

from lanes.bell import BODY, HEARTBEAT, RETURN_EVERY, is_ring
from lanes.mapping.rules import MappingRules, MappingSettings, is_expired
from lanes.testing.fifo.message import FifoQueueError
from lanes.testing.queues import BELL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.config import Lane, LanesConfig
    from lanes.mapping.rules import Batch, Scaling, ThrottleBackoff
    from lanes.testing.assertions import Journal
    from lanes.testing.calls import Calls
    from lanes.testing.clock import FakeClock
    from lanes.testing.fifo.message import ReceivedMessage
    from lanes.testing.fifo.queue import FifoQueue
    from lanes.testing.function import Invocations
    from lanes.testing.sender import MemoryLater, Relays


class Mappings:
    """
    Invokes the consumer with batches of the lanes.

    Each mapping follows the rules of `lanes.mapping`: it receives batches as soon as it can, whether a slot is free or
    not, up to its maximum concurrency. A free slot goes to the highest lane with a batch; AWS documents no order, and
    the consumer answers a wrong one with a yield. With several slots, other invocations run between two records of
    one, as they would beside it. With twice as many slots as lanes they run one after the other, since each goes on
    until the lanes are empty.

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
        self._rules = {
            # Nothing is throttled here, so chance decides nothing.
            lane.name: rules_of(lane, random=Random(0))  # noqa: S311
            for lane in config.lanes
        }
        self._waiting: dict[str, deque[Batch[ReceivedMessage]]] = {
            lane.name: deque() for lane in config.lanes
        }
        self._running: list[tuple[Lane, Sequence[ReceivedMessage]]] = []
        self._outside = contextvars.copy_context()
        calls.takes = lambda _operation: self._receive()
        if not config.serves_in_place:
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
        for lane in self._config.lanes:
            # Before the receive: a dropped batch frees its mapping for its own messages, which are visible again.
            self._drop_expired(lane.name)
        self._receive()
        for lane in self._config.lanes:
            if self._waiting[lane.name]:
                self._invoke(lane)
                return True
        return False

    def _invoke(self, lane: Lane) -> None:
        messages = self._waiting[lane.name].popleft().messages
        for message in messages:
            if is_ring(message.group, message.body):
                continue
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
        for message in deleted(self._queues[lane.name], done):
            self._journal.note_deleted(message.message_id)

    def _keep_running_invisible(self) -> None:
        """Hide the batches of paused handlers: an invocation beside them takes no time of theirs."""
        for lane, messages in self._running:
            for message in messages:
                with contextlib.suppress(FifoQueueError):
                    self._queues[lane.name].change_visibility(message.receipt_handle, lane.visibility_timeout)


def rules_of(
    lane: Lane,
    *,
    random: Random,
    enabled: bool = True,
    backoff: ThrottleBackoff | None = None,
    scaling: Scaling | None = None,
) -> MappingRules[ReceivedMessage]:
    """Return the rules of a lane's mapping, with the settings that the stack gives it."""
    return MappingRules(
        MappingSettings(
            batch_size=lane.batch_size,
            maximum_concurrency=lane.maximum_concurrency,
            reports_failures=True,
            enabled=enabled,
        ),
        visibility_timeout=lane.visibility_timeout,
        random=random,
        backoff=backoff,
        scaling=scaling,
    )


def deleted(queue: FifoQueue, messages: Sequence[ReceivedMessage]) -> list[ReceivedMessage]:
    """Delete messages as a mapping does, and return them without those that were received again or are gone."""
    done = []
    for message in messages:
        with contextlib.suppress(FifoQueueError):
            queue.delete(message.receipt_handle)
            done.append(message)
    return done


class Rings:
    """
    Invokes the consumer with the rings of the bell, while any message is in a lane.

    One slot runs after the other. The schedule that keeps a heartbeat in the bell's queue is part of it.

    Args:
        bell: the bell's queue.
        queues: those of the lanes, by name.
        invocations: run the consumer.

    """

    def __init__(self, *, bell: FifoQueue, queues: Mapping[str, FifoQueue], invocations: Invocations) -> None:
        self._bell = bell
        self._queues = queues
        self._invocations = invocations

    def step(self, *, until: Callable[[], bool]) -> bool:
        """Run one invocation if a ring waits, which returns its records when `until` holds; return whether one ran."""
        if not any(any(queue.counts()) for queue in self._queues.values()):
            return False
        # The queue drops it unless the last one is five minutes old, as it does with those of the schedule.
        self._bell.send(BODY, group=HEARTBEAT)
        if not (rings := self._bell.receive(1)):
            return False
        # A ring that the consumer has returned for later, or that was received again, stays.
        deleted(self._bell, self._invocations.invoke(BELL, rings, until=until))
        return True

    def next_moment(self) -> float | None:
        """Return when the next ring is received that may find a message; None if no lane has any."""
        lanes = [queue for queue in self._queues.values() if any(queue.counts())]
        rung_at = self._bell.next_event_at()
        if not lanes or rung_at is None:
            return None
        if any(queue.is_receivable() for queue in lanes):
            return rung_at
        moments = [moment for queue in lanes if (moment := queue.next_event_at()) is not None]
        # Heartbeats that would find nothing are left out.
        idle = max(0.0, min(moments, default=rung_at) - rung_at)
        return rung_at + math.ceil(idle / RETURN_EVERY) * RETURN_EVERY


INVOCATIONS_A_HANDLING = 20
"""Invocations for each handler start, yields and backoffs included, beyond which the run makes no progress."""


class NeverIdleError(RuntimeError):
    """The lanes did not come to rest: something sends or returns messages without end."""


class Runs:
    """
    Runs relays, mappings and consumer, and moves the clock to the next event when they are idle.

    Args:
        source: starts invocations.
        invocations: counts them.
        relays: publish outbox entries.
        later: sends messages for later.
        journal: of the messages.
        clock: the time.

    """

    def __init__(
        self,
        *,
        source: Mappings | Rings,
        invocations: Invocations,
        relays: Relays,
        later: MemoryLater,
        journal: Journal,
        clock: FakeClock,
    ) -> None:
        self._source = source
        self._invocations = invocations
        self._relays = relays
        self._later = later
        self._journal = journal
        self._clock = clock

    def until(
        self, condition: Callable[[], bool], *, most_handlings: int, deadline: float | None = None
    ) -> bool:
        """Run until the condition holds, no message waits, or the deadline is reached; return whether it holds."""
        limit = RunLimit(self._invocations, self._journal, most=most_handlings)
        while not condition():
            if not (self._work(lambda: condition() or limit.is_reached) or self._wait(deadline)):
                return condition()
            limit.check()
        return True

    def _work(self, until: Callable[[], bool]) -> bool:
        """Send the messages and entries that are due, and run one invocation; return whether there was work."""
        published = self._later.send_due() | self._relays.run()
        return self._source.step(until=until) or published

    def _wait(self, deadline: float | None) -> bool:
        """
        Move the clock until a message becomes visible or is due; return False if none will before the deadline.

        Without a deadline nothing waits for messages for later, which may be due in a year.
        """
        moment = self._source.next_moment()
        latest = moment if deadline is None else deadline
        due = self._later.next_due()
        if due is not None and latest is not None and due <= latest and (moment is None or due < moment):
            moment = due
        if moment is None or (deadline is not None and moment > deadline):
            return False
        self._clock.advance_to(moment)
        return True


class RunLimit:
    """Counts handler starts and invocations from now on, up to a limit."""

    def __init__(self, invocations: Invocations, journal: Journal, *, most: int) -> None:
        self._invocations = invocations
        self._journal = journal
        self._most = most
        self._sent = len(journal.sent)
        self._started = invocations.started.copy()
        self._ran = invocations.total

    @property
    def is_reached(self) -> bool:
        """Whether the run counts as endless."""
        started = self._invocations.started - self._started
        invocations = self._invocations.total - self._ran
        return started.total() >= self._most or invocations >= self._most * INVOCATIONS_A_HANDLING

    def check(self) -> None:
        """
        Raise if the limit is reached.

        Raises:
            NeverIdleError: with the kinds that were handled most.

        """
        if not self.is_reached:
            return
        started = self._invocations.started - self._started
        invocations = self._invocations.total - self._ran
        kinds = ", ".join(f"{kind} {count} times" for kind, count in started.most_common(3)) or "none"
        sent = len(self._journal.sent) - self._sent
        raise NeverIdleError(
            f"not idle after {started.total()} handler starts in {invocations} invocations; handled: {kinds}; "
            f"{sent} messages were sent meanwhile and {len(self._journal.waiting)} wait. A handler that sends what it "
            f"handles never ends; if this is meant, give most_handlings=, or use run_for"
        )
