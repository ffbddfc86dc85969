"""
Which lanes there are and how their consumer behaves: the resolved form of `lanes.toml`.

Owns the words lane, threshold and stage. Pure data: `lanes.config_file` reads and checks it.
"""

from __future__ import annotations

import enum
import fnmatch
from collections.abc import Mapping  # noqa: TC003 - doctests read the records' types
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike

VISIBILITY_FACTOR = 6
RECHECK_IN_ROOM = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """
    One FIFO queue with its dead-letter queue and its event source mapping.

    Attributes:
        name: letters, digits, `_` and `-`; starts with an upper-case letter or a digit.
        threshold: the lowest priority that still enters this lane; the last lane takes what is left.
        position: place in the order of lanes, 0 is the highest.
        batch_size: most records in one invocation, 1 to 10.
        visibility_timeout: of the queue; in `lanes.toml` 6 times the function timeout unless set.
        yield_delay_min: shortest time for which yielded records are parked.
        yield_delay_max: longest time for which yielded records are parked.
        max_wait: from this wait on a message is served from the reserve; without it strict priority holds.
        maximum_concurrency: most invocations that the mapping of this lane starts at once.
        tenant_share: most share of the slots that one tenant's messages hold while others may wait behind them.
        tenant_separator: ends the part of a group that names the tenant; a group without it is a tenant itself.
    """

    name: str
    threshold: int | None = None
    position: int = 0
    batch_size: int = 10
    visibility_timeout: timedelta = timedelta(minutes=3)
    yield_delay_min: timedelta = timedelta(seconds=5)
    yield_delay_max: timedelta = timedelta(seconds=15)
    max_wait: timedelta | None = None
    maximum_concurrency: int = 2
    tenant_share: float | None = None
    tenant_separator: str = ":"

    def tenant_of(self, group: str) -> str:
        """Give the tenant whose group this is."""
        return group.partition(self.tenant_separator)[0]

    def outranks(self, other: Lane) -> bool:
        """Tell whether messages of this lane go before those of the other."""
        return self.position < other.position


class OnDeadLetter(enum.StrEnum):
    """What becomes of the later messages of a group when one of it is dead-lettered."""

    CONTINUE = "continue"
    """They are handled."""
    HOLD = "hold"
    """They follow it into the dead-letter queue, until an operator lets the group go."""


