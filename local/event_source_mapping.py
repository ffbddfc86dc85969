"""
The emulated event source mapping: polls a deployed queue, invokes the deployed function, deletes handled messages.

`lanes.mapping` decides about batches; this module has the threads, the clock and the calls.
"""

import logging
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Protocol

from lanes.mapping.event import Payload, payloads
from lanes.mapping.rules import (
    Batch,
    BatchOutcome,
    MappingRules,
    MappingSettings,
    Scaling,
    ThrottleBackoff,
    Verdict,
    Winner,
    failed,
    handled,
    is_dropped,
    judge,
)

from .environment import Invocation
from .polled_queue import PolledMessage, PollError, QueueMapping
from .slots import SlotWait

_logger = logging.getLogger(__name__)

DROPPED = (
    "the function of %s returned nothing, so every record of its batches is deleted, also those that failed or "
    "yielded; return consumer.handle(event, context), or write lambda_handler = consumer.lambda_handler"
)
_LONG_POLL = timedelta(seconds=5)
_PAUSE_AFTER_POLL_ERROR = 0.5
_SCALE_EVERY = 1.0
# AWS: MaximumConcurrency is at most 1,000 (ScalingConfig, API reference of Lambda).
_MAX_CONCURRENCY = 1000


class PolledQueue(Protocol):
    """The queue of a mapping."""

    def receive(self, *, limit: int, wait: timedelta) -> Sequence[PolledMessage]:
        """Long-poll."""

    def delete(self, messages: Sequence[PolledMessage]) -> int:
        """Delete; answers how many could not be deleted."""

    def give_back(self, messages: Sequence[PolledMessage]) -> int:
        """Make received messages visible; answers how many were not."""

    def close(self) -> None:
        """Close the connections; no call follows."""


class Invocable(Protocol):
    """The function of a mapping."""

    def invoke(self, payload: bytes, wait: SlotWait | None = None) -> Invocation:
        """Run the handler on an event; a wait for a slot ends."""

    def queue_for_slot(self, rank: int) -> SlotWait:
        """Queue for the next free slot."""

    def leave(self, wait: SlotWait) -> None:
        """Queue no more."""


@dataclass(slots=True, kw_only=True)
class MappingCounters:
    """Counts of a mapping since its start."""

    polls: int = 0
    empty_polls: int = 0
    poll_errors: int = 0
    received: int = 0
    invokes: int = 0
    throttles: int = 0
    dropped: int = 0
    partial: int = 0
    errors: int = 0
    deleted: int = 0
    not_deleted: int = 0


