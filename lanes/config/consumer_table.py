"""The table `[consumer]` of `lanes.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from lanes.config.lane_tables import LONGEST_VISIBILITY
from lanes.config.settings import ConsumerSettings, OnDeadLetter
from lanes.config.table import SECOND, ConfigTable, format_duration

CONSUMER_KEYS = tuple(ConsumerSettings.__slots__)

# AWS: a function runs for at most 15 minutes (lambda/latest/dg/gettingstarted-limits).
LONGEST_FUNCTION = timedelta(minutes=15)
# AWS: SQS moves a message away after at most 1,000 receives of any cause; half of them are left to yields.
MAX_ATTEMPTS = 500
# With ten slots the top lane's p99 wait is 3.6 s at 150 ms and 4.2 s at 250 ms, for 3 % of the work and 9 % more calls;
# with fewer slots nothing is gained (docs/decisions/0014-defaults.md).
SLOTS_WITH_SHORT_RECHECK, SHORT_RECHECK = 10, timedelta(milliseconds=150)


def read_consumer(raw: object, problems: list[str]) -> ConsumerSettings:
    """
    Read the settings and collect the problems with them.

    Args:
        raw: the table, with the overrides of the stage.
        problems: receives the problems.
    """
    table = ConfigTable(raw, "consumer", known=CONSUMER_KEYS, problems=problems)
    default = ConsumerSettings()
    slots = table.integer("reserved_concurrency", default.reserved_concurrency, minimum=1)
    recheck = SHORT_RECHECK if slots >= SLOTS_WITH_SHORT_RECHECK else default.recheck_interval
    settings = ConsumerSettings(
        reserved_concurrency=slots,
        function_timeout=table.duration(
            "function_timeout",
            default.function_timeout,
            minimum=SECOND,
            maximum=LONGEST_FUNCTION,
            whole_seconds=True,
        ),
        # AWS: 128 MB to 10,240 MB (lambda/latest/dg/configuration-memory).
        memory_mb=table.integer("memory_mb", default.memory_mb, minimum=128, maximum=10240),
        max_attempts=table.integer("max_attempts", default.max_attempts, minimum=1, maximum=MAX_ATTEMPTS),
        backoff_base=table.duration("backoff_base", default.backoff_base, maximum=LONGEST_VISIBILITY),
        backoff_max=table.duration("backoff_max", default.backoff_max, maximum=LONGEST_VISIBILITY),
        recheck_interval=table.duration("recheck_interval", recheck, maximum=SECOND),
        record_time=table.optional_duration("record_time", maximum=LONGEST_FUNCTION),
        idempotency=table.boolean("idempotency", default.idempotency),
        idempotency_window=table.duration("idempotency_window", default.idempotency_window, minimum=SECOND),
        reserve=table.number("reserve", default.reserve, minimum=0.0, maximum=0.5),
        on_dead_letter=_on_dead_letter(table.raw("on_dead_letter", {}), problems),
    )
    _compare_times(settings, table)
    return settings


def _on_dead_letter(raw: object, problems: list[str]) -> dict[str, OnDeadLetter]:
    """Read actions by patterns of kinds."""
    patterns = list(raw) if isinstance(raw, Mapping) else []
    table = ConfigTable(raw, "consumer.on_dead_letter", known=patterns, problems=problems)
    default = OnDeadLetter.CONTINUE
    return {
        pattern: OnDeadLetter(table.choice(pattern, default, allowed=OnDeadLetter)) for pattern in patterns
    }


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
