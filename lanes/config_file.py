"""
Reading `lanes.toml`: stages go over the general settings, and everything wrong is reported at once.

Pure apart from `read_file`, which opens the one file it is given.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lanes.config import (
    RECHECK_IN_ROOM,
    ConsumerSettings,
    Lane,
    LanesConfig,
    OnDeadLetter,
    OutboxSettings,
    Tracing,
)
from lanes.config_lanes import LANE_KEYS, LONGEST_VISIBILITY, merged_lanes, read_lanes
from lanes.config_outbox import OUTBOX_KEYS, read_outbox
from lanes.config_table import SECOND, ConfigTable, describe, format_duration, nearest
from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from os import PathLike

ROOT_KEYS = ("enabled", "consumer", "lanes", "outbox", "stages", "stage")
STAGE_KEYS = ("enabled", "consumer", "lanes", "outbox")
CONSUMER_KEYS = tuple(ConsumerSettings.__slots__)
# What the defaults of others follow from is always written.
DECIDING_CONSUMER_KEYS = ("reserved_concurrency", "waiting_room", "function_timeout")
DECIDING_LANE_KEYS = ("name", "threshold", "max_wait")

# AWS: a function runs for at most 15 minutes (lambda/latest/dg/gettingstarted-limits).
LONGEST_FUNCTION = timedelta(minutes=15)
# AWS: SQS moves a message away after at most 1,000 receives of any cause; half of them are left to yields.
MOST_ATTEMPTS = 500


def read_file(path: str | PathLike[str], *, stage: str | None = None) -> LanesConfig:
    """Read one file; see `LanesConfig.load`."""
    try:
        # Some editors begin a file with a byte order mark.
        raw = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigurationError([f"the file can't be read: {reason}"], source=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError([f"not a TOML file: {error}"], source=str(path)) from error
    return resolve(raw, stage=stage, source=str(path), is_file=True)


def resolve(
    raw: object, *, stage: str | None = None, source: str = "lanes configuration", is_file: bool = False
) -> LanesConfig:
    """
    Put the stage over the general settings and check the result; other stages are checked as well.

    A document that `to_dict` wrote names the stage it was resolved for, and keeps it; a file names none.
    """
    problems: list[str] = []
    root = ConfigTable(raw, "", known=ROOT_KEYS, problems=problems)
    stages = _stages(root, problems)
    if root.has("stage"):
        stage = _resolved_stage(root, is_allowed=not (is_file or stages))
    elif stage is not None and stage not in stages:
        problems.append(f"unknown stage {stage!r}{nearest(stage, stages)}")
    config = _read(root, stages.get(stage or "", {}), stage=stage, problems=problems)
    for name, override in stages.items():
        if name != stage:
            others: list[str] = []
            _read(root, override, stage=name, problems=others)
            problems.extend(f"stage {name}: {text}" for text in others if text not in problems)
    if problems:
        raise ConfigurationError(dict.fromkeys(problems), source=source)
    return config


def to_dict(config: LanesConfig, *, brief: bool) -> dict[str, Any]:
    """Write a configuration the way `resolve` reads it; briefly, without what `resolve` fills in by itself."""
    consumer = _settings(config.consumer, CONSUMER_KEYS)
    lanes = [_settings(lane, LANE_KEYS) for lane in config.lanes]
    if brief:
        consumer, lanes = _without_usual(consumer, lanes, config.consumer)
    document: dict[str, Any] = {"enabled": config.enabled, "consumer": consumer, "lanes": lanes}
    if config.outbox != OutboxSettings():
        document["outbox"] = _settings(config.outbox, OUTBOX_KEYS)
    return document if config.stage is None else {**document, "stage": config.stage}


def _without_usual(
    consumer: dict[str, Any], lanes: list[dict[str, Any]], settings: ConsumerSettings
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Leave out what is as it would be if only the deciding keys were given; whether those are right is not asked."""
    given = {key: consumer[key] for key in DECIDING_CONSUMER_KEYS}
    usual = _settings(_consumer(given, []), CONSUMER_KEYS)
    bare: list[Mapping[str, Any]] = [
        {key: lane[key] for key in DECIDING_LANE_KEYS if key in lane} for lane in lanes
    ]
    usual_lanes = [_settings(lane, LANE_KEYS) for lane in read_lanes(bare, settings, [])]
    return (
        given | {key: value for key, value in consumer.items() if value != usual.get(key)},
        [
            {**own, **{key: value for key, value in lane.items() if value != usual_lane.get(key)}}
            for lane, own, usual_lane in zip(lanes, bare, usual_lanes, strict=True)
        ],
    )


