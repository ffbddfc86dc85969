"""Invalid bodies: no JSON, no event, no text, or an event with one wrong field."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

KIND = "work"
WORDS = (
    "",
    " ",
    "null",
    "0",
    "-1",
    "NaN",
    "Infinity",
    "true",
    "[]",
    "{}",
    '""',
    "\ufeff{}",
    "\u2028",
    "{'a': 1}",
)


def hostile_body(chance: Random, number: int) -> str:
    """Return one, different from all others of the run by its number."""
    made = chance.choice(_MAKERS)(chance)
    # AWS: a body has at least one character (SendMessage), and no two here are the same: they are told apart by it.
    return (
        f"{made}{' ' * (number % 7)}\t{number}" if not made.endswith("}") else f'{made[:-1]},"n":{number}}}'
    )


def _words(chance: Random) -> str:
    return chance.choice(WORDS)


def _noise(chance: Random) -> str:
    return "".join(chr(chance.choice((9, 34, 92, 123, 125, 0xFFFD, 0x1F600, 0x7F))) for _ in range(30))


def _deep(chance: Random) -> str:
    depth = chance.choice((10, 2_000, 50_000))
    return "[" * depth + "]" * chance.choice((depth, 0))


def _large(chance: Random) -> str:
    return json.dumps(_event() | {"data": "x" * chance.choice((10_000, 300_000))})


def _huge_number(chance: Random) -> str:
    return (
        '{"specversion":"1.0","type":"work","source":"s","id":"i","data":1'
        + "0" * chance.choice((100, 5_000))
        + "}"
    )


def _cut(chance: Random) -> str:
    whole = json.dumps(_event())
    return whole[: chance.randrange(1, len(whole) - 1)]


def _without_one(chance: Random) -> str:
    event = _event()
    del event[chance.choice(sorted(event))]
    return json.dumps(event)


def _one_wrong(chance: Random) -> str:
    event = _event()
    wrong: tuple[Any, ...] = (
        None,
        7,
        -1,
        1.5,
        True,
        [],
        {},
        [[]],
        "",
        "\ud800",
        "\x00",
        "x" * 5_000,
        10**400,
    )
    event[chance.choice(sorted(event))] = chance.choice(wrong)
    return json.dumps(event)


def _strange_time(chance: Random) -> str:
    times = (
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:60Z",
        "2026-02-30T00:00:00Z",
        "T",
        "1e9",
        "2026-01-01",
    )
    return json.dumps(_event() | {"time": chance.choice(times)})


def _strange_trace(chance: Random) -> str:
    traces = ("00-" + "0" * 32 + "-" + "0" * 16 + "-01", "ff-x", "00-" + "g" * 32 + "-1-1", "-" * 200)
    return json.dumps(_event() | {"traceparent": chance.choice(traces)})


def _unknown_kind(chance: Random) -> str:
    return json.dumps(
        _event() | {"type": chance.choice(("nobody.knows", "work ", "wörk", "\n", "work\u0000"))}
    )


def _handlers_poison(chance: Random) -> str:
    """Well-formed, and of a kind that has a handler, which can't do anything with the data."""
    return json.dumps(_event() | {"data": chance.choice((None, [], "text", {"place": "none"}, 0))})


def _event() -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "type": KIND,
        "source": "elsewhere",
        "id": "hostile",
        "time": "2026-01-01T00:00:00Z",
        "priority": 0,
        "data": {"nothing": "of use"},
    }


_MAKERS: tuple[Callable[[Random], str], ...] = (
    _words,
    _noise,
    _deep,
    _large,
    _huge_number,
    _cut,
    _without_one,
    _one_wrong,
    _strange_time,
    _strange_trace,
    _unknown_kind,
    _handlers_poison,
)
