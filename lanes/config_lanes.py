"""The lanes of `lanes.toml`: merged with those of a stage, read and compared with each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

from lanes.config import VISIBILITY_FACTOR, ConsumerSettings, Lane, default_lanes
from lanes.config_table import SECOND, ConfigTable, describe, format_duration

NAME = re.compile(r"[A-Z0-9][A-Za-z0-9_-]{0,39}")
DEAD_LETTER = "deadletter"
LANE_KEYS = tuple(key for key in Lane.__slots__ if key != "position")

# AWS: a visibility timeout is at most 12 hours (SQSDeveloperGuide/sqs-visibility-timeout).
LONGEST_VISIBILITY = timedelta(hours=12)

SLOTS_WITH_LONG_PARKING = 2
LONG_PARKING = timedelta(seconds=15), timedelta(seconds=30)


def merged_lanes(
    root: ConfigTable, override: Mapping[str, Any], problems: list[str]
) -> list[Mapping[str, Any]]:
    """Put the lanes of a stage over the general ones by name; a new name adds a lane."""
    lanes = _lane_tables(root.raw("lanes", _usual_lanes()), "lanes", problems)
    if root.raw("lanes") == []:
        problems.append("lanes: at least one lane is needed; leave the key out for HIGH, MEDIUM and MAIN")
    changed: list[object] = []
    for table in _lane_tables(override.get("lanes", []), "lanes", problems):
        name = table.get("name")
        if name in changed:
            problems.append(f"lane {name}: named twice")
        changed.append(name)
        same = [index for index, lane in enumerate(lanes) if lane.get("name") == name]
        if same:
            lanes[same[0]] = {**lanes[same[0]], **table}
        else:
            lanes.insert(_place(lanes, table.get("threshold")), table)
    return lanes


def _usual_lanes() -> list[Mapping[str, Any]]:
    return [
        {"name": lane.name} if lane.threshold is None else {"name": lane.name, "threshold": lane.threshold}
        for lane in default_lanes()
    ]


def _lane_tables(raw: object, where: str, problems: list[str]) -> list[Mapping[str, Any]]:
    if not isinstance(raw, list):
        problems.append(f"{where}: a list of tables ([[lanes]]) is needed, not {describe(raw)}")
        return []
    for index, table in enumerate(raw):
        if not isinstance(table, Mapping):
            problems.append(f"{where}[{index}]: a table is needed, not {describe(table)}")
    return [table for table in raw if isinstance(table, Mapping)]


def _place(lanes: list[Mapping[str, Any]], threshold: object) -> int:
    """Find where a stage's new lane stands: above the first lane that takes less urgent messages."""
    if not isinstance(threshold, int):
        return len(lanes)
    for index, lane in enumerate(lanes):
        other = lane.get("threshold")
        if not isinstance(other, int) or other < threshold:
            return index
    return len(lanes)


def read_lanes(
    tables: list[Mapping[str, Any]], consumer: ConsumerSettings, problems: list[str]
) -> tuple[Lane, ...]:
    """Read the merged tables, highest lane first, and note what is wrong with each and between them."""
    lanes = []
    names: dict[str, str] = {}
    for position, raw in enumerate(tables):
        where = f"lane {raw['name']}" if isinstance(raw.get("name"), str) else f"lanes[{position}]"
        table = ConfigTable(raw, where, known=LANE_KEYS, problems=problems)
        _check_name(raw.get("name"), names, table)
        if not table.has("threshold") and position < len(tables) - 1:
            table.problem("threshold is missing; only the last lane goes without")
        lanes.append(replace(_lane(table, consumer), name=str(raw.get("name")), position=position))
    _compare_thresholds(lanes, problems)
    return tuple(lanes)


def _check_name(name: object, names: dict[str, str], table: ConfigTable) -> None:
    if not isinstance(name, str):
        table.problem("name is missing" if name is None else f"name is {describe(name)}; a text is needed")
        return
    if not NAME.fullmatch(name):
        table.problem(
            f"name {name!r} is ill-formed; up to 40 letters, digits, '_' and '-', the first an upper-case "
            f"letter or a digit"
        )
    # AWS: logical ids are alphanumeric (CloudFormation template anatomy), so A-B and AB would become one.
    key = re.sub(r"[^a-z0-9]", "", name.lower())
    if key in names:
        same = names[key] == name
        table.problem("named twice" if same else f"the name can't be told from {names[key]} in a template")
    for other, another in names.items():
        if key == other + DEAD_LETTER:
            table.problem(f"the name can't be told from the dead-letter queue of {another} in a template")
        elif other == key + DEAD_LETTER:
            table.problem(f"its dead-letter queue can't be told from the lane {another} in a template")
    names.setdefault(key, name)


