"""The body of a moved message: the same to the last character but for its priority."""

from __future__ import annotations

import json
import re

SPACE = re.compile(r"[ \t\r\n]*")
_decoder = json.JSONDecoder()


def with_priority(body: str, priority: int) -> str:
    """
    Return an event's body with another priority and nothing else changed, its numbers and spaces included.

    Args:
        body: a JSON object, as it was decoded before.
        priority: the new one.

    Example:
        >>> with_priority('{"id": "a", "data": 1.10}', 50)
        '{"priority":50,"id": "a", "data": 1.10}'
    """
    start = _after_space(body, 0) + 1
    place = _after_space(body, start)
    found: tuple[int, int] | None = None
    while body[place] == '"':
        key, place = _decoder.raw_decode(body, place)
        place = _after_space(body, _after_space(body, place) + 1)
        began = place
        _, place = _decoder.raw_decode(body, place)
        if key == "priority":
            found = began, place  # the last one counts, as for readers of the body
        place = _after_space(body, place)
        if body[place] == "}":
            break
        place = _after_space(body, place + 1)
    if found is None:
        return f'{body[:start]}"priority":{priority},{body[start:]}'
    return f"{body[: found[0]]}{priority}{body[found[1] :]}"


def _after_space(text: str, place: int) -> int:
    match = SPACE.match(text, place)
    return place if match is None else match.end()
