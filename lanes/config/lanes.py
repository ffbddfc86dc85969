"""The tables `[[lanes]]` of `lanes.toml`: merge them with a stage, read them and compare the lanes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

from lanes.config.settings import (
    HIGHEST_CONCURRENCY,
    LOWEST_CONCURRENCY,
    TABLE_OF,
    VISIBILITY_FACTOR,
    ConsumerSettings,
    EngineName,
    Lane,
    default_lanes,
)
from lanes.config.table import ConfigTable, describe, format_duration, parse_duration, settings_of

# Names begin with a capital or a digit, since other items of the index that holds parked records begin with a small
# letter (`lanes.aws.items`).
NAME = re.compile(r"[A-Z0-9][A-Za-z0-9_-]{0,39}")
DEAD_LETTER = "deadletter"

# With 5 to 15 s instead, HIGH's p99 is 1.5 to 1.6 times as long from two slots on, and calls are 1.2 to 1.35 times as
# many. With one slot nothing is gained (docs/decisions.md#defaults).
SLOTS_WITH_LONG_PARKING = 2
LONG_PARKING = timedelta(seconds=15), timedelta(seconds=30)


def merged_lanes(
    root: ConfigTable, override: Mapping[str, Any], problems: list[str]
) -> list[Mapping[str, Any]]:
    """Override the general lanes with those of a stage, by name; a new name adds a lane."""
    lanes = named_tables(root.raw("lanes", _default_tables()), "lanes", problems)
    if root.raw("lanes") == []:
        problems.append("lanes: must have at least one lane; remove the key for HIGH, MEDIUM and MAIN")
    changed: list[object] = []
    for table in named_tables(override.get("lanes", []), "lanes", problems):
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


def _default_tables() -> list[Mapping[str, Any]]:
    return [
        {"name": lane.name} if lane.threshold is None else {"name": lane.name, "threshold": lane.threshold}
        for lane in default_lanes()
    ]


def named_tables(raw: object, where: str, problems: list[str]) -> list[Mapping[str, Any]]:
    """Return the tables of a list; any other value in it is a problem."""
    if not isinstance(raw, list):
        problems.append(f"{where}: must be a list of tables ([[{where}]]), not {describe(raw)}")
        return []
    for index, table in enumerate(raw):
        if not isinstance(table, Mapping):
            problems.append(f"{where}[{index}]: must be a table, not {describe(table)}")
    return [table for table in raw if isinstance(table, Mapping)]


def _place(lanes: list[Mapping[str, Any]], threshold: object) -> int:
    """Return the index of a stage's new lane: above the first lane with a lower threshold."""
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
    """Read the merged tables, highest lane first, and collect the problems of each and between them."""
    lanes = []
    names: dict[str, str] = {}
    for position, raw in enumerate(tables):
        where = f"lane {raw['name']}" if isinstance(raw.get("name"), str) else f"lanes[{position}]"
        table = ConfigTable(raw, where, known=settings_of(Lane), problems=problems, elsewhere=TABLE_OF)
        _check_name(raw.get("name"), names, table)
        if not table.has("threshold") and position < len(tables) - 1:
            table.problem("threshold is missing; only the last lane has none")
        default = _default(consumer, position=position, lanes=len(tables))
        lane = _lane(table, consumer, default=default)
        lanes.append(replace(lane, name=str(raw.get("name")), position=position))
    _compare_thresholds(lanes, problems)
    if lanes and lanes[-1].closing:
        problems.append(
            f"lane {lanes[-1].name}: closing is true, and the last lane takes all messages below the other thresholds; "
            "write another lane after it, and give it a threshold"
        )
    return tuple(lanes)


RESERVED = ("Default", "Resource", "Bell")
"""The CDK leaves the first two out of logical ids, so that two queues would have one; the bell has an output."""