def _lane(table: ConfigTable, consumer: ConsumerSettings) -> Lane:
    usual = Lane(name="")
    needed = VISIBILITY_FACTOR * consumer.function_timeout
    delays = _yield_delays(table, consumer)
    lane = Lane(
        name="",
        threshold=table.integer("threshold", 0) if table.has("threshold") else None,
        # AWS: a FIFO batch holds at most 10 records (lambda/latest/dg/services-sqs-parameters).
        batch_size=table.integer("batch_size", usual.batch_size, minimum=1, maximum=10),
        visibility_timeout=table.duration(
            "visibility_timeout", needed, maximum=LONGEST_VISIBILITY, whole_seconds=True
        ),
        yield_delay_min=delays[0],
        yield_delay_max=delays[1],
        max_wait=table.optional_duration("max_wait", minimum=SECOND),
        # AWS: 2 to 1,000 (lambda/latest/api/API_ScalingConfig).
        maximum_concurrency=table.integer(
            "maximum_concurrency", _usual_concurrency(consumer), minimum=2, maximum=1000
        ),
        tenant_share=table.number("tenant_share", 1.0, minimum=0.01, maximum=1.0)
        if table.has("tenant_share")
        else None,
        tenant_separator=_separator(table, usual.tenant_separator),
    )
    # AWS: at least six times the function timeout (lambda/latest/dg/services-sqs-configure).
    if lane.visibility_timeout < needed:
        table.problem(
            f"visibility_timeout {format_duration(lane.visibility_timeout)} is under {VISIBILITY_FACTOR} "
            f"times the function timeout; at least {format_duration(needed)} is needed"
        )
    if lane.yield_delay_min > lane.yield_delay_max:
        table.problem(
            f"yield_delay_min {format_duration(lane.yield_delay_min)} is longer than "
            f"yield_delay_max {format_duration(lane.yield_delay_max)}"
        )
    return lane


def _yield_delays(table: ConfigTable, consumer: ConsumerSettings) -> tuple[timedelta, timedelta]:
    """
    Read the shortest and the longest; the default of the one is never longer than what is given as the other.

    Several slots that are throttled park for longer: more is woken than returns by itself, and what returns by itself
    takes slots to no purpose. A lane with a `max_wait` does not, since what is parked learns late that it is overdue.
    """
    usual = Lane(name="")
    throttled = consumer.reserved_concurrency >= SLOTS_WITH_LONG_PARKING and not consumer.waiting_room
    long = throttled and not table.has("max_wait")
    least, most = LONG_PARKING if long else (usual.yield_delay_min, usual.yield_delay_max)
    longest = table.duration("yield_delay_max", most, minimum=SECOND, maximum=LONGEST_VISIBILITY)
    least = min(least, longest)
    return table.duration("yield_delay_min", least, minimum=SECOND, maximum=LONGEST_VISIBILITY), longest


def _usual_concurrency(consumer: ConsumerSettings) -> int:
    """As many as there are slots; with a waiting room a few more, so that one stands ready when a slot becomes free."""
    slots = consumer.reserved_concurrency
    ready = slots + (1 + slots // 4 if consumer.waiting_room else 0)
    return max(2, min(1000, ready))


def _separator(table: ConfigTable, usual: str) -> str:
    value = table.raw("tenant_separator", usual)
    if isinstance(value, str) and value:
        return value
    table.problem(f"tenant_separator is {describe(value)}; a text of one character or more is needed")
    return usual


def _compare_thresholds(lanes: list[Lane], problems: list[str]) -> None:
    known = [lane for lane in lanes if lane.threshold is not None]
    for higher, lower in pairwise(known):
        if higher.threshold == lower.threshold:
            problems.append(
                f"lane {lower.name}: threshold {lower.threshold} is that of {higher.name} as well; "
                f"no message would ever reach {lower.name}"
            )
        elif (higher.threshold or 0) < (lower.threshold or 0):
            problems.append(
                f"lane {lower.name}: threshold {lower.threshold} is above {higher.threshold} of "
                f"{higher.name} before it; write the highest lane first"
            )
