"""
The lanes of a stage and the settings of their consumer: the resolved form of `lanes.toml`, read and written.

Owns the word stage.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - doctests read the records' types
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes.config.lanes import read_lanes
from lanes.config.reading import read_consumer, read_toml, resolve
from lanes.config.settings import ConsumerSettings, EngineName, Lane, OutboxSettings, Schedule, default_lanes

if TYPE_CHECKING:
    from collections.abc import Collection
    from os import PathLike


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesConfig:
    """
    The lanes, highest first, the settings of their consumer and of the outbox, and the schedules.

    Create it with `load` or `from_dict`, which report all problems at once.

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
    schedules: tuple[Schedule, ...] = ()
    scheduler: bool = False
    stage: str | None = None

    @classmethod
    def load(cls, path: str | PathLike[str], *, stage: str | None = None) -> LanesConfig:
        """
        Read a `lanes.toml`.

        Args:
            path: the file.
            stage: name of the stage; its settings override the general ones.

        Raises:
            ConfigurationError: with all problems of the file, including its other stages.
        """
        return cls(**resolve(read_toml(path), stage=stage, source=str(path), is_file=True))

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], *, stage: str | None = None) -> LanesConfig:
        """
        Build a configuration from the content of a `lanes.toml`, or from the data that `to_dict` returned.

        Raises:
            ConfigurationError: with all problems.
        """
        return cls(**resolve(raw, stage=stage))

    def to_dict(self, *, brief: bool = False) -> dict[str, Any]:
        """
        Return the resolved settings as JSON-able data, durations in seconds; `from_dict` reads them back.

        Settings that the engine has no use for are left out.

        Args:
            brief: omit the values that `from_dict` fills in by itself, and the schedules.
        """
        consumer = plain(self.consumer, without=self.consumer.without_effect(ConsumerSettings))
        lanes = [plain(lane, without=self.consumer.without_effect(Lane)) for lane in self.lanes]
        if brief:
            consumer, lanes = without_defaults(consumer, lanes, self.consumer)
        document: dict[str, Any] = {"enabled": self.enabled, "consumer": consumer, "lanes": lanes}
        if self.outbox != OutboxSettings():
            document["outbox"] = plain(self.outbox)
        if not brief:
            document |= {
                "scheduler": self.scheduler,
                "schedules": [_plain_schedule(one) for one in self.schedules],
            }
        return document if self.stage is None else {**document, "stage": self.stage}

    @property
    def last_lane(self) -> Lane:
        """The lowest lane, which takes all messages below the other thresholds."""
        return self.lanes[-1]

    def lane(self, name: str) -> Lane:
        """
        Return a lane by its name.

        Raises:
            KeyError: no lane has this name.
        """
        for lane in self.lanes:
            if lane.name == name:
                return lane
        raise KeyError(f"no lane {name!r}; the lanes are {', '.join(lane.name for lane in self.lanes)}")

    def slots_for(self, lane: Lane) -> range:
        """
        Return the slots of the pull engine that start for a send to a lane.

        Of the slots that serve it, the first ones may be busy with a lane of lower `maximum_concurrency`, so they are
        left out.
        """
        last = min(lane.maximum_concurrency, self.consumer.reserved_concurrency)
        lower = [one.maximum_concurrency for one in self.lanes if one.maximum_concurrency < last]
        return range(max(lower, default=0), last)

    def lane_for(self, priority: int) -> Lane:
        """Return the highest lane with a threshold at or below the priority that is not closing, else the last lane."""
        if self.enabled:
            for lane in self.lanes[:-1]:
                if lane.threshold is not None and lane.threshold <= priority and not lane.closing:
                    return lane
        return self.last_lane

    @property
    def serves_in_place(self) -> bool:
        """
        Whether an invocation of a mapping serves what is more urgent in its own slot, and yields nothing.

        That takes mappings of which Lambda throttles none: what a throttled one has taken out, nobody can receive.
        """
        started = sum(lane.maximum_concurrency for lane in self.lanes)
        return self.consumer.engine is EngineName.MAPPINGS and started <= self.consumer.reserved_concurrency

    @property
    def receives(self) -> bool:
        """Whether slots receive from the lanes themselves."""
        return self.consumer.engine is EngineName.PULL or self.serves_in_place

    def highest_priority(self, lane: Lane) -> int | None:
        """Return the highest priority with which `lane_for` gives this lane; None without a limit."""
        if not self.enabled:
            return None
        # Messages for a closing lane go to the next one below it.
        above = [other.threshold for other in self.lanes[: lane.position] if not other.closing]
        return above[-1] - 1 if above and above[-1] is not None else None

    def lanes_above(self, lane: Lane) -> tuple[Lane, ...]:
        """Return the lanes that a lane yields to, highest first; none if priority lanes are disabled."""
        return self.lanes[: lane.position] if self.enabled else ()

    def lanes_below(self, lane: Lane) -> tuple[Lane, ...]:
        """Return the lanes that yield to a lane, highest first; none if priority lanes are disabled."""
        return self.lanes[lane.position + 1 :] if self.enabled else ()

    def notes(self) -> list[str]:
        """Explain allowed settings with consequences that are easily missed."""
        notes = []
        total = sum(lane.maximum_concurrency for lane in self.lanes)
        slots = self.consumer.reserved_concurrency
        has_mappings = self.consumer.engine is EngineName.MAPPINGS
        # From there on the mappings share the slots, unless their own settings say otherwise.
        enough = 2 * len(self.lanes) if slots < 2 * len(self.lanes) else total
        if has_mappings and slots < total:
            notes.append(
                f"reserved_concurrency is {slots} and the mappings may start {total} invocations at once: "
                f"Lambda throttles the difference and tries again. This is right if your resource tolerates "
                f"only {slots} at a time (the minimum of a mapping is 2); otherwise raise it to {enough}."
            )
        if not self.enabled:
            notes.append(
                f"enabled is false: every message is sent to {self.last_lane.name} and nothing yields."
            )
        notes += [
            f"lane {lane.name} is closing: producers that read this configuration send nothing to it. Remove it when "
            "`lanes check` finds it empty."
            for lane in self.lanes
            if lane.closing
        ]
        if slots == 1 and any(lane.tenant_share is not None for lane in self.lanes):
            notes.append("tenant_share has no effect with one slot: there is nothing to share.")
        if self.lanes[0].max_wait is not None and self.enabled and not self.consumer.is_weighted:
            notes.append(
                f"max_wait of {self.lanes[0].name} has no effect: no lane has priority over the highest one."
            )
        return notes


