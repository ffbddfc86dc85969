"""The tables `[[schedules]]` of `lanes.toml`: merge them with a stage, and read them."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, available_timezones

from lanes.config.lanes import named_tables
from lanes.config.settings import TABLE_OF, Schedule
from lanes.config.table import ConfigTable, describe, nearest, settings_of
from lanes.message import LONGEST_ID, SQS_ID, identity_prefix, kind_problem
from lanes.priority import Priority
from lanes.schedules import SOURCE, cron_expression, rate_expression

# AWS: names of schedules have up to 64 of these (API_CreateSchedule); other messages of the group begin with another
# letter (`lanes.schedules`).
NAME = re.compile(r"[0-9A-Za-z_.-]{1,60}")
if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_TIME = len("@2026-11-28T03:00:00Z")
DEFAULT = timedelta(hours=1)


def read_schedules(raw: object, override: object, problems: list[str]) -> tuple[Schedule, ...]:
    """
    Read the merged tables, and collect the problems of each.

    Args:
        raw: the general tables.
        override: those of the stage, merged by name; a new name adds a schedule.
        problems: receives the problems.
    """
    merged: dict[str, Mapping[str, Any]] = {}
    for tables in (raw, override):
        seen: set[str] = set()
        for table in named_tables(tables, "schedules", problems):
            name = str(table.get("name"))
            if name in seen:
                problems.append(f"schedule {name}: named twice")
            seen.add(name)
            merged[name] = {**merged.get(name, {}), **table}
    return tuple(_schedule(name, table, problems) for name, table in merged.items())


def _schedule(name: str, raw: Mapping[str, Any], problems: list[str]) -> Schedule:
    table = ConfigTable(
        raw, f"schedule {name}", known=settings_of(Schedule), problems=problems, elsewhere=TABLE_OF
    )
    if not isinstance(raw.get("name"), str) or not NAME.fullmatch(name):
        table.problem(
            f"name is {describe(raw.get('name'))}; must have 1 to 60 letters, digits, '_', '-' and '.'"
        )
    kind = table.raw("kind")
    if problem := kind_problem(kind):
        table.problem(problem)
    elif not kind.isascii():
        table.problem(
            f"kind is {describe(kind)}; a schedule's kind must be ASCII, since SQS takes no other ids"
        )
    elif len(identity_prefix(SOURCE, kind)) + len(name) + LONGEST_TIME > LONGEST_ID:
        longest = LONGEST_ID - LONGEST_TIME - len(identity_prefix(SOURCE, ""))
        table.problem(
            f"name and kind are {len(name) + len(kind)} characters long together; at most {longest} fit"
        )
    return Schedule(
        name=name,
        kind=str(kind),
        cron=_cron(table),
        every=_every(table),
        timezone=_timezone(table),
        priority=_priority(table),
        group=_group(table),
        data=_data(table),
        **table.read(Schedule),
    )


def _cron(table: ConfigTable) -> str | None:
    if table.has("cron") == table.has("every"):
        table.problem('needs one of cron and every, such as cron = "0 3 * * *" or every = "1h"')
    cron = table.raw("cron")
    if cron is None:
        return None
    if not isinstance(cron, str):
        table.problem(f'cron is {describe(cron)}; must be a string such as "0 3 * * *"')
        return None
    try:
        cron_expression(cron)
    except ValueError as error:
        table.problem(f"cron is {describe(cron)}: {error}")
    return cron


def _every(table: ConfigTable) -> timedelta | None:
    if not table.has("every"):
        return None
    every = table.duration("every", DEFAULT)
    try:
        rate_expression(every)
    except ValueError as error:
        table.problem(f"every is {describe(table.raw('every'))}: {error}")
    if table.has("timezone"):
        table.problem("timezone has no effect on every, which counts from the deployment; use cron")
    return every


def _timezone(table: ConfigTable) -> str:
    name = table.raw("timezone", "UTC")
    if not isinstance(name, str) or name not in available_timezones():
        known = nearest(name, available_timezones()) if isinstance(name, str) else ""
        hint = known if "mean" in known else "; such as Europe/Zurich"
        table.problem(f"timezone is {describe(name)}; must be the name of a time zone{hint}")
        return "UTC"
    return ZoneInfo(name).key


def _priority(table: ConfigTable) -> int:
    value = table.raw("priority", Priority.NORMAL.value)
    if isinstance(value, str) and value in Priority.__members__:
        return Priority[value].value
    if isinstance(value, bool) or not isinstance(value, int):
        names = ", ".join(Priority.__members__)
        table.problem(f"priority is {describe(value)}; must be a whole number or one of {names}")
        return Priority.NORMAL.value
    return value


def _group(table: ConfigTable) -> str | None:
    group = table.raw("group")
    if group is not None and not (isinstance(group, str) and SQS_ID.fullmatch(group)):
        table.problem(
            f"group is {describe(group)}; must have 1 to 128 letters, digits and ASCII punctuation marks"
        )
        return None
    return group


def _data(table: ConfigTable) -> Any:
    data = table.raw("data")
    try:
        return json.loads(json.dumps(data, allow_nan=False))
    except (TypeError, ValueError) as error:
        table.problem(f"data is not JSON: {error}; write times as strings")
        return None
