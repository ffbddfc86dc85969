"""Invalid bodies: no JSON, no event, no text, or an event with one wrong field."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

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
EVENT: Mapping[str, Any] = {
    "specversion": "1.0",
    "type": "work",
    "source": "elsewhere",
    "id": "hostile",
    "time": "2026-01-01T00:00:00Z",
    "priority": 0,
    "data": {"nothing": "of use"},
}
WRONG: Sequence[Any] = (None, 7, -1, 1.5, True, [], {}, [[]], "", "\ud800", "\x00", "x" * 5_000, 10**400)
STRANGE: Mapping[str, Sequence[Any]] = {
    "time": (
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:60Z",
        "2026-02-30T00:00:00Z",
        *("T", "1e9", "2026-01-01"),
    ),
    "traceparent": (f"00-{'0' * 32}-{'0' * 16}-01", "ff-x", f"00-{'g' * 32}-1-1", "-" * 200),
    "type": ("nobody.knows", "work ", "wörk", "\n", "work\u0000"),
    # Well-formed, and of a kind that has a handler, which can't do anything with the data.
    "data": (None, [], "text", {"place": "none"}, 0),
}


def hostile_body(chance: Random, number: int) -> str:
    """Return one, different from all others of the run by its number."""
    made = chance.choice(_MAKERS)(chance)
    # AWS: a body has at least one character (SendMessage), and no two here are the same: they are told apart by it.
    return (
        f"{made}{' ' * (number % 7)}\t{number}" if not made.endswith("}") else f'{made[:-1]},"n":{number}}}'
    )


def _noise(chance: Random) -> str:
    return "".join(chr(chance.choice((9, 34, 92, 123, 125, 0xFFFD, 0x1F600, 0x7F))) for _ in range(30))


def _deep(chance: Random) -> str:
    depth = chance.choice((10, 2_000, 50_000))
    return "[" * depth + "]" * chance.choice((depth, 0))


def _large(chance: Random) -> str:
    return json.dumps({**EVENT, "data": "x" * chance.choice((10_000, 300_000))})


def _huge_number(chance: Random) -> str:
    return json.dumps({**EVENT, "data": 1})[:-1] + "0" * chance.choice((100, 5_000)) + "}"


def _cut(chance: Random) -> str:
    whole = json.dumps(EVENT)
    return whole[: chance.randrange(1, len(whole) - 1)]


def _without_one(chance: Random) -> str:
    left_out = chance.choice(sorted(EVENT))
    return json.dumps({key: value for key, value in EVENT.items() if key != left_out})


def _one_wrong(chance: Random) -> str:
    return json.dumps({**EVENT, chance.choice(sorted(EVENT)): chance.choice(WRONG)})


def _strange(chance: Random) -> str:
    key = chance.choice(sorted(STRANGE))
    return json.dumps({**EVENT, key: chance.choice(STRANGE[key])})


_MAKERS: Sequence[Callable[[Random], str]] = (
    lambda chance: chance.choice(WORDS),
    _noise,
    _deep,
    _large,
    _huge_number,
    _cut,
    _without_one,
    _one_wrong,
    *(4 * [_strange]),
)
