"""
The declaration of a setting, and a typed reader of one table of `lanes.toml` that collects all problems.

Durations are numbers of seconds or strings such as "250ms", "30s", "15m", "12h", "1d". Rates are numbers of records a
second or strings such as "50/s", "600/min".
"""

from __future__ import annotations

import enum
import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Reader = Callable[..., Any]
    """A reading method of `ConfigTable`: takes a table, a key, its default and bounds."""

T = TypeVar("T")

DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(s|min)")
RATE_SECONDS = {"s": 1, "min": 60}
LOWEST_RATE = 1 / 60
SECOND = timedelta(seconds=1)
LONGEST = timedelta(days=3650)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """
    What a record's field declares about its key.

    Attributes:
        meaning: for the reference, in Markdown.
        default: of the key; `...` if it must be set.
        within: the allowed values, where the bounds do not say them all.
        needs: the condition under which the key has an effect; any other makes it a problem.
        reader: reads the key; None if the table's own reader does.
        bounds: for the reader.
    """

    meaning: str
    default: Any = ...
    within: str = ""
    needs: str = ""
    reader: Reader | None = None
    bounds: Mapping[str, Any] = field(default_factory=dict)


def setting(
    default: T, reader: Reader | None, meaning: str, *, within: str = "", needs: str = "", **bounds: Any
) -> T:
    """Declare a field as a key with a default."""
    metadata = declared(meaning, default=default, within=within, needs=needs, reader=reader, bounds=bounds)
    if isinstance(default, dict):
        return cast("T", field(default_factory=dict, metadata=metadata))
    return field(default=default, metadata=metadata)


def declared(meaning: str, **declaration: Any) -> dict[str, Setting]:
    """Declare a field that must be set, as its `metadata`."""
    return {"setting": Setting(meaning=meaning, **declaration)}


@functools.cache
def settings_of(record: type) -> dict[str, Setting]:
    """Return the declarations of a record's keys, in order."""
    return {one.name: one.metadata["setting"] for one in fields(record) if "setting" in one.metadata}


