"""The table `[outbox]` of `lanes.toml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from lanes.config.settings import OUTBOX_KEYS, TABLE_OF, OutboxSettings
from lanes.config.table import SECOND, ConfigTable, describe, format_duration, nearest

if TYPE_CHECKING:
    from lanes.config.table import Reader

# In DynamoDB each entry of a claim is a conditional update, and all must be sent within the lock.
LARGEST_BATCH = 100
MAX_ATTEMPTS = 100
# A relay sends for up to half of the lock; a shorter lock would end amid a call.
SHORTEST_LOCK = timedelta(seconds=2)
SHORTEST_TICK = timedelta(milliseconds=50)
# AWS: SQS drops a repeat within five minutes (SQS developer guide, "Exactly-once processing"). After a lock that ended,
# the next relay begins within a minute and sends for up to half of its own lock: 150 + 60 + 75 s.
LONGEST_LOCK = timedelta(seconds=150)
ON_ABANDONED = ("continue", "hold")


READERS: Mapping[str, Reader] = {
    "enabled": ConfigTable.boolean,
    "batch": partial(ConfigTable.integer, minimum=1, maximum=LARGEST_BATCH),
    "tick": partial(ConfigTable.duration, minimum=SHORTEST_TICK),
    "lock": partial(ConfigTable.duration, minimum=SHORTEST_LOCK, maximum=LONGEST_LOCK),
    "max_attempts": partial(ConfigTable.integer, minimum=1, maximum=MAX_ATTEMPTS),
    "retry_base": ConfigTable.duration,
    "retry_factor": partial(ConfigTable.number, minimum=1.0, maximum=100.0),
    "retry_cap": ConfigTable.duration,
    "retry_jitter": partial(ConfigTable.number, minimum=0.0, maximum=1.0),
    "published_retention": partial(ConfigTable.duration, minimum=SECOND),
    "abandoned_retention": partial(ConfigTable.duration, minimum=SECOND),
    "on_abandoned": partial(ConfigTable.choice, allowed=ON_ABANDONED),
}


def read_outbox(raw: object, lanes: Sequence[str], problems: list[str]) -> OutboxSettings:
    """
    Read the settings and collect the problems with them.

    Args:
        raw: the table, with the overrides of the stage.
        lanes: names of all lanes.
        problems: receives the problems.
    """
    table = ConfigTable(raw, "outbox", known=OUTBOX_KEYS, problems=problems, elsewhere=TABLE_OF)
    settings = OutboxSettings(**table.read(READERS, OutboxSettings()), lane_window=_lane_window(table, lanes))
    if settings.retry_base > settings.retry_cap:
        table.problem(
            f"retry_base {format_duration(settings.retry_base)} is longer than "
            f"retry_cap {format_duration(settings.retry_cap)}"
        )
    return settings


def _lane_window(table: ConfigTable, lanes: Sequence[str]) -> dict[str, int]:
    """Read one number for all lanes, or a table of numbers by lane."""
    raw = table.raw("lane_window", {})
    if isinstance(raw, int) and not isinstance(raw, bool):
        return dict.fromkeys(lanes, table.integer("lane_window", 1, minimum=1))
    if not isinstance(raw, Mapping):
        table.problem(f"lane_window is {describe(raw)}; must be a number, or a table of numbers by lane")
        return {}
    windows = {}
    for name, size in raw.items():
        if name not in lanes:
            table.problem(f"lane_window: unknown lane {name!r}{nearest(name, lanes)}")
        elif isinstance(size, bool) or not isinstance(size, int) or size < 1:
            table.problem(f"lane_window: {name} is {describe(size)}; must be a whole number of at least 1")
        else:
            windows[name] = size
    return windows
