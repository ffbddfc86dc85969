"""The decisions of one mapping from a receive to the deletion: its settings, and what AWS leaves open as parameters."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from random import Random

# AWS: BatchSize of a FIFO queue is at most 10 (CreateEventSourceMapping, API reference of Lambda).
MAX_BATCH = 10
# AWS documents no concurrency for a FIFO mapping without maximum concurrency beyond the number of its message groups.
# Five is where the pollers of a standard queue start.
DEFAULT_CONCURRENCY = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingSettings:
    """
    The settings of a mapping that decide about its batches.

    Attributes:
        batch_size: largest number of messages of an invocation.
        maximum_concurrency: batches that may be out of the queue at once; None if it has no such setting.
        enabled: a disabled mapping receives nothing; batches that it has received go on.
        reports_failures: ReportBatchItemFailures; without it, every return of the function is a success.
    """

    batch_size: int = MAX_BATCH
    maximum_concurrency: int | None = None
    enabled: bool = True
    reports_failures: bool = False

    @classmethod
    def from_api(cls, configuration: Mapping[str, Any]) -> MappingSettings:
        """Read an entry of ListEventSourceMappings."""
        return cls(
            batch_size=int(configuration.get("BatchSize", MAX_BATCH)),
            maximum_concurrency=(configuration.get("ScalingConfig") or {}).get("MaximumConcurrency"),
            enabled=configuration.get("State") in {"Enabled", "Enabling"},
            reports_failures="ReportBatchItemFailures" in (configuration.get("FunctionResponseTypes") or ()),
        )

    @property
    def concurrency(self) -> int:
        """
        Batches that may be out of the queue at once.

        # AWS: the number of message groups is a limit as well (Configuring scaling for SQS event source mappings).
        # The queue enforces it: it delivers no message of a group that is in flight.
        """
        return self.maximum_concurrency or DEFAULT_CONCURRENCY

    @property
    def receive_size(self) -> int:
        """Messages to ask for at each receive."""
        return min(self.batch_size, MAX_BATCH)


# 2**20 initial waits exceed every cap; a larger power could overflow a timedelta.
_MAX_DOUBLINGS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleBackoff:
    """
    How long a throttled batch waits between its tries.

    # AWS: "Lambda continues to retry the message until the message's timestamp exceeds your queue's
    # visibility timeout" (Handling errors for an SQS event source in Lambda). AWS documents no waits:
    # these numbers are ours.

    Attributes:
        initial: first wait.
        factor: growth from one wait to the next.
        longest: cap of a wait.
        jitter: share of a wait that is taken off at random, 0 to 1.
        retries: false drops a batch at its first throttle.
    """

    initial: timedelta = timedelta(milliseconds=100)
    factor: float = 2.0
    longest: timedelta = timedelta(milliseconds=300)
    jitter: float = 0.2
    retries: bool = True

    def wait(self, throttles: int, *, left: timedelta, random: random.Random) -> timedelta | None:
        """
        Return the wait after a throttled try, or None to drop the batch.

        Args:
            throttles: throttled tries so far, from 1.
            left: rest of the visibility timeout, which began with the receive.
            random: source of the jitter, seeded by you.

        Returns:
            None if the visibility timeout would end first: the messages then return by themselves, and their
            receive has been counted.
        """
        if not self.retries:
            return None
        grown = self.initial * self.factor ** min(throttles - 1, _MAX_DOUBLINGS)
        wait = min(grown, self.longest) * (1 - self.jitter * random.random())
        return wait if wait < left else None


class Winner(StrEnum):
    """Which of the batches that wait for a slot gets a free one."""

    CHANCE = "chance"  # the one that is tried next
    HIGHEST = "highest"  # at once the one of the highest lane
    LOWEST = "lowest"  # at once the one of the lowest lane
    OLDEST = "oldest"  # at once the one that has waited longest

    def rank(self, *, position: int, until: float) -> int | None:
        """
        Return the place of a waiting batch, lowest first; None if a free slot is offered to no batch.

        Args:
            position: of the batch's lane, 0 for the highest.
            until: end of the batch's visibility timeout.
        """
        match self:
            case Winner.CHANCE:
                return None
            case Winner.HIGHEST:
                return position
            case Winner.LOWEST:
                return -position
            case Winner.OLDEST:
                return int(until * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """
    How a mapping comes to its concurrency.

    # AWS documents numbers for standard queues only: it starts with 5 and adds up to 300 a minute
    # (Configuring scaling for SQS event source mappings).

    Attributes:
        first: concurrency of a new mapping; 0 for all of it at once.
        per_second: concurrency that is added each second while there is more to receive.
        shrinks: whether each throttled try takes one unit of the concurrency away, down to one.
            # AWS: "Lambda gradually backs off retries by reducing the amount of concurrency allocated to your Amazon
            # SQS event source mapping" (Handling errors for an SQS event source in Lambda), without numbers.
    """

    first: int = 0
    # The documented 300 a minute of standard queues.
    per_second: float = 5.0
    shrinks: bool = False

    def start(self, settings: MappingSettings) -> int:
        """Return the concurrency of a new mapping."""
        return min(self.first or settings.concurrency, settings.concurrency)

    def added(self, seconds: float, *, random: random.Random) -> int:
        """Return the concurrency to add after some seconds, a fraction of one by chance."""
        wanted = self.per_second * seconds
        return int(wanted) + (random.random() < wanted % 1)


def start_order(mapping_names: Collection[str], *, seed: int) -> list[str]:
    """Return an order for the first polls of mappings: AWS documents none, so the seed decides."""
    order = sorted(mapping_names)
    random.Random(seed).shuffle(order)  # noqa: S311 - an order, not a secret
    return order


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


class BatchOutcome(StrEnum):
    """The meaning of an invocation for its batch."""

    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """
    Which messages of a batch are deleted.

    Attributes:
        outcome: success, partial batch response or failure of the whole batch.
        failed_ids: ids that stay in the queue until their visibility timeout ends.
        reason: why the whole batch failed; empty otherwise.
    """

    outcome: BatchOutcome
    failed_ids: frozenset[str] = frozenset()
    reason: str = ""


def is_dropped(payload: bytes) -> bool:
    """Whether a function returned nothing: a mapping takes that for the success of every record."""
    return payload.strip() in (b"", b"null")


def failed(message_ids: Collection[str], reason: str) -> Verdict:
    """
    Return the verdict that deletes nothing.

    # AWS: after an exception or a timeout every message of the batch stays in the queue until its visibility
    # timeout ends; a dropped batch as well (Handling errors for an SQS event source in Lambda).
    """
    return Verdict(outcome=BatchOutcome.FAILED, failed_ids=frozenset(message_ids), reason=reason)


def judge(
    payload: bytes, *, message_ids: Collection[str], function_error: str | None, reports_failures: bool
) -> Verdict:
    """
    Return the verdict on an invocation.

    Args:
        payload: the answer as the function returned it.
        message_ids: ids of the batch.
        function_error: kind of function error, timeout included; None if the handler returned.
        reports_failures: the mapping has ReportBatchItemFailures; if not, every return is a success.
    """
    if function_error is not None:
        return failed(message_ids, function_error)
    # AWS: without ReportBatchItemFailures each answer is a success, with it an empty one (errors of SQS mappings).
    if not reports_failures or not payload.strip():
        return Verdict(outcome=BatchOutcome.SUCCEEDED)
    try:
        answer = json.loads(payload)
    except ValueError as error:
        return failed(message_ids, f"unusable answer: {error}")
    return read_answer(answer, message_ids=message_ids)


def read_answer(answer: Any, *, message_ids: Collection[str]) -> Verdict:
    """
    Read a partial batch response.

    # AWS: Handling errors for an SQS event source in Lambda, "Success and failure conditions". An empty or
    # null answer or list is success. Malformed JSON, a missing, empty or null itemIdentifier and an id that is
    # not in the batch fail the whole batch. AWS does not mention JSON of another type; it fails the batch here,
    # since nothing can be read from it.
    """
    try:
        reported = _reported_ids(answer, frozenset(message_ids))
    except ValueError as error:
        return failed(message_ids, f"unusable answer: {error}")
    if reported:
        return Verdict(outcome=BatchOutcome.PARTIAL, failed_ids=reported)
    return Verdict(outcome=BatchOutcome.SUCCEEDED)


def _reported_ids(answer: Any, message_ids: frozenset[str]) -> frozenset[str]:
    """
    Return the reported ids.

    Raises:
        ValueError: the answer fails the whole batch.
    """
    if answer is None:
        return frozenset()
    if not isinstance(answer, dict):
        raise ValueError(f"{type(answer).__name__} instead of an object")  # noqa: TRY004 - a fault of data
    failures = answer.get("batchItemFailures")
    if failures is None:
        return frozenset()
    if not isinstance(failures, list):
        raise ValueError("batchItemFailures is not a list")  # noqa: TRY004 - a fault of data
    return frozenset(_reported_id(item, message_ids) for item in failures)


def _reported_id(item: Any, message_ids: frozenset[str]) -> str:
    identifier = item.get("itemIdentifier") if isinstance(item, dict) else None
    if not isinstance(identifier, str) or identifier not in message_ids:
        raise ValueError(f"itemIdentifier {identifier!r} is not in the batch")
    return identifier