class ConfigTable:
    """
    One table of settings, with its name in the file for error messages.

    Every reading method returns the default if the key is missing or wrong, and records the problem. `elsewhere` has
    the tables of other keys, for a hint.
    """

    def __init__(
        self,
        raw: object,
        where: str,
        *,
        known: Iterable[str],
        problems: list[str],
        elsewhere: Mapping[str, str] | None = None,
    ) -> None:
        self._where = where
        self._problems = problems
        self._raw: Mapping[str, Any] = {}
        if isinstance(raw, Mapping):
            self._raw = raw
            self._refuse_unknown(sorted(known), elsewhere or {})
        else:
            self.problem(f"must be a table, not {describe(raw)}")

    def problem(self, text: str) -> None:
        """Record a problem of this table."""
        self._problems.append(f"{self._where}: {text}" if self._where else text)

    def has(self, key: str) -> bool:
        """Check whether the key is set."""
        return key in self._raw

    def raw(self, key: str, default: object = None) -> Any:
        """Return the value as written in the file."""
        return self._raw.get(key, default)

    def read(self, record: type, **defaults: Any) -> dict[str, Any]:
        """
        Read the keys of a record that have a reader.

        Args:
            record: declares the keys.
            defaults: replace those of the record.
        """
        found = {}
        for key, one in settings_of(record).items():
            if one.reader is not None:
                default = defaults.get(key, one.default)
                found[key] = one.reader(self, key, default, **one.bounds) if key in self._raw else default
        return found

    def refuse(self, record: type, keys: Iterable[str]) -> None:
        """Record a problem for each of these keys of a record that is set: it needs another engine or policy."""
        declared = settings_of(record)
        for key in keys:
            if self.has(key):
                self.problem(f"{key} takes effect with {declared[key].needs} only; remove it, or set that")

    def boolean(self, key: str, default: bool) -> bool:  # noqa: FBT001 - the default reads well in place
        """Read true or false."""
        value = self._raw.get(key, default)
        if isinstance(value, bool):
            return value
        self.problem(f"{key} is {describe(value)}; must be true or false")
        return default

    def integer(
        self, key: str, default: int, *, minimum: int | None = None, maximum: int | None = None
    ) -> int:
        """Read a whole number within its bounds."""
        value = self._raw.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            self.problem(f"{key} is {describe(value)}; must be a whole number")
            return default
        return value if self._is_within(key, value, minimum, maximum) else default

    def number(self, key: str, default: float, *, minimum: float, maximum: float) -> float:
        """Read a number within its bounds."""
        value = self._raw.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.problem(f"{key} is {describe(value)}; must be a number")
            return default
        return float(value) if self._is_within(key, value, minimum, maximum) else default

    def texts(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """Read a list of strings that are not empty."""
        value = self._raw.get(key, default)
        if isinstance(value, list | tuple) and all(isinstance(one, str) and one for one in value):
            return tuple(value)
        self.problem(f"{key} is {describe(value)}; must be a list of strings, none of them empty")
        return default

    def choice(self, key: str, default: str, *, allowed: Iterable[str], otherwise: str | None = None) -> str:
        """Read one of the allowed strings, a member where they are an enum; `otherwise` stands for a wrong one."""
        value = self._raw.get(key, default)
        words = list(allowed)
        if isinstance(value, str) and value in words:
            return allowed(value) if isinstance(allowed, enum.EnumType) else value
        self.problem(f"{key} is {describe(value)}; must be one of {', '.join(words)}")
        return default if otherwise is None else otherwise

    def entries(self, key: str, default: Mapping[str, Any], *, read: Reader, **bounds: Any) -> dict[str, Any]:
        """Read a table with any keys; wrong entries are left out."""
        raw = self._raw.get(key, default)
        names = list(raw) if isinstance(raw, Mapping) else []
        table = ConfigTable(raw, f"{self._where}.{key}", known=names, problems=self._problems)
        found = {name: read(table, name, None, **bounds) for name in names}
        return {name: value for name, value in found.items() if value is not None}

    def duration(
        self,
        key: str,
        default: timedelta,
        *,
        minimum: timedelta = timedelta(0),
        maximum: timedelta = LONGEST,
        whole_seconds: bool = False,
    ) -> timedelta:
        """Read a duration within its bounds."""
        if key not in self._raw:
            return default
        value = parse_duration(self._raw[key])
        if value is None:
            self.problem(
                f"{key} is {describe(self._raw[key])}; "
                f'must be a number of seconds or a string such as "250ms", "30s", "15m"'
            )
            return default
        if whole_seconds and value.microseconds:
            self.problem(f"{key} is {format_duration(value)}; must be whole seconds, as AWS requires")
            return default
        return value if self._is_within(key, value, minimum, maximum) else default

    def rate(self, key: str, default: float | None = None) -> float | None:
        """Read a rate in records a second, at least one a minute."""
        raw = self._raw.get(key, default)
        value = parse_rate(raw)
        if value is not None and value >= LOWEST_RATE:
            return value
        needed = (
            'must be a number of records a second or a string such as "50/s", "600/min"'
            if value is None
            else 'must be at least one record a minute, "1/min"'
        )
        self.problem(f"{key} is {describe(raw)}; {needed}")
        return None

    def _is_within(self, key: str, value: Any, minimum: Any, maximum: Any) -> bool:
        if minimum is not None and value < minimum:
            self.problem(f"{key} is {_shown(value)}; must be at least {_shown(minimum)}")
            return False
        if maximum is not None and not value <= maximum:
            self.problem(f"{key} is {_shown(value)}; must be at most {_shown(maximum)}")
            return False
        return True

    def _refuse_unknown(self, known: list[str], elsewhere: Mapping[str, str]) -> None:
        for key in self._raw:
            if key not in known:
                hint = f"; it belongs in {elsewhere[key]}" if key in elsewhere else nearest(key, known)
                self.problem(f"unknown key {key!r}{hint}")


def nearest(name: object, known: Iterable[str]) -> str:
    """Suggest the closest known name, or list the known names."""
    import difflib

    names = sorted(known)
    close = difflib.get_close_matches(str(name), names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(names)}" if names else "; no names are known"


def describe(value: object) -> str:
    """Describe a value with its type, in the terms of TOML."""
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, str):
        return f"the string {value!r}"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    return "nothing" if value is None else f"{type(value).__name__} {value!r}"


def parse_duration(value: object) -> timedelta | None:
    """Read a number of seconds or a string with a unit; return None if it is neither."""
    if isinstance(value, bool):
        return None
    try:
        if isinstance(value, int | float):
            return timedelta(seconds=value) if value >= 0 else None
        match = DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
        return timedelta(seconds=float(match[1]) * UNIT_SECONDS[match[2]]) if match else None
    except (OverflowError, ValueError):
        return None


def parse_rate(value: object) -> float | None:
    """Read a number of records a second or a string with a unit; return None if it is neither."""
    if isinstance(value, bool):
        return None
    try:
        if isinstance(value, int | float):
            rate = float(value)
        else:
            match = RATE.fullmatch(value.strip()) if isinstance(value, str) else None
            rate = float(match[1]) / RATE_SECONDS[match[2]] if match else math.nan
    except OverflowError:
        return None
    return rate if math.isfinite(rate) else None


def format_rate(value: float) -> str:
    """Write a rate in the form of `lanes.toml`."""
    return f"{value:g}/s" if value >= 1 else f"{value * 60:g}/min"


def format_duration(value: timedelta) -> str:
    """Write a duration in the form of `lanes.toml`."""
    seconds = value.total_seconds()
    for unit in ("d", "h", "m", "s"):
        if seconds and seconds % UNIT_SECONDS[unit] == 0:
            return f"{seconds / UNIT_SECONDS[unit]:g}{unit}"
    return f"{seconds * 1000:g}ms" if seconds else "0s"


def _shown(value: object) -> str:
    return format_duration(value) if isinstance(value, timedelta) else str(value)