def _settings(record: Lane | ConsumerSettings | OutboxSettings, keys: tuple[str, ...]) -> dict[str, Any]:
    values = {key: getattr(record, key) for key in keys}
    return {key: _plain(value) for key, value in values.items() if value is not None}


def _plain(value: object) -> object:
    if not isinstance(value, timedelta):
        return value
    seconds = value.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


def _stages(root: ConfigTable, problems: list[str]) -> dict[str, Mapping[str, Any]]:
    raw = root.raw("stages", {})
    if not isinstance(raw, Mapping):
        problems.append(f"stages: a table of stages is needed, not {describe(raw)}")
        return {}
    stages: dict[str, Mapping[str, Any]] = {}
    for name, override in raw.items():
        ConfigTable(override, f"stages.{name}", known=STAGE_KEYS, problems=problems)
        stages[name] = override if isinstance(override, Mapping) else {}
    return stages


def _resolved_stage(root: ConfigTable, *, is_allowed: bool) -> str | None:
    name = root.raw("stage")
    if not is_allowed or not isinstance(name, str):
        root.problem("unknown key 'stage'; a stage is chosen when the file is loaded")
        return None
    return name


def _read(
    root: ConfigTable, override: Mapping[str, Any], *, stage: str | None, problems: list[str]
) -> LanesConfig:
    enabled = {"enabled": override.get("enabled", root.raw("enabled", default=True))}
    consumer = _consumer(_merged(root.raw("consumer", {}), override.get("consumer", {})), problems)
    lanes = read_lanes(merged_lanes(root, override, problems), consumer, problems)
    outbox = _merged(root.raw("outbox", {}), override.get("outbox", {}))
    return LanesConfig(
        enabled=ConfigTable(enabled, "", known=["enabled"], problems=problems).boolean("enabled", True),
        lanes=lanes,
        consumer=consumer,
        outbox=read_outbox(outbox, [lane.name for lane in lanes], problems),
        stage=stage,
    )


def _merged(general: object, override: object) -> object:
    if isinstance(general, Mapping) and isinstance(override, Mapping):
        return {**general, **override}
    return override if isinstance(general, Mapping) else general


def _consumer(raw: object, problems: list[str]) -> ConsumerSettings:
    table = ConfigTable(raw, "consumer", known=CONSUMER_KEYS, problems=problems)
    usual = ConsumerSettings()
    slots = table.integer("reserved_concurrency", usual.reserved_concurrency, minimum=1)
    room = table.boolean("waiting_room", usual.waiting_room)
    recheck = RECHECK_IN_ROOM if room else usual.recheck_interval
    settings = ConsumerSettings(
        reserved_concurrency=slots,
        waiting_room=room,
        function_timeout=table.duration(
            "function_timeout",
            usual.function_timeout,
            minimum=SECOND,
            maximum=LONGEST_FUNCTION,
            whole_seconds=True,
        ),
        # AWS: 128 MB to 10,240 MB (lambda/latest/dg/configuration-memory).
        memory_mb=table.integer("memory_mb", usual.memory_mb, minimum=128, maximum=10240),
        max_attempts=table.integer("max_attempts", usual.max_attempts, minimum=1, maximum=MOST_ATTEMPTS),
        backoff_base=table.duration("backoff_base", usual.backoff_base, maximum=LONGEST_VISIBILITY),
        backoff_max=table.duration("backoff_max", usual.backoff_max, maximum=LONGEST_VISIBILITY),
        recheck_interval=table.duration("recheck_interval", recheck, maximum=SECOND),
        record_time=table.optional_duration("record_time", maximum=LONGEST_FUNCTION),
        idempotency=table.boolean("idempotency", usual.idempotency),
        idempotency_window=table.duration("idempotency_window", usual.idempotency_window, minimum=SECOND),
        reserve=table.number("reserve", usual.reserve, minimum=0.0, maximum=0.5),
        on_dead_letter=_on_dead_letter(table.raw("on_dead_letter", {}), problems),
        tracing=Tracing(table.choice("tracing", usual.tracing, allowed=Tracing)),
    )
    _compare_times(settings, table)
    return settings


def _on_dead_letter(raw: object, problems: list[str]) -> dict[str, OnDeadLetter]:
    """Read words by patterns of kinds."""
    patterns = list(raw) if isinstance(raw, Mapping) else []
    table = ConfigTable(raw, "consumer.on_dead_letter", known=patterns, problems=problems)
    usual = OnDeadLetter.CONTINUE
    return {pattern: OnDeadLetter(table.choice(pattern, usual, allowed=OnDeadLetter)) for pattern in patterns}


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