def _check_name(name: object, names: dict[str, str], table: ConfigTable) -> None:
    if not isinstance(name, str):
        table.problem("name is missing" if name is None else f"name is {describe(name)}; must be a string")
        return
    if not NAME.fullmatch(name):
        table.problem(
            f"name {name!r} is invalid; use up to 40 letters, digits, '_' and '-', beginning with an upper-case "
            f"letter or a digit"
        )
    if name in RESERVED:
        table.problem(f"the name is one of a template's own; use another, such as {name}s")
    # AWS: logical ids are alphanumeric (CloudFormation template anatomy), so A-B and AB would become one.
    key = re.sub(r"[^a-z0-9]", "", name.lower())
    if key in names:
        same = names[key] == name
        table.problem(
            "named twice"
            if same
            else f"the name equals {names[key]}, ignoring case and punctuation; use another name"
        )
    for other, another in names.items():
        if key == other + DEAD_LETTER:
            table.problem(
                f"the name equals that of the dead-letter queue of {another} in a template; use another name"
            )
        elif other == key + DEAD_LETTER:
            table.problem(
                f"the name of its dead-letter queue equals that of lane {another} in a template; use another name"
            )
    names.setdefault(key, name)


def _default(consumer: ConsumerSettings, *, position: int, lanes: int) -> Lane:
    """
    Return the defaults of a lane that depend on the slots and on its place among the lanes.

    With twice as many slots as lanes the mappings start no more invocations than there are slots, so that none is
    throttled. Then the highest one brings single messages, since others would wait behind them while slots are free.
    """
    slots = max(LOWEST_CONCURRENCY, min(HIGHEST_CONCURRENCY, consumer.reserved_concurrency))
    default = Lane(name="", maximum_concurrency=slots)
    middle = LOWEST_CONCURRENCY * max(0, lanes - 2)
    if consumer.engine is EngineName.PULL or lanes < 2 or slots < LOWEST_CONCURRENCY * lanes:  # noqa: PLR2004
        return default
    first = (slots - middle) // 2
    if position == 0:
        return replace(default, maximum_concurrency=first, batch_size=1)
    if position < lanes - 1:
        return replace(default, maximum_concurrency=LOWEST_CONCURRENCY, batch_size=LOWEST_CONCURRENCY)
    return replace(default, maximum_concurrency=slots - middle - first)


def _lane(table: ConfigTable, consumer: ConsumerSettings, *, default: Lane) -> Lane:
    needed = VISIBILITY_FACTOR * consumer.function_timeout
    read = table.read(
        Lane,
        visibility_timeout=needed,
        maximum_concurrency=default.maximum_concurrency,
        batch_size=default.batch_size,
        **_yield_delays(table, consumer),
    )
    lane = Lane(name="", **read)
    table.refuse(Lane, consumer.without_effect(Lane))
    # AWS: at least six times the function timeout (lambda/latest/dg/services-sqs-configure).
    if lane.visibility_timeout < needed:
        table.problem(
            f"visibility_timeout {format_duration(lane.visibility_timeout)} is under {VISIBILITY_FACTOR} "
            f"times the function timeout; must be at least {format_duration(needed)}"
        )
    if lane.yield_delay_min > lane.yield_delay_max:
        table.problem(
            f"yield_delay_min {format_duration(lane.yield_delay_min)} is longer than "
            f"yield_delay_max {format_duration(lane.yield_delay_max)}"
        )
    return lane


def _yield_delays(table: ConfigTable, consumer: ConsumerSettings) -> dict[str, timedelta]:
    """
    Return the defaults of the minimum and the maximum; that of the minimum never exceeds the maximum of the file.

    With several slots yielded records park for longer: most of them are woken, and those that return by
    themselves occupy slots to no purpose. A lane with a `max_wait` keeps the short delays, since a parked message
    that becomes overdue is served only after its return.
    """
    default = Lane(name="")
    long = consumer.reserved_concurrency >= SLOTS_WITH_LONG_PARKING and not table.has("max_wait")
    minimum, maximum = LONG_PARKING if long else (default.yield_delay_min, default.yield_delay_max)
    longest = parse_duration(table.raw("yield_delay_max")) or maximum
    return {"yield_delay_min": min(minimum, longest), "yield_delay_max": maximum}


def _compare_thresholds(lanes: list[Lane], problems: list[str]) -> None:
    known = [lane for lane in lanes if lane.threshold is not None]
    for higher, lower in pairwise(known):
        if higher.threshold == lower.threshold:
            problems.append(
                f"lane {lower.name}: threshold {lower.threshold} is also that of {higher.name}; "
                f"no message would ever reach {lower.name}"
            )
        elif (higher.threshold or 0) < (lower.threshold or 0):
            problems.append(
                f"lane {lower.name}: threshold {lower.threshold} is above {higher.threshold} of "
                f"{higher.name} before it; write the highest lane first"
            )
