"""
The measured behaviour of AWS, and its file `aws-profile.toml`.

All times are in seconds. A section is named after its experiment; one that was not measured is left out.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Any, NamedTuple

from lanes.config.file import read_toml
from lanes.config.table import ConfigTable, describe
from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT = 2
LONGEST = 1_000_000.0
"""No measured number is larger; one that is was mistyped."""


class NextGroup(enum.StrEnum):
    """The group that a FIFO queue delivers next after one was received."""

    OLDEST = "oldest"  # the one with the oldest message
    BACK = "back"  # another one, if the message returned
    TURN = "turn"  # another one, even if the message was deleted
    MIXED = "mixed"


class Spread(NamedTuple):
    """A measured number: its median or best estimate, its range, and the number of measurements."""

    low: float
    typical: float
    high: float
    samples: int = 0


class Kind(enum.Enum):
    """The form of a value."""

    TIMES = enum.auto()
    SHARES = enum.auto()
    SHARE = enum.auto()
    NUMBER = enum.auto()
    GROUP = enum.auto()


class Key(NamedTuple):
    """One value of a section: its form, its meaning, and whether the section means nothing without it."""

    kind: Kind
    meaning: str
    is_needed: bool = False


Section = dict[str, Any]
SECTIONS: Mapping[str, Mapping[str, Key]] = {
    "throttle": {
        "retried": Key(
            Kind.SHARE, "throttled batches that came back by a retry, not by another receive", True
        ),
        "longest_wait": Key(Kind.TIMES, "longest wait between two tries of a throttled batch"),
        "receives": Key(Kind.NUMBER, "receives spent on each throttled batch"),
        "samples": Key(Kind.NUMBER, "throttled batches"),
    },
    "order": {
        "next": Key(Kind.GROUP, "group that is delivered after one was received", True),
        "same_after_return": Key(Kind.SHARE, "receives that gave the same group after its message returned"),
        "same_after_delete": Key(
            Kind.SHARE, "receives that gave the same group after its message was deleted"
        ),
        "samples": Key(Kind.NUMBER, "receives of both kinds"),
    },
    "polls": {"missed": Key(Kind.SHARES, "short polls that find none of the waiting messages", True)},
    "bell": {
        "start": Key(Kind.TIMES, "from a ring to the handler, in a warm environment", True),
        "follow": Key(Kind.TIMES, "from the end of an invocation to the next one of its group", True),
        "groups": Key(Kind.NUMBER, "groups of the bell"),
        "peak": Key(Kind.NUMBER, "most invocations at the same moment"),
    },
    "calls": {
        "receive": Key(Kind.TIMES, "a receive with messages, inside the function", True),
        "delete": Key(Kind.TIMES, "a delete", True),
        "get_queue_attributes": Key(Kind.TIMES, "a reading of counts", True),
        "update_item": Key(Kind.TIMES, "a write of a small item", True),
        "sigma": Key(Kind.NUMBER, "sigma of a log-normal distribution around the medians"),
    },
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Everything that one probe measured; `incomplete` names steps that did not get all of their events."""

    measured_at: str
    region: str
    incomplete: tuple[str, ...] = ()
    sections: Mapping[str, Section] = dataclasses.field(default_factory=dict)

    def to_toml(self) -> str:
        """Return the content of the file."""
        lines = [
            "# The behaviour of AWS as `lanes probe run` measured it; times are in seconds.",
            f"format = {FORMAT}",
            *(f"{key} = {_toml(getattr(self, key))}" for key in ("measured_at", "region", "incomplete")),
        ]
        for name, section in self.sections.items():
            lines += ["", f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in section.items())]
        return "\n".join(lines) + "\n"

    def rows(self) -> list[dict[str, str]]:
        """Return the table of all values, for people."""
        return [
            {
                "code": f"{name}.{key}",
                "measured": SECTIONS[name][key].meaning,
                "result": _words(value, name, key),
            }
            for name, section in self.sections.items()
            for key, value in section.items()
        ]


def _words(value: Any, name: str, key: str) -> str:
    kind = SECTIONS[name][key].kind
    write = _percent if kind in (Kind.SHARE, Kind.SHARES) else _seconds if kind is Kind.TIMES else _plain
    if isinstance(value, Spread):
        return f"{write(value.typical)} ({write(value.low)} to {write(value.high)}, {value.samples} samples)"
    return write(value)


def _seconds(value: float) -> str:
    # Shorter times than a tenth of a millisecond are the clock's.
    return f"{value:.3g} s" if value >= 1 else f"{round(value * 1000, 1):.3g} ms"


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _plain(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def read_profile(path: Path) -> Profile:
    """
    Read a file that `to_toml` wrote, and that you may have edited.

    Raises:
        ConfigurationError: lists all problems.
    """
    raw = read_toml(path)
    problems: list[str] = []
    root = ConfigTable(
        raw, "", known=("format", "measured_at", "region", "incomplete", *SECTIONS), problems=problems
    )
    if root.raw("format") != FORMAT:
        root.problem(
            f"format is {describe(root.raw('format'))}; must be {FORMAT}; `lanes probe read` makes a new profile from "
            "the events"
        )
    incomplete = root.raw("incomplete", [])
    profile = Profile(
        measured_at=str(root.raw("measured_at", "")),
        region=str(root.raw("region", "")),
        incomplete=tuple(incomplete) if isinstance(incomplete, list) else (),
        sections={name: _section(name, root, problems) for name in SECTIONS if root.has(name)},
    )
    if problems:
        raise ConfigurationError(problems, source=str(path))
    return profile


def _section(name: str, root: ConfigTable, problems: list[str]) -> Section:
    table = ConfigTable(root.raw(name), name, known=SECTIONS[name], problems=problems)
    for key, declared in SECTIONS[name].items():
        if declared.is_needed and not table.has(key):
            table.problem(f"{key} is missing")
    return {key: _value(table, key, one.kind) for key, one in SECTIONS[name].items() if table.has(key)}


def _value(table: ConfigTable, key: str, kind: Kind) -> Any:
    most = 1 if kind in (Kind.SHARE, Kind.SHARES) else LONGEST
    if kind in (Kind.TIMES, Kind.SHARES):
        return _spread(table, key, most=most)
    if kind is Kind.GROUP:
        return NextGroup(table.choice(key, NextGroup.MIXED, allowed=NextGroup))
    return table.number(key, 0, minimum=0, maximum=most)


def _spread(table: ConfigTable, key: str, *, most: float) -> Spread:
    """Read a number with its range; the ends must be in order."""
    problems: list[str] = []
    inner = ConfigTable(table.raw(key), key, known=Spread._fields, problems=problems)
    values = {one: inner.number(one, 0, minimum=0, maximum=most) for one in ("low", "typical", "high")}
    missing = [one for one in values if not inner.has(one)]
    if isinstance(table.raw(key), dict) and missing:
        inner.problem(f"{', '.join(missing)} missing")
    if not problems and not values["low"] <= values["typical"] <= values["high"]:
        inner.problem(f"low {values['low']}, typical {values['typical']} and high {values['high']} must rise")
    for problem in problems:
        table.problem(problem)
    return Spread(**values, samples=inner.integer("samples", 0, minimum=0))


def _toml(value: Any) -> str:
    """Write a value; numbers have four significant digits."""
    if isinstance(value, Spread):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value._asdict().items()) + " }"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{float(f'{value:.4g}')}"
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
