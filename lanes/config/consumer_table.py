"""The table `[consumer]` of `lanes.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from lanes.config.lane_tables import LONGEST_VISIBILITY
from lanes.config.settings import (
    CONSUMER_KEYS,
    MAX_RECEIVES,
    TABLE_OF,
    ConsumerSettings,
    EngineName,
    OnExhausted,
    Policy,
)
from lanes.config.table import SECOND, ConfigTable, format_duration

if TYPE_CHECKING:
    from lanes.config.table import Reader

PULL_KEYS = ("linger", "policy", "max_rate")

# AWS: a function runs for at most 15 minutes (lambda/latest/dg/gettingstarted-limits).
LONGEST_FUNCTION = timedelta(minutes=15)
LONGEST_UNKNOWN = timedelta(days=7)
# AWS: a message lives at most 14 days (SQS quotas).
LONGEST_LIFE = timedelta(days=14)
# The other half of the receives is left to yields.
MAX_ATTEMPTS = MAX_RECEIVES // 2
# With ten slots the top lane's p99 wait is 3.6 s at 150 ms and 4.2 s at 250 ms, for 3 % of the work and 9 % more calls;
# with fewer slots nothing is gained (docs/decisions.md#defaults).
# In the pull engine several slots look in turn. With ten of them and records of 100 ms, 400 ms costs 7 % less than
# 250 ms at the same p99 wait of HIGH; one slot alone has no other to look (docs/decisions.md#the-pull-engine).
PULL_RECHECK = timedelta(milliseconds=400)
SLOTS_WITH_SHORT_RECHECK, SHORT_RECHECK = 10, timedelta(milliseconds=150)


READERS: Mapping[str, Reader] = {
    "function_timeout": partial(
        ConfigTable.duration, minimum=SECOND, maximum=LONGEST_FUNCTION, whole_seconds=True
    ),
    # AWS: 128 MB to 10,240 MB (lambda/latest/dg/configuration-memory).
    "memory_mb": partial(ConfigTable.integer, minimum=128, maximum=10240),
    "max_attempts": partial(ConfigTable.integer, minimum=1, maximum=MAX_ATTEMPTS),
    "backoff_base": partial(ConfigTable.duration, maximum=LONGEST_VISIBILITY),
    "backoff_max": partial(ConfigTable.duration, maximum=LONGEST_VISIBILITY),
    # SQS keeps a message for 14 days at most, and would drop it without a dead letter.
    "unknown_kind_for": partial(ConfigTable.duration, maximum=LONGEST_UNKNOWN),
    "unavailable_for": partial(ConfigTable.duration, minimum=SECOND, maximum=LONGEST_LIFE),
    "recheck_interval": partial(ConfigTable.duration, maximum=SECOND),
    "record_time": partial(ConfigTable.optional, read=ConfigTable.duration, maximum=LONGEST_FUNCTION),
    "idempotency": ConfigTable.boolean,
    "idempotency_window": partial(ConfigTable.duration, minimum=SECOND),
    # Beyond a half, overdue messages would get more of the slots than urgent ones.
    "reserve": partial(ConfigTable.number, minimum=0.0, maximum=0.5),
    "linger": ConfigTable.duration,
    "max_rate": ConfigTable.optional_rate,
}


def read_consumer(raw: object, problems: list[str]) -> ConsumerSettings:
    """
    Read the settings and collect the problems with them.

    Args:
        raw: the table, with the overrides of the stage.
        problems: receives the problems.
    """
    table = ConfigTable(raw, "consumer", known=CONSUMER_KEYS, problems=problems, elsewhere=TABLE_OF)
    default = ConsumerSettings()
    slots = table.integer("reserved_concurrency", default.reserved_concurrency, minimum=1)
    # An unknown name is one problem: settings that depend on it are read as if it were right.
    engine = table.choice("engine", EngineName.PULL, allowed=EngineName)
    is_mapped = engine == EngineName.MAPPINGS or not table.has("engine")
    recheck = default.recheck_interval
    if is_mapped and slots >= SLOTS_WITH_SHORT_RECHECK:
        recheck = SHORT_RECHECK
    elif not is_mapped and slots > 1:
        recheck = PULL_RECHECK
    policy = table.choice("policy", Policy.WEIGHTED, allowed=Policy)
    settings = ConsumerSettings(
        **table.read(READERS, default, recheck_interval=recheck),
        reserved_concurrency=slots,
        on_exhausted=_on_exhausted(table.raw("on_exhausted", {}), problems),
        engine=EngineName(engine) if table.has("engine") else default.engine,
        policy=Policy(policy) if table.has("policy") else default.policy,
        max_rates=_max_rates(table.raw("max_rates", {}), problems),
    )
    _compare_times(settings, table)
    if settings.engine is not EngineName.PULL:
        _refuse_pull_keys(table)
    return settings


def _on_exhausted(raw: object, problems: list[str]) -> dict[str, OnExhausted]:
    """Read actions by patterns of kinds."""
    kinds = list(raw) if isinstance(raw, Mapping) else []
    table = ConfigTable(raw, "consumer.on_exhausted", known=kinds, problems=problems)
    default = OnExhausted.DEAD_LETTER
    return {kind: OnExhausted(table.choice(kind, default, allowed=OnExhausted)) for kind in kinds}


def _max_rates(raw: object, problems: list[str]) -> dict[str, float]:
    """Read rates by patterns of kinds."""
    kinds = list(raw) if isinstance(raw, Mapping) else []
    table = ConfigTable(raw, "consumer.max_rates", known=kinds, problems=problems)
    rates = {kind: table.optional_rate(kind) for kind in kinds}
    return {kind: rate for kind, rate in rates.items() if rate is not None}


def _refuse_pull_keys(table: ConfigTable) -> None:
    for key in PULL_KEYS:
        if table.has(key):
            table.problem(f'{key} takes effect with engine = "pull" only; remove it, or set that engine')


def _compare_times(settings: ConsumerSettings, table: ConfigTable) -> None:
    if settings.backoff_base > settings.backoff_max:
        table.problem(
            f"backoff_base {format_duration(settings.backoff_base)} is longer than "
            f"backoff_max {format_duration(settings.backoff_max)}"
        )
    if settings.record_time is not None and settings.record_time >= settings.function_timeout:
        table.problem(
            f"record_time {format_duration(settings.record_time)} does not fit into "
            f"function_timeout {format_duration(settings.function_timeout)}; no record would ever start"
        )
    if settings.linger > settings.function_timeout:
        table.problem(
            f"linger {format_duration(settings.linger)} is longer than "
            f"function_timeout {format_duration(settings.function_timeout)}; must be at most that"
        )
