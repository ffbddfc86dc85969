"""The settings that a plan may choose, and their text in `lanes.toml`."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

from lanes.config import EngineName, LanesConfig
from lanes.config.table import format_duration

BATCH_SIZES = (10, 1)
RECHECKS = (timedelta(milliseconds=250), timedelta(milliseconds=100), timedelta(seconds=1))
DELAYS = (
    (timedelta(seconds=5), timedelta(seconds=15)),
    (timedelta(seconds=2), timedelta(seconds=5)),
    (timedelta(seconds=15), timedelta(seconds=30)),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """
    One choice; None keeps the value of your lanes.

    Attributes:
        slots: reserved concurrency.
        batch_size: of every lane.
        recheck: `recheck_interval`.
        delays: shortest and longest `yield_delay` of every lane.

    """

    slots: int
    batch_size: int | None = None
    recheck: timedelta | None = None
    delays: tuple[timedelta, timedelta] | None = None

    def apply(self, config: LanesConfig) -> LanesConfig:
        """Return the lanes with these settings; defaults that depend on the slots are derived again."""
        document = config.to_dict(brief=True)
        consumer = {**document["consumer"], "reserved_concurrency": self.slots}
        if self.recheck is not None:
            consumer["recheck_interval"] = self.recheck.total_seconds()
        lanes = [{**lane, **self._lane()} for lane in document["lanes"]]
        return LanesConfig.from_dict({**document, "consumer": consumer, "lanes": lanes})

    @property
    def description(self) -> str:
        """Describe the changes on one line."""
        delays = "" if self.delays is None else " to ".join(map(format_duration, self.delays))
        parts = {
            "batch_size": self.batch_size,
            "recheck_interval": None if self.recheck is None else format_duration(self.recheck),
            "yield_delay": delays or None,
        }
        changed = [f"{key} {value}" for key, value in parts.items() if value is not None]
        return ", ".join([f"{self.slots} slots" if self.slots > 1 else "1 slot", *changed])

    def fragment(self, config: LanesConfig) -> str:
        """Write them as a part of `lanes.toml`."""
        lines = ["[consumer]", f"reserved_concurrency = {self.slots}"]
        if self.recheck is not None:
            lines.append(f'recheck_interval = "{format_duration(self.recheck)}"')
        for lane in config.lanes:
            if settings := self._lane_lines():
                lines += ["", "[[lanes]]", f'name = "{lane.name}"']
                lines += [] if lane.threshold is None else [f"threshold = {lane.threshold}"]
                lines += settings
        return "\n".join(lines)

    def _lane(self) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        if self.batch_size is not None:
            changed["batch_size"] = self.batch_size
        if self.delays is not None:
            changed["yield_delay_min"], changed["yield_delay_max"] = (
                one.total_seconds() for one in self.delays
            )
        return changed

    def _lane_lines(self) -> list[str]:
        lines = [] if self.batch_size is None else [f"batch_size = {self.batch_size}"]
        if self.delays is not None:
            least, most = map(format_duration, self.delays)
            lines += [f'yield_delay_min = "{least}"', f'yield_delay_max = "{most}"']
        return lines


def alternatives(slots: int, config: LanesConfig) -> list[list[Settings]]:
    """
    Return the possible changes at a number of slots: for each setting, each value that the lanes do not have yet.

    The most effective setting comes first.
    """
    here = Settings(slots=slots).apply(config)
    lane = here.lanes[-1]
    rechecks = [
        Settings(slots=slots, recheck=one) for one in RECHECKS if one != here.consumer.recheck_interval
    ]
    if here.consumer.engine is EngineName.PULL:
        # It yields nothing, and decides itself how many messages to receive.
        return [rechecks]
    return [
        rechecks,
        [
            Settings(slots=slots, delays=one)
            for one in DELAYS
            if one != (lane.yield_delay_min, lane.yield_delay_max)
        ],
        [Settings(slots=slots, batch_size=one) for one in BATCH_SIZES if one != lane.batch_size],
    ]


def combined(one: Settings, other: Settings) -> Settings:
    """Return the first with the changes of the second."""
    keys = ("batch_size", "recheck", "delays")
    changes = {key: value for key in keys if (value := getattr(other, key)) is not None}
    return dataclasses.replace(one, **changes)