def _plain_schedule(schedule: Schedule) -> dict[str, Any]:
    # Reading refuses a time zone where it has no effect.
    return plain(schedule, without=() if schedule.every is None else ("timezone",))


# The defaults of other keys follow from these, so they are always written.
DECIDING_CONSUMER_KEYS = ("reserved_concurrency", "function_timeout")
DECIDING_LANE_KEYS = ("name", "threshold", "max_wait")


def plain(
    settings: Lane | ConsumerSettings | OutboxSettings | Schedule, *, without: Collection[str] = ()
) -> dict[str, Any]:
    """
    Return the settings of a record by their keys, durations in seconds, without those that are not set.

    Args:
        settings: the record.
        without: keys to leave out.
    """
    omitted = {"position", *without}
    values = {key: getattr(settings, key) for key in settings.__slots__ if key not in omitted}
    return {key: _plain_value(value) for key, value in values.items() if value is not None and value != ()}


def without_defaults(
    consumer: dict[str, Any], lanes: list[dict[str, Any]], settings: ConsumerSettings
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """
    Leave out each value that reading the deciding keys alone would give.

    Args:
        consumer: all settings of the consumer.
        lanes: all settings of each lane.
        settings: the consumer's, on which defaults of the lanes depend.
    """
    deciding = {key: consumer[key] for key in DECIDING_CONSUMER_KEYS}
    # By reading, not from the records' defaults: some follow from other keys, and reading is where that is decided.
    defaults = plain(read_consumer(deciding, []))
    bare: list[Mapping[str, Any]] = [
        {key: lane[key] for key in DECIDING_LANE_KEYS if key in lane} for lane in lanes
    ]
    lane_defaults = [plain(lane) for lane in read_lanes(bare, settings, [])]
    return (
        deciding | {key: value for key, value in consumer.items() if value != defaults.get(key)},
        [
            {**kept, **{key: value for key, value in lane.items() if value != default.get(key)}}
            for lane, kept, default in zip(lanes, bare, lane_defaults, strict=True)
        ],
    )


def _plain_value(value: object) -> object:
    if not isinstance(value, timedelta):
        return value
    seconds = value.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds
