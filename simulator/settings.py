"""The settings that a simulation varies: each combination of the values that you list."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any

from lanes.config import LanesConfig
from lanes.config.table import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """
    One combination; None keeps the value of your lanes.

    Attributes:
        slots: reserved concurrency.
        batch_size: of every lane.
        recheck: `recheck_interval`.

    """

    slots: int | None = None
    batch_size: int | None = None
    recheck: timedelta | None = None

    def apply(self, config: LanesConfig) -> LanesConfig:
        """
        Return the lanes with these settings; defaults that depend on the slots are derived again.

        Raises:
            ConfigurationError: the lanes can't have such a value.

        """
        document = config.to_dict(brief=True)
        consumer = dict(document["consumer"])
        if self.slots is not None:
            consumer["reserved_concurrency"] = self.slots
        if self.recheck is not None:
            consumer["recheck_interval"] = self.recheck.total_seconds()
        size = {} if self.batch_size is None else {"batch_size": self.batch_size}
        lanes = [{**lane, **size} for lane in document["lanes"]]
        return LanesConfig.from_dict({**document, "consumer": consumer, "lanes": lanes})

    @property
    def description(self) -> str:
        """The values on one line; empty if all are those of your lanes."""
        parts = []
        if self.slots is not None:
            parts.append("1 slot" if self.slots == 1 else f"{self.slots} slots")
        if self.batch_size is not None:
            parts.append(f"batch_size {self.batch_size}")
        if self.recheck is not None:
            parts.append(f"recheck_interval {format_duration(self.recheck)}")
        return ", ".join(parts)

    def plain(self) -> dict[str, Any]:
        """Return the changed values under their keys in `lanes.toml`, durations in seconds."""
        values = {
            "reserved_concurrency": self.slots,
            "batch_size": self.batch_size,
            "recheck_interval": None if self.recheck is None else self.recheck.total_seconds(),
        }
        return {key: value for key, value in values.items() if value is not None}


def combinations(
    *, slots: Sequence[int] = (), batch_sizes: Sequence[int] = (), rechecks: Sequence[timedelta] = ()
) -> list[Settings]:
    """Return each combination of the values; of a setting without values, your lanes keep theirs."""
    return [
        Settings(slots=slot, batch_size=size, recheck=recheck)
        for slot, size, recheck in itertools.product(
            slots or (None,), batch_sizes or (None,), rechecks or (None,)
        )
    ]
