"""What the page's scripts send: JSON objects, whose fields are read by name and type."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SOURCE = "request"


class Fields:
    """
    The fields of one request; an empty text counts as left out.

    Args:
        values: by name.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = {name: value for name, value in values.items() if value not in (None, "")}

    @classmethod
    def of_body(cls, body: bytes) -> Self:
        """
        Read a JSON object.

        Raises:
            ConfigurationError: it is none.
        """
        try:
            values = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise _wrong(f"no JSON: {error}") from error
        if not isinstance(values, dict):
            raise _wrong("one JSON object is needed")
        return cls(values)

    def text(self, name: str) -> str | None:
        """Return a text, None where there is none."""
        value = self._values.get(name)
        if value is not None and not isinstance(value, str):
            raise _wrong(f"{name} is {value!r}; a text is needed")
        return value

    def required(self, name: str) -> str:
        """Return a text that must be there."""
        value = self.text(name)
        if value is None:
            raise _wrong(f"{name} is missing")
        return value

    def choice(self, name: str, known: Sequence[str]) -> str:
        """Return a text that must be one of those known."""
        return _known(name, self.required(name), known)

    def texts(self, name: str, known: Sequence[str] | None = None) -> list[str]:
        """Return a list of texts, each one of those known if such are given; empty where there is none."""
        values = self._values.get(name, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise _wrong(f"{name} is {values!r}; a list of texts is needed")
        return values if known is None else [_known(name, value, known) for value in values]

    def integer(self, name: str, *, least: int | None = None) -> int | None:
        """Return a whole number, also one written as a text; None where there is none."""
        value = self._values.get(name)
        if value is None:
            return None
        try:
            number = int(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
        except ValueError:
            number = None
        if number is None or (least is not None and number < least):
            needed = "a whole number" if least is None else f"a whole number from {least} on"
            raise _wrong(f"{name} is {value!r}; {needed} is needed")
        return number

    def flag(self, name: str) -> bool:
        """Return a truth value, False where there is none."""
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise _wrong(f"{name} is {value!r}; true or false is needed")
        return value


def _known(name: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise _wrong(f"{name} is {value!r}; one of {', '.join(known)} is needed")
    return value


def _wrong(problem: str) -> ConfigurationError:
    return ConfigurationError([problem], source=SOURCE)
