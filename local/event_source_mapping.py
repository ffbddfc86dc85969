"""
The emulated event source mapping: polls a deployed queue, invokes the deployed function, deletes what it did.

What happens to a batch is decided by `local.model.mapping`; here are the threads, the clock and the calls.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Protocol

from local.environment import Invocation
from local.model.mapping import (
    Batch,
    MappingSettings,
    Outcome,
    Verdict,
    batches,
    group_of,
    judge,
    without_groups,
)
from local.polled_queue import PollError, Received
from simulator.backoff import ThrottleBackoff

_logger = logging.getLogger(__name__)
_LONG_POLL = timedelta(seconds=5)
_PAUSE_AFTER_POLL_ERROR = 0.5
_MOST_SLOTS = 1000


class PolledQueue(Protocol):
    """What a mapping needs of its queue."""

    def receive(self, *, limit: int, wait: timedelta) -> Sequence[Received]:
        """Long-poll."""

    def delete(self, messages: Sequence[Received]) -> int:
        """Delete; answers how many could not be deleted."""

    def close(self) -> None:
        """Free what calls need; none follows."""


class Invocable(Protocol):
    """What a mapping needs of its function."""

    def invoke(self, payload: bytes) -> Invocation:
        """Run the handler on an event."""


@dataclass(slots=True, kw_only=True)
class MappingCounters:
    """What a mapping did since it started."""

    polls: int = 0
    empty_polls: int = 0
    poll_errors: int = 0
    received: int = 0
    invokes: int = 0
    throttles: int = 0
    let_go: int = 0
    partial: int = 0
    errors: int = 0
    deleted: int = 0
    not_deleted: int = 0


class EventSourceMappingEmulator:
    """
    One deployed mapping at work.

    One thread polls and hands each receive to a slot; there are as many slots as the maximum concurrency.
    A slot taken by a throttled batch stays taken until the batch ran or was let go.

    Args:
        settings: as deployed; follow a deploy with `update`.
        queue: of the mapping.
        function: of the mapping.
        visibility_timeout: of the queue.
        backoff: waits of a throttled batch.
        seed: of the jitter.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        settings: MappingSettings,
        *,
        queue: PolledQueue,
        function: Invocable,
        visibility_timeout: timedelta,
        backoff: ThrottleBackoff | None = None,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._queue = queue
        self._function = function
        self._visibility_timeout = visibility_timeout
        self._backoff = backoff or ThrottleBackoff()
        self._chance = random.Random(seed)  # noqa: S311 - jitter, not a secret
        self._clock = clock
        self._counters = MappingCounters()
        self._changed = threading.Condition()
        self._running = 0
        self._stopping = False
        self._stopped = threading.Event()
        self._poller = threading.Thread(target=self._poll, name=f"poll {settings.queue_name}", daemon=True)
        self._slots = ThreadPoolExecutor(max_workers=_MOST_SLOTS, thread_name_prefix="slot")

    @property
    def settings(self) -> MappingSettings:
        """The mapping as deployed now."""
        return self._settings

    @property
    def running(self) -> int:
        """Batches that hold a slot now."""
        return self._running

    def counters(self) -> dict[str, int]:
        """Polls, invokes, throttles and the rest, since the start."""
        with self._changed:
            return asdict(self._counters)

    def start(self) -> None:
        """Begin to poll."""
        self._poller.start()

    def update(
        self, settings: MappingSettings, *, visibility_timeout: timedelta, function: Invocable | None = None
    ) -> None:
        """Follow a deploy: batch size, concurrency, answer type, enabled or not, and another function."""
        with self._changed:
            self._settings = settings
            self._function = function or self._function
            self._visibility_timeout = visibility_timeout
            self._changed.notify_all()

    def stop(self) -> None:
        """Poll no more; batches that hold a slot finish, throttled ones are let go."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._stopped.set()

    def join(self) -> None:
        """Wait for the poller and the slots after `stop`."""
        if self._poller.ident is not None:
            self._poller.join()
        self._slots.shutdown(wait=True)
        self._queue.close()

    def _poll(self) -> None:
        while self._take_slot():
            messages = self._receive()
            if messages:
                until = self._clock() + self._visibility_timeout.total_seconds()
                self._slots.submit(self._run, messages, until)
            else:
                self._free_slot()

    def _take_slot(self) -> bool:
        """Wait until the mapping is enabled and a slot is free; false when it stops."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._stopping or (self._settings.enabled and self._running < self._settings.slots)
            )
            if not self._stopping:
                self._running += 1
            return not self._stopping

    def _free_slot(self) -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def _receive(self) -> Sequence[Received]:
        try:
            messages = self._queue.receive(limit=self._settings.receive_size, wait=_LONG_POLL)
        except PollError as error:
            self._count(poll_errors=1)
            if not self._stopping:
                _logger.warning("polling %s failed: %s", self._settings.queue_name, error)
            self._stopped.wait(_PAUSE_AFTER_POLL_ERROR)
            return ()
        self._count(polls=1, empty_polls=not messages, received=len(messages))
        return messages

    def _run(self, messages: Sequence[Received], until: float) -> None:
        try:
            failed_groups: set[str] = set()
            for batch in batches(messages, self._settings):
                rest = without_groups(batch, failed_groups, self._settings)
                if rest is None:
                    continue
                verdict = self._invoke(rest, until)
                self._settle(rest, verdict)
                failed_groups |= {
                    group_of(message)
                    for message in rest.messages
                    if message["MessageId"] in verdict.failed_ids
                }
        except Exception:
            if not self._stopping:
                _logger.exception("a batch of %s failed in the emulator", self._settings.queue_name)
        finally:
            self._free_slot()

    def _invoke(self, batch: Batch, until: float) -> Verdict:
        """Invoke until the function takes the batch or the messages' visibility timeout ends."""
        tries = 0
        while True:
            invocation = self._function.invoke(batch.event)
            if not invocation.throttled:
                self._count(invokes=1)
                return judge(
                    invocation.payload,
                    message_ids=batch.message_ids,
                    function_error=invocation.function_error,
                    reports_failures=self._settings.reports_failures,
                )
            tries += 1
            self._count(throttles=1)
            left = timedelta(seconds=until - self._clock())
            wait = self._backoff.wait(tries, left=left, chance=self._chance)
            if wait is None or self._stopped.wait(wait.total_seconds()):
                self._count(let_go=1)
                return Verdict(outcome=Outcome.FAILED, failed_ids=batch.message_ids, reason="throttled")

    def _settle(self, batch: Batch, verdict: Verdict) -> None:
        """Delete what the function handled; the rest stays hidden until its visibility timeout ends."""
        if verdict.outcome is not Outcome.SUCCEEDED and verdict.reason != "throttled":
            self._count(partial=verdict.outcome is Outcome.PARTIAL, errors=verdict.outcome is Outcome.FAILED)
        handled = [message for message in batch.messages if message["MessageId"] not in verdict.failed_ids]
        if handled:
            not_deleted = self._queue.delete(handled)
            self._count(deleted=len(handled) - not_deleted, not_deleted=not_deleted)

    def _count(self, **more: int) -> None:
        with self._changed:
            for name, number in more.items():
                setattr(self._counters, name, getattr(self._counters, name) + number)
