"""The table `[outbox]` of `lanes.toml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from lanes.config import OutboxSettings
from lanes.config_table import SECOND, ConfigTable, describe, format_duration, nearest

OUTBOX_KEYS = tuple(OutboxSettings.__slots__)
LARGEST_BATCH = 100
MOST_ATTEMPTS = 100
# A send is tried for up to half of the lock, so a shorter one would end in the middle of ordinary retries.
SHORTEST_LOCK = timedelta(seconds=2)
SHORTEST_TICK = timedelta(milliseconds=50)
LONGEST_LOCK = timedelta(hours=12)


def read_outbox(raw: object, lanes: Sequence[str], problems: list[str]) -> OutboxSettings:
    """
    Read the settings and note what is wrong with them.

    Args:
        raw: the table, with that of the stage over it.
        lanes: names of the lanes that there are.
        problems: gets what is wrong.
    """
    table = ConfigTable(raw, "outbox", known=OUTBOX_KEYS, problems=problems)
    usual = OutboxSettings()
    settings = OutboxSettings(
        enabled=table.boolean("enabled", usual.enabled),
        batch=table.integer("batch", usual.batch, minimum=1, maximum=LARGEST_BATCH),
        tick=table.duration("tick", usual.tick, minimum=SHORTEST_TICK),
        lock=table.duration("lock", usual.lock, minimum=SHORTEST_LOCK, maximum=LONGEST_LOCK),
        max_attempts=table.integer("max_attempts", usual.max_attempts, minimum=1, maximum=MOST_ATTEMPTS),
        retry_base=table.duration("retry_base", usual.retry_base),
        retry_factor=table.number("retry_factor", usual.retry_factor, minimum=1.0, maximum=100.0),
        retry_cap=table.duration("retry_cap", usual.retry_cap),
        retry_jitter=table.number("retry_jitter", usual.retry_jitter, minimum=0.0, maximum=1.0),
        published_retention=table.duration("published_retention", usual.published_retention, minimum=SECOND),
        abandoned_retention=table.duration("abandoned_retention", usual.abandoned_retention, minimum=SECOND),
        lane_window=_lane_window(table, lanes),
    )
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
        table.problem(f"lane_window is {describe(raw)}; a number, or a table of numbers by lane is needed")
        return {}
    windows = {}
    for name, size in raw.items():
        if name not in lanes:
            table.problem(f"lane_window: unknown lane {name!r}{nearest(name, lanes)}")
        elif isinstance(size, bool) or not isinstance(size, int) or size < 1:
            table.problem(f"lane_window: {name} is {describe(size)}; a whole number of at least 1 is needed")
        else:
            windows[name] = size
    return windows
