"""The decisions of one mapping, from a receive to the deletion."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from lanes.mapping.rules import Scaling, ThrottleBackoff

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from lanes.mapping.answer import Verdict
    from lanes.mapping.rules import MappingSettings


class MappedMessage(Protocol):
    """A received message, as far as the rules read it."""

    @property
    def message_id(self) -> str:
        """Id of the message."""

    @property
    def group(self) -> str:
        """Message group; empty on a standard queue."""


M = TypeVar("M", bound=MappedMessage)


@dataclass(slots=True, eq=False, kw_only=True)
class Batch(Generic[M]):
    """
    Messages of one receive, out of the queue until they are deleted or visible again.

    Attributes:
        messages: in the order of the receive.
        until: when their visibility timeout ends, on the driver's clock.
        throttles: tries that the function refused.
    """

    messages: Sequence[M]
    until: float
    throttles: int = 0


class MappingRules(Generic[M]):
    """
    Decide how many batches a mapping has out of its queue, and how long it keeps them.

    The driver brings clock, queue and function: it calls `start` before each receive, `take` with the messages,
    `throttled` each time the function refuses the batch, and `finish` when the batch is over. Hold a lock around
    `start` and `finish` if threads share the rules.

    Args:
        settings: of the mapping; see `update`.
        visibility_timeout: of the queue.
        random: source of jitter.
        backoff: waits of a throttled batch.
        scaling: growth of the concurrency.

    Attributes:
        settings: of the mapping.
        running: receives and batches that have been started and not finished.
    """

    def __init__(
        self,
        settings: MappingSettings,
        *,
        visibility_timeout: timedelta,
        random: Random,
        backoff: ThrottleBackoff | None = None,
        scaling: Scaling | None = None,
    ) -> None:
        self.settings = settings
        self.running = 0
        self._visibility_timeout = visibility_timeout
        self._random = random
        self._backoff = backoff or ThrottleBackoff()
        self._scaling = scaling or Scaling()
        self._scaled = self._scaling.start(settings)

    @property
    def concurrency(self) -> int:
        """Batches that may be out of the queue at once, as far as the mapping has scaled."""
        return min(self._scaled, self.settings.concurrency)

    @property
    def can_scale(self) -> bool:
        """Whether the mapping may have more batches at once than by now."""
        return self._scaled < self.settings.concurrency

    @property
    def can_start(self) -> bool:
        """Whether the mapping may receive now."""
        return self.settings.enabled and self.running < self.concurrency

    def update(self, settings: MappingSettings, *, visibility_timeout: timedelta) -> None:
        """Follow a deploy; batches that have been received keep their visibility timeout."""
        # One that has scaled to its limit follows a higher one at once, since AWS documents no other behaviour.
        if not self.can_scale:
            self._scaled = settings.concurrency
        self.settings = settings
        self._visibility_timeout = visibility_timeout

    def scale(self, seconds: float) -> int:
        """Add the concurrency of some seconds with more to receive; return how much was added."""
        more = min(
            self._scaling.added(seconds, random=self._random), self.settings.concurrency - self._scaled
        )
        self._scaled += more
        return more

    def start(self) -> bool:
        """Reserve one unit of concurrency for a receive; return false while disabled or at the limit."""
        if not self.can_start:
            return False
        self.running += 1
        return True

    def finish(self) -> None:
        """Give the unit of concurrency back: the receive was empty, or the batch was answered or dropped."""
        self.running -= 1

    def take(self, messages: Sequence[M], *, now: float) -> Batch[M]:
        """Make the batch of a receive; its visibility timeout begins now."""
        return Batch(messages=messages, until=now + self._visibility_timeout.total_seconds())

    def throttled(self, batch: Batch[M], *, now: float) -> timedelta | None:
        """
        Return how long a batch waits that the function refused, or None to drop it.

        # AWS: a batch that waits for a slot keeps its unit of concurrency; dropped messages return to the queue when
        # their visibility timeout ends.
        """
        batch.throttles += 1
        if self._scaling.shrinks:
            self._scaled = max(1, self.concurrency - 1)
        left = timedelta(seconds=batch.until - now)
        return self._backoff.wait(batch.throttles, left=left, random=self._random)


def is_expired(batch: Batch[M], *, now: float) -> bool:
    """Whether the messages of a batch are visible again, so that the mapping has dropped it."""
    return batch.until <= now


def handled(messages: Sequence[M], verdict: Verdict) -> list[M]:
    """Return the messages to delete; the others stay hidden until their visibility timeout ends."""
    return [message for message in messages if message.message_id not in verdict.failed_ids]
