"""
Read `lanes.toml`: the settings of a stage override the general ones, and all problems are reported at once.

`read_toml` opens the file; all else is pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from lanes.config.lanes import merged_lanes, read_lanes
from lanes.config.settings import TABLE_OF, ConsumerSettings, Lane, OutboxSettings
from lanes.config.table import ConfigTable, describe, format_duration, nearest, settings_of
from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from os import PathLike

    from lanes.config.settings import Schedule

SWITCHES = ("enabled", "scheduler")
STAGE_KEYS = (*SWITCHES, "consumer", "lanes", "outbox", "schedules")
ROOT_KEYS = (*STAGE_KEYS, "stages", "stage")

# With ten slots the top lane's p99 wait is 3.6 s at 150 ms and 4.2 s at 250 ms, for 3 % of the work and 9 % more calls;
# with fewer slots nothing is gained (docs/decisions.md#defaults).
# In the pull engine several slots look in turn. With ten of them and records of 100 ms, 400 ms costs 7 % less than
# 250 ms at the same p99 wait of HIGH; one slot alone has no other to look (docs/decisions.md#the-pull-engine).
PULL_RECHECK = timedelta(milliseconds=400)
SLOTS_WITH_SHORT_RECHECK, SHORT_RECHECK = 10, timedelta(milliseconds=150)


class Resolved(TypedDict):
    """The fields of `LanesConfig`."""

    enabled: bool
    scheduler: bool
    lanes: tuple[Lane, ...]
    consumer: ConsumerSettings
    outbox: OutboxSettings
    schedules: tuple[Schedule, ...]
    stage: str | None


def read_toml(path: str | PathLike[str]) -> dict[str, Any]:
    """
    Read a TOML file.

    Raises:
        ConfigurationError: the file cannot be read, or is not TOML.
    """
    import tomllib

    try:
        # Some editors begin a file with a byte order mark.
        return tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigurationError([f"cannot read the file: {reason}"], source=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError([f"not a TOML file: {error}"], source=str(path)) from error


def known_settings(raw: object) -> object:
    """
    Return a document that `LanesConfig.to_dict` wrote, without the keys that this release does not know.

    Only for documents of a deployment, which a later release may have written. In a file an unknown key is a mistake.
    """
    if not isinstance(raw, Mapping):
        return raw
    tables = {"consumer": settings_of(ConsumerSettings), "outbox": settings_of(OutboxSettings)}
    lanes = raw.get("lanes")
    known = {key: _only(value, tables[key]) if key in tables else value for key, value in raw.items()}
    if isinstance(lanes, list):
        known["lanes"] = [_only(lane, settings_of(Lane)) for lane in lanes]
    return _only(known, ROOT_KEYS)


def _only(table: object, keys: Collection[str]) -> object:
    if not isinstance(table, Mapping):
        return table
    return {key: value for key, value in table.items() if key in keys}


def resolve(
    raw: object, *, stage: str | None = None, source: str = "lanes configuration", is_file: bool = False
) -> Resolved:
    """
    Apply a stage to the general settings and check the result, and that of every other stage.

    Args:
        raw: content of a `lanes.toml`, or a document that `LanesConfig.to_dict` wrote.
        stage: name of the stage.
        source: origin of the content, for errors.
        is_file: whether the content is a file, which names no stage of its own. A written document does, and keeps
            the stage that it was resolved for.

    Raises:
        ConfigurationError: with all problems.
    """
    problems: list[str] = []
    root = ConfigTable(raw, "", known=ROOT_KEYS, problems=problems, elsewhere=TABLE_OF)
    stages = _stages(root, problems)
    if root.has("stage"):
        stage = _resolved_stage(root, is_allowed=not (is_file or stages))
    elif stage is not None and stage not in stages:
        problems.append(f"unknown stage {stage!r}{nearest(stage, stages)}")
    config = _read(root, stages.get(stage or "", {}), stage=stage, problems=problems)
    # All stages, not just this one: a mistake in `prod` should show on the first run in `dev`.
    for name, override in stages.items():
        if name != stage:
            others: list[str] = []
            _read(root, override, stage=name, problems=others)
            problems.extend(f"stage {name}: {text}" for text in others if text not in problems)
    if problems:
        raise ConfigurationError(dict.fromkeys(problems), source=source)
    return config


def _stages(root: ConfigTable, problems: list[str]) -> dict[str, Mapping[str, Any]]:
    raw = root.raw("stages", {})
    if not isinstance(raw, Mapping):
        problems.append(f"stages: must be a table of stages, not {describe(raw)}")
        return {}
    stages: dict[str, Mapping[str, Any]] = {}
    for name, override in raw.items():
        if not name:
            problems.append('stages: a stage has the name ""; give it one of letters, digits and -')
        ConfigTable(override, f"stages.{name}", known=STAGE_KEYS, problems=problems)
        stages[name] = override if isinstance(override, Mapping) else {}
    return stages


def _resolved_stage(root: ConfigTable, *, is_allowed: bool) -> str | None:
    name = root.raw("stage")
    if not is_allowed or not isinstance(name, str):
        root.problem("unknown key 'stage'; choose the stage when you load the file")
        return None
    return name


def _read(
    root: ConfigTable, override: Mapping[str, Any], *, stage: str | None, problems: list[str]
) -> Resolved:
    switches = {key: override.get(key, root.raw(key)) for key in SWITCHES if key in override or root.has(key)}
    switch = ConfigTable(switches, "", known=SWITCHES, problems=problems)
    consumer = read_consumer(_merged(root.raw("consumer", {}), override.get("consumer", {})), problems)
    lanes = read_lanes(merged_lanes(root, override, problems), consumer, problems)
    outbox = _merged(root.raw("outbox", {}), override.get("outbox", {}))
    return Resolved(
        enabled=switch.boolean("enabled", True),
        scheduler=switch.boolean("scheduler", False),
        lanes=lanes,
        consumer=consumer,
        outbox=read_outbox(outbox, [lane.name for lane in lanes], problems),
        schedules=_schedules(root.raw("schedules", []), override.get("schedules", []), problems),
        stage=stage,
    )


def _schedules(general: object, override: object, problems: list[str]) -> tuple[Schedule, ...]:
    if general == [] and override == []:
        return ()
    # Not at a cold start of the function, which has no schedules in its configuration.
    from lanes.config.schedules import read_schedules

    return read_schedules(general, override, problems)


def _merged(general: object, override: object) -> object:
    if isinstance(general, Mapping) and isinstance(override, Mapping):
        return {**general, **override}
    return override if isinstance(general, Mapping) else general


def read_consumer(raw: object, problems: list[str]) -> ConsumerSettings:
    """
    Read the table `[consumer]`, with the overrides of the stage, and collect the problems with it.

    Args:
        raw: the table.
        problems: receives the problems.
    """
    known = settings_of(ConsumerSettings)
    table = ConfigTable(raw, "consumer", known=known, problems=problems, elsewhere=TABLE_OF)
    # A wrong number of slots is one problem, told as the key is read.
    slots, is_mapped = table.raw("reserved_concurrency", 1), table.raw("engine", "mappings") == "mappings"
    computed = {}
    if isinstance(slots, int) and is_mapped and slots >= SLOTS_WITH_SHORT_RECHECK:
        computed["recheck_interval"] = SHORT_RECHECK
    elif isinstance(slots, int) and not is_mapped and slots > 1:
        computed["recheck_interval"] = PULL_RECHECK
    settings = ConsumerSettings(**table.read(ConsumerSettings, **computed))
    table.refuse(ConsumerSettings, settings.without_effect(ConsumerSettings))
    _compare_times(settings, table)
    return settings


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


def read_outbox(raw: object, lanes: Sequence[str], problems: list[str]) -> OutboxSettings:
    """
    Read the table `[outbox]`, with the overrides of the stage, and collect the problems with it.

    Args:
        raw: the table.
        lanes: names of all lanes.
        problems: receives the problems.
    """
    known = settings_of(OutboxSettings)
    table = ConfigTable(raw, "outbox", known=known, problems=problems, elsewhere=TABLE_OF)
    settings = OutboxSettings(**table.read(OutboxSettings), lane_window=_lane_window(table, lanes))
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