class Tracing(enum.StrEnum):
    """Who records what the consumer does with each message."""

    OFF = "off"
    """Nobody; a message's trace context is passed on all the same."""
    XRAY = "xray"
    """AWS X-Ray."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """
    How the one function behind all lanes behaves.

    Attributes:
        reserved_concurrency: slots: invocations that run at once, over all lanes.
        waiting_room: whether batches wait for a slot inside the function, so that Lambda throttles none.
        function_timeout: Lambda's limit for one invocation, whole seconds up to 15 minutes.
        memory_mb: memory of the function.
        max_attempts: failed attempts after which a message is dead-lettered.
        backoff_base: wait after the first failed attempt; doubles with each.
        backoff_max: longest wait after a failed attempt.
        recheck_interval: most age of what the consumer knows of the higher lanes, at most 1 s.
        record_time: what one record takes; without it the longest one seen.
        idempotency: whether a message id that was done is skipped when it comes again.
        idempotency_window: for how long a done message id is remembered.
        reserve: share of capacity for messages beyond their lane's `max_wait`, 0 to 0.5.
        on_dead_letter: what becomes of a group when a message of a kind is dead-lettered, by patterns of kinds; the
            first pattern that matches counts, and a group goes on where none does.
        tracing: who records a trace of each message.
    """

    reserved_concurrency: int = 1
    waiting_room: bool = False
    function_timeout: timedelta = timedelta(seconds=30)
    memory_mb: int = 512
    max_attempts: int = 5
    backoff_base: timedelta = timedelta(seconds=2)
    backoff_max: timedelta = timedelta(minutes=15)
    recheck_interval: timedelta = timedelta(milliseconds=250)
    record_time: timedelta | None = None
    idempotency: bool = False
    idempotency_window: timedelta = timedelta(days=1)
    reserve: float = 0.05
    on_dead_letter: Mapping[str, OnDeadLetter] = field(default_factory=dict)
    tracing: Tracing = Tracing.OFF

    def holds_group_of(self, kind: str) -> bool:
        """Tell whether the group of a dead letter of this kind is held; a body that is no event has an empty kind."""
        rules = self.on_dead_letter
        rule = next((rules[pattern] for pattern in rules if fnmatch.fnmatchcase(kind, pattern)), None)
        return rule is OnDeadLetter.HOLD


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSettings:
    """
    How the relay of an outbox behaves.

    Attributes:
        enabled: whether the stack has an outbox of its own, in DynamoDB.
        batch: most entries that one claim takes.
        tick: longest pause of a relay that polls; it begins far shorter and doubles while nothing is due.
        lock: for how long a claimed entry belongs to its relay.
        max_attempts: failed attempts after which an entry is abandoned.
        retry_base: wait after the first failed attempt.
        retry_factor: growth of the wait from one attempt to the next.
        retry_cap: longest wait.
        retry_jitter: share by which chance shortens or lengthens a wait, 0 to 1.
        published_retention: for how long a published entry stays to be looked at.
        abandoned_retention: for how long an abandoned one does.
        lane_window: most messages that the relay keeps waiting in a lane, by its name; no limit where none is set.
    """

    enabled: bool = False
    batch: int = 25
    tick: timedelta = timedelta(seconds=1)
    lock: timedelta = timedelta(minutes=5)
    max_attempts: int = 3
    retry_base: timedelta = timedelta(minutes=1)
    retry_factor: float = 2.0
    retry_cap: timedelta = timedelta(hours=1)
    retry_jitter: float = 0.25
    published_retention: timedelta = timedelta(days=7)
    abandoned_retention: timedelta = timedelta(days=30)
    lane_window: Mapping[str, int] = field(default_factory=dict)


def default_lanes() -> tuple[Lane, ...]:
    """Give the lanes of a configuration that names none: HIGH from 50, MEDIUM from 0, MAIN for the rest."""
    return (
        Lane(name="HIGH", threshold=50, position=0),
        Lane(name="MEDIUM", threshold=0, position=1),
        Lane(name="MAIN", position=2),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesConfig:
    """
    The lanes, highest first, and the settings of their consumer and of the outbox.

    Built by `load` or `from_dict`, which report every problem at once.

    Example:
        >>> config = LanesConfig.from_dict({"consumer": {"reserved_concurrency": 2}})
        >>> [lane.name for lane in config.lanes]
        ['HIGH', 'MEDIUM', 'MAIN']
        >>> config.lane_for(49).name
        'MEDIUM'
    """

    enabled: bool = True
    lanes: tuple[Lane, ...] = field(default_factory=default_lanes)
    consumer: ConsumerSettings = field(default_factory=ConsumerSettings)
    outbox: OutboxSettings = field(default_factory=OutboxSettings)
    stage: str | None = None

    @classmethod
    def load(cls, path: str | PathLike[str], *, stage: str | None = None) -> LanesConfig:
        """
        Read a `lanes.toml`.

        Args:
            path: the file.
            stage: name of the stage whose settings go over the general ones.

        Raises:
            ConfigurationError: with everything that is wrong in the file, its other stages included.
        """
        from lanes.config_file import read_file

        return read_file(path, stage=stage)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], *, stage: str | None = None) -> LanesConfig:
        """
        Build a configuration from the content of a `lanes.toml`, or from what `to_dict` gave.

        Raises:
            ConfigurationError: with everything that is wrong.
        """
        from lanes.config_file import resolve

        return resolve(raw, stage=stage)

    def to_dict(self, *, brief: bool = False) -> dict[str, Any]:
        """
        Give the resolved settings as JSON-able data, durations in seconds; `from_dict` reads them back.

        Args:
            brief: leave out what `from_dict` fills in by itself.
        """
        from lanes.config_file import to_dict

        return to_dict(self, brief=brief)

    @property
    def last_lane(self) -> Lane:
        """The lowest lane, which takes whatever no other takes."""
        return self.lanes[-1]

    def lane(self, name: str) -> Lane:
        """
        Give the lane of this name.

        Raises:
            KeyError: no lane has it.
        """
        for lane in self.lanes:
            if lane.name == name:
                return lane
        raise KeyError(f"no lane {name!r}; there are {', '.join(lane.name for lane in self.lanes)}")

    def lane_for(self, priority: int) -> Lane:
        """Give the highest lane whose threshold is at or below the priority, else the last lane."""
        if self.enabled:
            for lane in self.lanes[:-1]:
                if lane.threshold is not None and lane.threshold <= priority:
                    return lane
        return self.last_lane

    def lanes_above(self, lane: Lane) -> tuple[Lane, ...]:
        """Give the lanes that a lane yields to, highest first; none when priority lanes are switched off."""
        return self.lanes[: lane.position] if self.enabled else ()

    def lanes_below(self, lane: Lane) -> tuple[Lane, ...]:
        """Give the lanes that yield to a lane, highest first; none when priority lanes are switched off."""
        return self.lanes[lane.position + 1 :] if self.enabled else ()

    @property
    def function_concurrency(self) -> int:
        """Invocations that Lambda may run at once: the slots, and with a waiting room those that wait for one."""
        slots = self.consumer.reserved_concurrency
        return max(slots, self._most_started) if self.enabled and self.consumer.waiting_room else slots

    @property
    def has_waiting_room(self) -> bool:
        """Whether more invocations may run than there are slots."""
        settings = self.consumer
        return settings.waiting_room and self.enabled and self._most_started > settings.reserved_concurrency

    @property
    def _most_started(self) -> int:
        return sum(lane.maximum_concurrency for lane in self.lanes)

    def notes(self) -> list[str]:
        """Explain settings that are allowed and whose consequences are easily missed."""
        notes = []
        total = self._most_started
        slots = self.consumer.reserved_concurrency
        if slots < total and not self.has_waiting_room:
            notes.append(
                f"reserved_concurrency is {slots} and the mappings may start {total} invocations at once: "
                f"Lambda throttles the difference and tries again. This is right where the resource behind "
                f"bears only {slots} at a time (no mapping can go below 2); otherwise raise it to {total}. With "
                f"waiting_room = true the difference waits inside the function, and urgent messages far less."
            )
        if not self.enabled:
            notes.append(f"enabled is false: every message goes to {self.last_lane.name} and nothing yields.")
        if slots == 1 and any(lane.tenant_share is not None for lane in self.lanes):
            notes.append("tenant_share has no effect with one slot: there is nothing to share.")
        if self.lanes[0].max_wait is not None and self.enabled:
            notes.append(
                f"max_wait of {self.lanes[0].name} has no effect: nothing goes before the highest lane."
            )
        return notes
