"""
Read `lanes.toml`: the settings of a stage override the general ones, and all problems are reported at once.

`read_toml` opens the file; all else is pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from lanes.config.consumer_table import read_consumer
from lanes.config.lane_tables import merged_lanes, read_lanes
from lanes.config.outbox_table import read_outbox
from lanes.config.settings import CONSUMER_KEYS, LANE_KEYS, OUTBOX_KEYS, TABLE_OF
from lanes.config.table import ConfigTable, describe, nearest
from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection
    from os import PathLike

    from lanes.config.settings import ConsumerSettings, Lane, OutboxSettings, Schedule

SWITCHES = ("enabled", "scheduler")
STAGE_KEYS = (*SWITCHES, "consumer", "lanes", "outbox", "schedules")
ROOT_KEYS = (*STAGE_KEYS, "stages", "stage")


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
    tables = {"consumer": CONSUMER_KEYS, "outbox": OUTBOX_KEYS}
    lanes = raw.get("lanes")
    known = {key: _only(value, tables[key]) if key in tables else value for key, value in raw.items()}
    if isinstance(lanes, list):
        known["lanes"] = [_only(lane, LANE_KEYS) for lane in lanes]
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
    from lanes.config.schedule_tables import read_schedules

    return read_schedules(general, override, problems)


def _merged(general: object, override: object) -> object:
    if isinstance(general, Mapping) and isinstance(override, Mapping):
        return {**general, **override}
    return override if isinstance(general, Mapping) else general
