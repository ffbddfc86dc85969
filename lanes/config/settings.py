"""
The settings of `lanes.toml` as records: lanes, the consumer, the outbox, schedules.

Owns the words lane and threshold.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping  # noqa: TC003 - doctests read the records' types
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from lanes.message_filter import first_like

# AWS: six times the function timeout, so that a throttled batch can be tried again in time (Lambda developer guide,
# queue for a mapping).
VISIBILITY_FACTOR = 6
# AWS: SQS delivers at most ten messages at once, and so does a mapping of a FIFO queue (API_ReceiveMessage, Lambda's
# CreateEventSourceMapping).
LARGEST_BATCH = 10
# AWS: the largest maxReceiveCount; SQS moves a message away after so many receives of any cause (Amazon SQS developer
# guide, "Configure a dead-letter queue").
MAX_RECEIVES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """
    One FIFO queue with its dead-letter queue and, in the mapped engine, its event source mapping.

    Attributes:
        name: letters, digits, `_` and `-`; starts with an upper-case letter or a digit.
        threshold: the lowest priority of this lane; the last lane takes all lower ones.
        position: index in the order of lanes, 0 is the highest.
        batch_size: maximum number of records in one invocation, 1 to 10.
        visibility_timeout: of the queue; in `lanes.toml` 6 times the function timeout by default.
        yield_delay_min: minimum time for which yielded records are parked.
        yield_delay_max: maximum time for which yielded records are parked.
        max_wait: messages that have waited longer are served from the reserve; without it priority is strict.
        maximum_concurrency: maximum number of concurrent invocations of this lane's mapping; in the pull engine, of
            slots that serve the lane at once.
        tenant_share: maximum share of the slots for the messages of one tenant while others may wait; for
            `EngineName.PULL`.
        weight: the lane's part of the records under saturation, relative to the other lanes; for `Policy.WEIGHTED`.
        closing: whether producers skip the lane; its messages are handled as before, until it is empty and removed.
        kinds: patterns of the kinds that the lane takes, all by default; the consumer dead-letters any other message.
    """

    name: str
    threshold: int | None = None
    position: int = 0
    # With 1 in the lower lanes HIGH's p99 is 1.1 to 1.8 times as long, and 0.90 to 0.93 of the work is done
    # (docs/decisions.md#defaults).
    batch_size: int = 10
    visibility_timeout: timedelta = timedelta(minutes=3)
    # For one slot; with several, and without `max_wait`, they are 15 and 30 s
    # (`lanes.config.lane_tables.LONG_PARKING`).
    yield_delay_min: timedelta = timedelta(seconds=5)
    yield_delay_max: timedelta = timedelta(seconds=15)
    max_wait: timedelta | None = None
    # AWS: the minimum of a mapping (API_ScalingConfig). `lanes.toml` gives the number of slots: with twice that,
    # HIGH's p99 is 1.6 to 1.8 times as long (docs/decisions.md#defaults).
    maximum_concurrency: int = 2
    tenant_share: float | None = None
    weight: float = 1.0
    closing: bool = False
    kinds: tuple[str, ...] = ()

    def takes(self, kind: str) -> bool:
        """Check whether the lane takes messages of a kind; a raw body has an empty one."""
        return not self.kinds or first_like(kind, self.kinds) is not None

    def tenant_of(self, group: str) -> str:
        """Return the tenant of a group: its name before the first colon; without one, a tenant of its own."""
        return group.partition(":")[0]

    def outranks(self, other: Lane) -> bool:
        """Check whether this lane has priority over the other."""
        return self.position < other.position


class EngineName(enum.StrEnum):
    """The way in which slots get their messages."""

    MAPPINGS = "mappings"
    """An event source mapping on each lane starts invocations with batches."""
    PULL = "pull"
    """Each invocation receives the most urgent messages itself; the bell starts it."""


class Policy(enum.StrEnum):
    """The choice of the lane that is served next, in the pull engine."""

    STRICT = "strict"
    """The highest lane that has messages."""
    WEIGHTED = "weighted"
    """All lanes that have messages, by their weights."""


class OnExhausted(enum.StrEnum):
    """What becomes of a message that has used up its attempts."""

    DEAD_LETTER = "dead_letter"
    """It is dead-lettered, and its group goes on."""
    BLOCK = "block"
    """It stays first in its group, and is tried until it succeeds or is cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """
    Settings of the function that consumes all lanes.

    Attributes:
        reserved_concurrency: the slots, the number of concurrent invocations over all lanes.
        function_timeout: Lambda's limit for one invocation, whole seconds up to 15 minutes.
        memory_mb: memory of the function.
        max_attempts: failed attempts after which a message is dead-lettered.
        backoff_base: delay after the first failed attempt; doubles with each attempt.
        backoff_max: maximum delay after a failed attempt.
        unknown_kind_for: how long a message of a kind without a handler waits for code that has one, before it is
            dead-lettered; old and new code meet in every deploy.
        unavailable_for: how long a message may find its resource away while others of it are handled, before it is
            dead-lettered.
        recheck_interval: maximum age of the backlog reading of the higher lanes, at most 1 s; in
            `lanes.toml` 150 ms from ten slots on, and 400 ms in the pull engine from two on.
        record_time: expected time of one record; by default the longest one seen.
        idempotency: whether to skip a message id that was already done.
        idempotency_window: how long a done message id is remembered.
        reserve: share of capacity for messages that exceed the `max_wait` of their lane, 0 to 0.5.
        on_exhausted: what becomes of a message that has used up its attempts, by patterns of kinds; the first one that
            matches decides, and by default it is dead-lettered.
        engine: the way in which slots get their messages. The settings below are for `EngineName.PULL` only.
        linger: how long a slot waits for messages before it leaves empty lanes.
        policy: the choice of the lane that is served next.
        max_rate: records a second that all slots start together; by default no limit.
        max_rates: records a second of a kind, or of the kinds of a pattern together, that all slots of either engine
            start; the first pattern that matches decides.
    """

    # The usual need of a fragile resource, which AWS's advice of five or more rules out
    # (docs/decisions.md#throttles-by-design).
    reserved_concurrency: int = 1
    function_timeout: timedelta = timedelta(seconds=30)
    memory_mb: int = 512
    max_attempts: int = 5
    # A message that fails five times keeps its group for about 26 s, and an outage of that length dead-letters
    # nothing (docs/decisions.md#defaults).
    backoff_base: timedelta = timedelta(seconds=2)
    backoff_max: timedelta = timedelta(minutes=15)
    # Longer than a deploy and its rollback; a group waits behind a misspelt kind for as long.
    unknown_kind_for: timedelta = timedelta(hours=1)
    unavailable_for: timedelta = timedelta(days=1)
    # With 500 ms HIGH's p99 is 1.1 to 1.3 times as long; with 100 ms it takes an eighth more calls
    # (docs/decisions.md#defaults).
    recheck_interval: timedelta = timedelta(milliseconds=250)
    record_time: timedelta | None = None
    idempotency: bool = False
    idempotency_window: timedelta = timedelta(days=1)
    reserve: float = 0.05
    on_exhausted: Mapping[str, OnExhausted] = field(default_factory=dict)
    engine: EngineName = EngineName.MAPPINGS
    linger: timedelta = timedelta(seconds=1)
    policy: Policy = Policy.STRICT
    max_rate: float | None = None
    max_rates: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_weighted(self) -> bool:
        """Whether the lanes are served by their weights."""
        return self.engine is EngineName.PULL and self.policy is Policy.WEIGHTED

    def blocks(self, kind: str) -> bool:
        """Check whether a message of this kind blocks its group once its attempts are used up; a raw body has none."""
        pattern = first_like(kind, self.on_exhausted)
        return pattern is not None and self.on_exhausted[pattern] is OnExhausted.BLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSettings:
    """
    Settings of an outbox and its relay.

    Attributes:
        enabled: whether the stack has its own outbox, in DynamoDB.
        batch: maximum number of entries in one claim.
        tick: maximum pause of a relay while nothing is due; the pause begins at 50 ms and doubles.
        lock: how long a claimed entry belongs to its relay.
        max_attempts: failed attempts after which an entry is abandoned.
        retry_base: delay after the first failed attempt.
        retry_factor: growth of the delay from one attempt to the next.
        retry_cap: maximum delay.
        retry_jitter: random share by which a delay shrinks or grows, 0 to 1.
        published_retention: how long a published entry is kept.
        abandoned_retention: how long an abandoned or cancelled entry is kept.
        on_abandoned: what an abandoned entry does to its group: `continue` lets later entries go on, `hold` keeps them
            until an operator retries or cancels it.
        lane_window: maximum number of messages that the relay keeps in a lane, by its name; by default no limit.
    """

    enabled: bool = False
    # Whole calls of ten to SQS.
    batch: int = 100
    tick: timedelta = timedelta(milliseconds=250)
    # A relay sends for half of it at most. If it dies, the scheduled relay of the next minute sends the rest of the
    # claim again within its own half, and all of that lies within the five minutes in which SQS drops a repeat.
    lock: timedelta = timedelta(minutes=2)
    max_attempts: int = 3
    # Only a refusal of the entry itself is an attempt, so the delay gives you time to fix its cause.
    retry_base: timedelta = timedelta(minutes=1)
    retry_factor: float = 2.0
    retry_cap: timedelta = timedelta(hours=1)
    retry_jitter: float = 0.25
    published_retention: timedelta = timedelta(days=7)
    abandoned_retention: timedelta = timedelta(days=30)
    on_abandoned: str = "continue"
    lane_window: Mapping[str, int] = field(default_factory=dict)


