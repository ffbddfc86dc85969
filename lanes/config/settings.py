"""
The settings of `lanes.toml`, each declared once: name, default, bounds, meaning, and the table that it belongs to.

Reading, the checks at synth and the tables of docs/reference/lanes-toml.md come from these declarations. Owns the words
lane and threshold.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping  # noqa: TC003 - doctests read the records' types
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from lanes.config.table import SECOND, ConfigTable, declared, setting, settings_of
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
# AWS: a visibility timeout is at most 12 hours (SQSDeveloperGuide/sqs-visibility-timeout).
LONGEST_VISIBILITY = timedelta(hours=12)
# AWS: 2 to 1,000 (lambda/latest/api/API_ScalingConfig).
LOWEST_CONCURRENCY, HIGHEST_CONCURRENCY = 2, 1000
# AWS: a function runs for at most 15 minutes (lambda/latest/dg/gettingstarted-limits).
LONGEST_FUNCTION = timedelta(minutes=15)
# AWS: SQS drops a repeat within five minutes (SQS developer guide, "Exactly-once processing"). After a lock that ended,
# the next relay begins within a minute and sends for up to half of its own lock: 150 + 60 + 75 s.
LONGEST_LOCK = timedelta(seconds=150)

PULL, WEIGHTED = 'engine = "pull"', 'engine = "pull" and policy = "weighted"'
"""The conditions under which some settings have an effect."""


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


class Overlap(enum.StrEnum):
    """The treatment of a schedule's message that is due before the last one is done."""

    QUEUE = "queue"
    """It waits for its turn."""
    SKIP = "skip"
    """It is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """
    One FIFO queue with its dead-letter queue and, in the mapped engine, its event source mapping.

    `position` is its index in the order of lanes, 0 is the highest. The other attributes are the keys of a `[[lanes]]`
    table.
    """

    # Begins with a capital or a digit, since other items of the index that holds parked records begin with a small
    # letter (`lanes.aws.items`).
    name: str = field(
        metadata=declared(
            "unique, ignoring case and punctuation; not another name followed by `DeadLetter`",
            within="`[A-Z0-9]`, then up to 39 letters, digits, `_`, `-`",
        )
    )
    threshold: int | None = setting(
        None,
        ConfigTable.integer,
        "lowest priority; must decrease from lane to lane. Only the last lane can omit it",
        within="any whole number",
    )
    position: int = 0
    # With 1 in the lower lanes HIGH's p99 is 1.1 to 1.8 times as long, and 0.90 to 0.93 of the work is done
    # (docs/decisions.md#defaults).
    batch_size: int = setting(
        10,
        ConfigTable.integer,
        "maximum number of records in one invocation; mapped engine. From twice as many slots as lanes on, 1 in the "
        "highest lane and 2 in the middle ones",
        minimum=1,
        maximum=LARGEST_BATCH,
    )
    visibility_timeout: timedelta = setting(
        timedelta(minutes=3),
        ConfigTable.duration,
        "how long SQS hides received messages; by default 6 times `function_timeout`",
        within="6 times `function_timeout` to 12h, whole seconds",
        maximum=LONGEST_VISIBILITY,
        whole_seconds=True,
    )
    yield_delay_min: timedelta = setting(
        timedelta(seconds=5),
        ConfigTable.duration,
        "minimum time for which yielded records are parked; 15s with two slots or more and no `max_wait`",
        minimum=SECOND,
        maximum=LONGEST_VISIBILITY,
    )
    yield_delay_max: timedelta = setting(
        timedelta(seconds=15),
        ConfigTable.duration,
        "maximum of that time, longer after very many receives; 30s with a default of 15s before it",
        within="`yield_delay_min` to 12h",
        minimum=SECOND,
        maximum=LONGEST_VISIBILITY,
    )
    max_wait: timedelta | None = setting(
        None,
        ConfigTable.duration,
        "messages that have waited longer are served from the `reserve`; without it priority is strict",
        minimum=SECOND,
    )
    # `lanes.toml` gives the number of slots: with twice that, HIGH's p99 is 1.6 to 1.8 times as long
    # (docs/decisions.md#defaults).
    maximum_concurrency: int = setting(
        2,
        ConfigTable.integer,
        "maximum number of slots that serve the lane at once; by default `reserved_concurrency`, but at least 2. From "
        "twice as many slots as lanes on the mappings share them: two for each middle lane, and half of the rest for "
        "the highest",
        minimum=LOWEST_CONCURRENCY,
        maximum=HIGHEST_CONCURRENCY,
    )
    tenant_share: float | None = setting(
        None,
        ConfigTable.number,
        "maximum share of the slots for one tenant while others may wait",
        needs=PULL,
        minimum=0.01,
        maximum=1.0,
    )
    # Weights of one configuration are relative to each other; with more than this between them a lane starves.
    weight: float = setting(
        1.0,
        ConfigTable.number,
        "the lane's part of the slots' time, relative to the other lanes",
        needs=WEIGHTED,
        minimum=0.01,
        maximum=100.0,
    )
    kinds: tuple[str, ...] = setting(
        (),
        ConfigTable.texts,
        "the kinds that the lane takes, all without the key; any other message is dead-lettered before it can touch "
        "others' work",
        within="list of patterns",
    )
    closing: bool = setting(
        False,
        ConfigTable.boolean,
        "whether producers skip the lane, so that you can remove it once it is empty",
    )

    def takes(self, kind: str) -> bool:
        """Check whether the lane takes messages of a kind; a raw body has an empty one."""
        return not self.kinds or first_like(kind, self.kinds) is not None

    def tenant_of(self, group: str) -> str:
        """Return the tenant of a group: its name before the first colon; without one, a tenant of its own."""
        return group.partition(":")[0]

    def outranks(self, other: Lane) -> bool:
        """Check whether this lane has priority over the other."""
        return self.position < other.position


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """Settings of the function that consumes all lanes, the keys of the table `[consumer]`."""

    # The usual need of a fragile resource, which AWS's advice of five or more rules out
    # (docs/decisions.md#throttles-by-design).
    reserved_concurrency: int = setting(
        1, ConfigTable.integer, "the slots: concurrent invocations over all lanes", minimum=1
    )
    # A second of it is kept for settling, and a tenth for the first receive. Of two seconds that was too little:
    # records of one second returned for ever, and of one second none was started.
    function_timeout: timedelta = setting(
        timedelta(seconds=30),
        ConfigTable.duration,
        "Lambda ends an invocation then",
        minimum=timedelta(seconds=5),
        maximum=LONGEST_FUNCTION,
        whole_seconds=True,
    )
    # AWS: 128 MB to 10,240 MB (lambda/latest/dg/configuration-memory).
    memory_mb: int = setting(512, ConfigTable.integer, "memory of the function", minimum=128, maximum=10240)
    # The other half of the receives is left to yields.
    max_attempts: int = setting(
        5,
        ConfigTable.integer,
        "failed attempts before a dead letter",
        minimum=1,
        maximum=MAX_RECEIVES // 2,
    )
    # A message that fails five times keeps its group for about 26 s, and an outage of that length dead-letters
    # nothing (docs/decisions.md#defaults).
    backoff_base: timedelta = setting(
        timedelta(seconds=2),
        ConfigTable.duration,
        "delay after the first failed attempt; doubles with each, less a random quarter at most",
        maximum=LONGEST_VISIBILITY,
    )
    backoff_max: timedelta = setting(
        timedelta(minutes=15),
        ConfigTable.duration,
        "maximum delay after a failed attempt",
        within="`backoff_base` to 12h",
        maximum=LONGEST_VISIBILITY,
    )
    # Longer than a deploy and its rollback; a group waits behind a misspelt kind for as long. SQS keeps a message for
    # 14 days at most, and would drop it without a dead letter.
    unknown_kind_for: timedelta = setting(
        timedelta(hours=1),
        ConfigTable.duration,
        "how long a message of a kind without a handler waits for one",
        maximum=timedelta(days=7),
    )
    # AWS: a message lives at most 14 days (SQS quotas).
    unavailable_for: timedelta = setting(
        timedelta(days=1),
        ConfigTable.duration,
        "how long a message may find its resource away while others of it are handled",
        minimum=SECOND,
        maximum=timedelta(days=14),
    )
    # With 500 ms HIGH's p99 is 1.1 to 1.3 times as long; with 100 ms it takes an eighth more calls
    # (docs/decisions.md#defaults).
    recheck_interval: timedelta = setting(
        timedelta(milliseconds=250),
        ConfigTable.duration,
        "maximum age of the last check of the higher lanes when a record starts; 150ms from ten slots on, with "
        '`engine = "pull"` 400ms from two on',
        maximum=SECOND,
    )
    record_time: timedelta | None = setting(
        None,
        ConfigTable.duration,
        "expected time of one record, by default the longest seen. With less time and one second left, the rest of the "
        "batch is returned",
        within="0 to under `function_timeout`",
        maximum=LONGEST_FUNCTION,
    )
    idempotency: bool = setting(
        False,
        ConfigTable.boolean,
        "whether to skip a message that was already done, for three writes a message",
    )
    idempotency_window: timedelta = setting(
        timedelta(days=1), ConfigTable.duration, "how long a done message is remembered", minimum=SECOND
    )
    # Beyond a half, overdue messages would get more of the slots than urgent ones.
    reserve: float = setting(
        0.05,
        ConfigTable.number,
        "share of capacity for messages beyond the `max_wait` of their lane",
        minimum=0.0,
        maximum=0.5,
    )
    on_exhausted: Mapping[str, OnExhausted] = setting(
        {},
        ConfigTable.entries,
        "what becomes of a message that has used up its attempts, below",
        within='table by pattern of kinds: `"dead_letter"`, `"block"`',
        read=ConfigTable.choice,
        allowed=OnExhausted,
    )
    max_rates: Mapping[str, float] = setting(
        {},
        ConfigTable.entries,
        "the most records a second or minute of a kind, or of all kinds of a pattern, that all slots start together, "
        "the most urgent first; other kinds go on. Each start costs a write to the table",
        within='table by pattern of kinds: `"1/min"` or more',
        read=ConfigTable.rate,
    )
    # An unknown name is one problem: settings that depend on it are read as if it were right.
    engine: EngineName = setting(
        EngineName.MAPPINGS,
        ConfigTable.choice,
        "how slots get their messages",
        allowed=EngineName,
        otherwise=EngineName.PULL,
    )
    linger: timedelta = setting(
        SECOND,
        ConfigTable.duration,
        "how long a slot waits at empty lanes",
        within="0 to `function_timeout`",
        needs=PULL,
    )
    policy: Policy = setting(
        Policy.STRICT,
        ConfigTable.choice,
        "whether the highest lane that has messages is served next, or all that have some by their `weight`",
        needs=PULL,
        allowed=Policy,
        otherwise=Policy.WEIGHTED,
    )
    max_rate: float | None = setting(
        None, ConfigTable.rate, "records that all slots together start a second", needs=PULL
    )

    @property
    def is_weighted(self) -> bool:
        """Whether the lanes are served by their weights."""
        return self.engine is EngineName.PULL and self.policy is Policy.WEIGHTED

    def without_effect(self, record: type) -> list[str]:
        """Return the keys of a record that need another engine or policy."""
        met = {"": True, PULL: self.engine is EngineName.PULL, WEIGHTED: self.is_weighted}
        return [key for key, one in settings_of(record).items() if not met[one.needs]]

    def blocks(self, kind: str) -> bool:
        """Check whether a message of this kind blocks its group once its attempts are used up; a raw body has none."""
        pattern = first_like(kind, self.on_exhausted)
        return pattern is not None and self.on_exhausted[pattern] is OnExhausted.BLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSettings:
    """Settings of an outbox and its relay, the keys of the table `[outbox]`."""

    enabled: bool = setting(False, ConfigTable.boolean, "whether your stack has its own outbox, in DynamoDB")
    # Whole calls of ten to SQS. In DynamoDB each entry of a claim is a conditional update, and all must be sent within
    # the lock.
    batch: int = setting(
        100, ConfigTable.integer, "maximum number of entries in one claim", minimum=1, maximum=100
    )
    tick: timedelta = setting(
        timedelta(milliseconds=250),
        ConfigTable.duration,
        "maximum pause of a relay while nothing is due; the pause begins at 50 ms and doubles",
        minimum=timedelta(milliseconds=50),
    )
    # A relay sends for half of it at most; a shorter lock would end amid a call. If it dies, the scheduled relay of the
    # next minute sends the rest of the claim again within its own half, all within the five minutes in which SQS drops
    # a repeat.
    lock: timedelta = setting(
        timedelta(minutes=2),
        ConfigTable.duration,
        "how long a claimed entry belongs to its relay",
        minimum=timedelta(seconds=2),
        maximum=LONGEST_LOCK,
    )
    max_attempts: int = setting(
        3, ConfigTable.integer, "refusals before an entry is abandoned", minimum=1, maximum=100
    )
    # Only a refusal of the entry itself is an attempt, so the delay gives you time to fix its cause.
    retry_base: timedelta = setting(
        timedelta(minutes=1),
        ConfigTable.duration,
        "delay after the first failed attempt",
        within="0 to `retry_cap`",
    )
    retry_factor: float = setting(
        2.0, ConfigTable.number, "its growth with each attempt", minimum=1.0, maximum=100.0
    )
    retry_cap: timedelta = setting(
        timedelta(hours=1), ConfigTable.duration, "maximum delay", within="`retry_base` or more"
    )
    retry_jitter: float = setting(
        0.25, ConfigTable.number, "random share of a delay, more or less", minimum=0.0, maximum=1.0
    )
    published_retention: timedelta = setting(
        timedelta(days=7), ConfigTable.duration, "how long a published entry is kept", minimum=SECOND
    )
    abandoned_retention: timedelta = setting(
        timedelta(days=30),
        ConfigTable.duration,
        "how long an abandoned or cancelled entry is kept",
        minimum=SECOND,
    )
    on_abandoned: str = setting(
        "continue",
        ConfigTable.choice,
        "whether the group of an abandoned entry continues, or waits until you retry or cancel it",
        allowed=("continue", "hold"),
    )
    lane_window: Mapping[str, int] = setting(
        {},
        None,
        "maximum number of messages that the relay keeps in a lane; a number for all, or a table by lane",
        within="1 or more",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A message that EventBridge Scheduler sends again and again, the keys of a `[[schedules]]` table."""

    name: str = field(
        metadata=declared(
            "unique; part of each message's id", within="1 to 60 letters, digits, `_`, `-`, `.`"
        )
    )
    kind: str = field(
        metadata=declared("kind of the messages", within="up to 96 ASCII characters with the name")
    )
    cron: str | None = setting(
        None,
        None,
        "minute, hour, day of the month, month, day of the week; `*`, lists, ranges, steps, names",
        within="five fields; or `every`",
    )
    every: timedelta | None = setting(
        None,
        None,
        "time between two messages, from the deployment on",
        within="whole minutes; or `cron`",
    )
    timezone: str = setting("UTC", None, "of `cron`", within="IANA name")
    priority: int = setting(0, None, "priority of the messages", within='number, or `"BULK"` to `"CRITICAL"`')
    group: str | None = setting(
        None,
        None,
        "by default `schedule-<name>`; two messages of a group never run at once",
        within="a message group",
    )
    data: Any = setting(None, None, "data of the messages", within="any JSON")
    overlap: Overlap = setting(
        Overlap.QUEUE,
        ConfigTable.choice,
        "whether a message that is due while another runs waits, or is dropped",
        allowed=Overlap,
    )
    enabled: bool = setting(True, ConfigTable.boolean, "whether it sends")

    @property
    def message_group_id(self) -> str:
        """The message group of its messages."""
        return self.group or f"schedule-{self.name}"


# In TOML a key belongs to the last table header above it, so one that is appended to a file lands in a lane.
TABLE_OF = {
    **dict.fromkeys(settings_of(Schedule), "[[schedules]]"),
    **dict.fromkeys(settings_of(OutboxSettings), "[outbox]"),
    **dict.fromkeys(settings_of(Lane), "[[lanes]]"),
    **dict.fromkeys(settings_of(ConsumerSettings), "[consumer]"),
}
"""The table of each key of `lanes.toml`. A key that two tables have counts as the consumer's."""


def default_lanes() -> tuple[Lane, ...]:
    """Return the default lanes: HIGH from 50, MEDIUM from 0, MAIN for the rest."""
    return (
        Lane(name="HIGH", threshold=50, position=0),
        Lane(name="MEDIUM", threshold=0, position=1),
        Lane(name="MAIN", position=2),
    )