class EventSourceMappingEmulator:
    """
    One deployed mapping, running.

    One thread polls and hands each receive to a thread of its own, as many at once as the rules allow.

    Args:
        mapping: as deployed; follow a deploy with `update`.
        queue: of the mapping.
        function: of the mapping.
        visibility_timeout: of the queue.
        backoff: waits of a throttled batch.
        scaling: growth of the concurrency.
        winner: which throttled batch of the function gets a free slot.
        position: of the mapping among those of its function, 0 for the one made first.
        seed: of the jitter.
    """

    def __init__(
        self,
        mapping: QueueMapping,
        *,
        queue: PolledQueue,
        function: Invocable,
        visibility_timeout: timedelta,
        backoff: ThrottleBackoff | None = None,
        scaling: Scaling | None = None,
        winner: Winner = Winner.CHANCE,
        position: int = 0,
        seed: int = 0,
    ) -> None:
        self._mapping = mapping
        self._queue = queue
        self._function = function
        self._rules: MappingRules[PolledMessage] = MappingRules(
            mapping.settings,
            visibility_timeout=visibility_timeout,
            random=random.Random(seed),  # noqa: S311 - jitter, not a secret
            backoff=backoff,
            scaling=scaling,
        )
        self._winner = winner
        self._position = position
        self._counters = MappingCounters()
        self._changed = threading.Condition()
        self._stopping = self._said_dropped = False
        self._stopped = threading.Event()
        self._waits: set[SlotWait] = set()
        self._failed: list[tuple[float, PolledMessage]] = []
        self._poller = threading.Thread(target=self._poll, name=f"poll {mapping.queue_name}", daemon=True)
        self._batches = ThreadPoolExecutor(max_workers=_MAX_CONCURRENCY, thread_name_prefix="batch")

    @property
    def settings(self) -> MappingSettings:
        """Settings of the mapping as deployed now."""
        return self._rules.settings

    @property
    def queue_name(self) -> str:
        """Name of its queue."""
        return self._mapping.queue_name

    @property
    def enabled(self) -> bool:
        """Whether it receives messages."""
        return self._mapping.settings.enabled

    @property
    def function(self) -> Invocable:
        """Its function."""
        return self._function

    @property
    def running(self) -> int:
        """Polls and batches that take a unit of concurrency now."""
        return self._rules.running

    def counters(self) -> dict[str, int]:
        """Polls, invokes, throttles and the rest, since the start."""
        with self._changed:
            return asdict(self._counters)

    def start(self) -> None:
        """Begin to poll."""
        self._poller.start()

    def update(
        self, mapping: QueueMapping, *, visibility_timeout: timedelta, function: Invocable | None = None
    ) -> None:
        """Follow a deploy: batch size, concurrency, answer type, enabled or not, and another function."""
        with self._changed:
            self._mapping = mapping
            self._function = function or self._function
            self._rules.update(mapping.settings, visibility_timeout=visibility_timeout)
            self._changed.notify_all()

    def give_back_failed(self) -> int:
        """
        Make the messages of failed invocations visible before their time, for changed code; return their number.

        On AWS they wait until their visibility timeout ends.
        """
        with self._changed:
            failed, self._failed = self._failed, []
        return self._queue.give_back([message for until, message in failed if until > time.monotonic()])

    def stop(self) -> None:
        """Poll no more; batches that run finish, throttled ones are dropped."""
        with self._changed:
            self._stopping = True
            self._stopped.set()
            for wait in self._waits:
                wait.offered.set()
            self._changed.notify_all()

    def join(self) -> None:
        """Wait for the poller and the batches after `stop`."""
        if self._poller.ident is not None:
            self._poller.join()
        self._batches.shutdown(wait=True)
        self._queue.close()

    def _poll(self) -> None:
        while self._start():
            messages = self._receive()
            if messages:
                batch = self._rules.take(messages, now=time.monotonic())
                self._batches.submit(self._run, batch)
            else:
                self._finish()

    def _start(self) -> bool:
        """Wait until the mapping may receive; return false when it stops."""
        with self._changed:
            while not self._changed.wait_for(
                lambda: self._stopping or self._rules.can_start,
                _SCALE_EVERY if self._rules.can_scale else None,
            ):
                # All of its concurrency was busy for so long, so there may be more to receive.
                self._rules.scale(_SCALE_EVERY)
            return not self._stopping and self._rules.start()

    def _finish(self) -> None:
        with self._changed:
            self._rules.finish()
            self._changed.notify_all()

    def _receive(self) -> Sequence[PolledMessage]:
        try:
            messages = self._queue.receive(limit=self._rules.settings.receive_size, wait=_LONG_POLL)
        except PollError as error:
            self._count(poll_errors=1)
            if not self._stopping:
                _logger.warning("polling %s failed: %s", self._mapping.queue_name, error)
            self._stopped.wait(_PAUSE_AFTER_POLL_ERROR)
            return ()
        self._count(polls=1, empty_polls=not messages, received=len(messages))
        return messages

    def _run(self, batch: Batch[PolledMessage]) -> None:
        try:
            self._invoke_all(batch)
        except Exception:
            if not self._stopping:
                _logger.exception("a batch of %s failed in the emulator", self._mapping.queue_name)
        finally:
            self._finish()

    def _invoke_all(self, batch: Batch[PolledMessage]) -> None:
        """Invoke with each event of the batch, after a failure without the failed groups."""
        failed_groups: set[str] = set()
        arn = self._mapping.queue_arn
        for payload in payloads(
            batch.messages, lambda message: message.record(arn), failed_groups=failed_groups
        ):
            verdict = self._invoke(payload, batch)
            self._delete(handled(payload.messages, verdict))
            failed_groups |= {
                message.group for message in payload.messages if message.message_id in verdict.failed_ids
            }

    def _invoke(self, payload: Payload[PolledMessage], batch: Batch[PolledMessage]) -> Verdict:
        """Invoke until the function takes the event or the batch is dropped."""
        turn: SlotWait | None = None
        while True:
            invocation = self._function.invoke(payload.event, turn)
            if not invocation.throttled:
                if invocation.function_error is not None:
                    self._remember(payload.messages, until=batch.until)
                return self._verdict(invocation, [message.message_id for message in payload.messages])
            self._count(throttles=1)
            wait = self._rules.throttled(batch, now=time.monotonic())
            if wait is not None:
                turn = self._wait_for_slot(batch, wait.total_seconds())
            if wait is None or self._stopped.is_set():
                if turn is not None:
                    self._function.leave(turn)
                self._count(dropped=1)
                return failed([message.message_id for message in payload.messages], "throttled")

    def _remember(self, messages: Sequence[PolledMessage], *, until: float) -> None:
        with self._changed:
            now = time.monotonic()
            kept = [one for one in self._failed if one[0] > now]
            self._failed = kept + [(until, message) for message in messages]

    def _wait_for_slot(self, batch: Batch[PolledMessage], seconds: float) -> SlotWait | None:
        """Wait for the next try, or until a slot is kept for this batch or the mapping stops."""
        rank = self._winner.rank(position=self._position, until=batch.until)
        if rank is None:
            self._stopped.wait(seconds)
            return None
        turn = self._function.queue_for_slot(rank)
        with self._changed:
            if self._stopping:
                return turn
            self._waits.add(turn)
        turn.offered.wait(seconds)
        with self._changed:
            self._waits.discard(turn)
        return turn

    def _verdict(self, invocation: Invocation, message_ids: Sequence[str]) -> Verdict:
        reports = self._rules.settings.reports_failures and invocation.function_error is None
        if reports and is_dropped(invocation.payload) and not self._said_dropped:
            self._said_dropped = True
            _logger.warning(DROPPED, self._mapping.queue_name)
        verdict = judge(
            invocation.payload,
            message_ids=message_ids,
            function_error=invocation.function_error,
            reports_failures=self._rules.settings.reports_failures,
        )
        self._count(
            invokes=1,
            partial=verdict.outcome is BatchOutcome.PARTIAL,
            errors=verdict.outcome is BatchOutcome.FAILED,
        )
        return verdict

    def _delete(self, messages: Sequence[PolledMessage]) -> None:
        if messages:
            not_deleted = self._queue.delete(messages)
            self._count(deleted=len(messages) - not_deleted, not_deleted=not_deleted)

    def _count(self, **more: int) -> None:
        with self._changed:
            for name, number in more.items():
                setattr(self._counters, name, getattr(self._counters, name) + number)