class Overlap(enum.StrEnum):
    """The treatment of a schedule's message that is due before the last one is done."""

    QUEUE = "queue"
    """It waits for its turn."""
    SKIP = "skip"
    """It is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """
    A message that EventBridge Scheduler sends again and again.

    One of `cron` and `every` is set.

    Attributes:
        name: unique among the schedules.
        kind: of the messages.
        cron: minute, hour, day of the month, month and day of the week, in the time of `timezone`.
        every: time between two messages, from the deployment on.
        timezone: name of a time zone (IANA).
        priority: of the messages; decides their lane.
        group: their message group; by default `schedule-<name>`, so that two never run at once.
        data: of the messages; any value that JSON can represent.
        overlap: the treatment of a message that is due before the last one is done: with `queue` it waits for its turn,
            with `skip` it is dropped.
        enabled: whether it sends.
    """

    name: str
    kind: str
    cron: str | None = None
    every: timedelta | None = None
    timezone: str = "UTC"
    priority: int = 0
    group: str | None = None
    data: Any = None
    overlap: Overlap = Overlap.QUEUE
    enabled: bool = True

    @property
    def message_group_id(self) -> str:
        """The message group of its messages."""
        return self.group or f"schedule-{self.name}"


CONSUMER_KEYS = tuple(ConsumerSettings.__slots__)
LANE_KEYS = tuple(key for key in Lane.__slots__ if key != "position")
OUTBOX_KEYS = tuple(OutboxSettings.__slots__)
SCHEDULE_KEYS = tuple(Schedule.__slots__)
# In TOML a key belongs to the last table header above it, so one that is appended to a file lands in a lane.
TABLE_OF = {
    **dict.fromkeys(SCHEDULE_KEYS, "[[schedules]]"),
    **dict.fromkeys(OUTBOX_KEYS, "[outbox]"),
    **dict.fromkeys(LANE_KEYS, "[[lanes]]"),
    **dict.fromkeys(CONSUMER_KEYS, "[consumer]"),
}
"""The table of each key of `lanes.toml`. A key that two tables have counts as the consumer's."""


def default_lanes() -> tuple[Lane, ...]:
    """Return the default lanes: HIGH from 50, MEDIUM from 0, MAIN for the rest."""
    return (
        Lane(name="HIGH", threshold=50, position=0),
        Lane(name="MEDIUM", threshold=0, position=1),
        Lane(name="MAIN", position=2),
    )
