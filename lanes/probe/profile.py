"""
The measured behaviour of AWS, and its file `aws-profile.toml`.

All times are in seconds. A section that was not measured is left out of the file and is None here.
"""

from __future__ import annotations

import dataclasses
import enum
import tomllib
from typing import TYPE_CHECKING, Any, TypeVar

from lanes.config.table import ConfigTable, describe
from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT = 1
LONGEST = 1_000_000.0
"""No measured number is larger; one that is was mistyped."""

S = TypeVar("S")


class Wins(enum.StrEnum):
    """Which of the mappings that wait for a slot gets it."""

    CHANCE = "chance"
    HIGHEST = "highest"
    LOWEST = "lowest"
    OLDEST = "oldest"


class NextGroup(enum.StrEnum):
    """Which group a FIFO queue delivers next after one was received."""

    OLDEST = "oldest"  # the one with the oldest message
    BACK = "back"  # another one, if the message returned
    TURN = "turn"  # another one, also if the message was deleted
    MIXED = "mixed"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """
    A measured number.

    Attributes:
        low: lower end of its range.
        typical: its median or best estimate.
        high: upper end of its range.
        samples: number of measurements.
    """

    low: float
    typical: float
    high: float
    samples: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """
    Throttled batches of a FIFO mapping.

    Attributes:
        retried: share of them that started without another receive, 0 to 1; the others were dropped.
        longest_wait: longest wait between two tries; None if too few were retried.
        receives: receives spent on each of them.
        samples: number of throttled batches.
    """

    retried: float
    longest_wait: Spread | None
    receives: float
    samples: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """
    The mapping that gets a free slot.

    Attributes:
        wins: which one.
        first: share of the slots that the mapping made first got, 0 to 1.
        last: share of the mapping made last.
        oldest: share of the message sent first.
        samples: number of slots.
    """

    wins: Wins
    first: float
    last: float
    oldest: float
    samples: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pollers:
    """
    Concurrency of mappings that meet a backlog, the most of several maxima.

    Attributes:
        first: concurrency at the start; 0 for the maximum at once.
        ramp: concurrency added each second after that.
        reached: concurrency reached by maximum concurrency.
    """

    first: int
    ramp: Spread
    reached: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """
    Order of groups in high-throughput mode.

    Attributes:
        next: the group that is delivered after one was received.
        same_after_return: share of receives that gave the same group again after its message returned, 0 to 1.
        same_after_delete: the same after its message was deleted.
        samples: number of receives of both kinds.
    """

    next: NextGroup
    same_after_return: float
    same_after_delete: float
    samples: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """
    Counts of GetQueueAttributes.

    Attributes:
        age: time until they show a change.
        blocked_counted: whether messages behind one in flight of their group count as visible; None if both were seen.
    """

    age: Spread
    blocked_counted: bool | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShortPolls:
    """
    Short polls of a FIFO queue.

    Attributes:
        missed: share that finds none of the waiting messages, 0 to 1, with its 95 % interval.
    """

    missed: Spread


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """
    Times of calls inside the function.

    Attributes:
        receive: of a receive with messages.
        delete: of a delete.
        get_queue_attributes: of a reading of counts.
        update_item: of a write of a small item.
        sigma: of a log-normal distribution around the medians.
    """

    receive: Spread
    delete: Spread
    get_queue_attributes: Spread
    update_item: Spread
    sigma: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """
    The end of invocations that run into their timeout.

    Attributes:
        late: time from the timeout to the last sign of life.
    """

    late: Spread


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bell:
    """
    Invocations that a FIFO queue starts, a group for each slot.

    Attributes:
        start: time from the send to the handler, in a warm environment.
        follow: time from the end of an invocation to the next one of its group.
        groups: number of groups.
        peak: most invocations at the same moment.
    """

    start: Spread
    follow: Spread
    groups: int
    peak: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """
    Everything that one probe measured.

    Attributes:
        measured_at: ISO 8601 time of the probe.
        region: region of AWS, or the address of a local one.
        incomplete: steps that did not get all of their events.
    """

    measured_at: str
    region: str
    incomplete: tuple[str, ...] = ()
    throttle: Throttle | None = None
    winner: Winner | None = None
    pollers: Pollers | None = None
    order: Order | None = None
    counts: Counts | None = None
    short_polls: ShortPolls | None = None
    calls: Calls | None = None
    kill: Kill | None = None
    bell: Bell | None = None

    @property
    def sections(self) -> dict[str, Any]:
        """The measured sections by name."""
        found = {name: getattr(self, name) for name in SECTIONS}
        return {name: section for name, section in found.items() if section is not None}

    def to_toml(self) -> str:
        """Return the content of the file."""
        lines = [
            "# The behaviour of AWS as `lanes probe run` measured it; times are in seconds.",
            f"format = {FORMAT}",
            f"measured_at = {_toml(self.measured_at)}",
            f"region = {_toml(self.region)}",
            f"incomplete = {_toml(list(self.incomplete))}",
        ]
        for name, section in self.sections.items():
            lines += ["", f"[{name}]"]
            lines += [
                f"{field.name} = {_toml(value)}"
                for field in dataclasses.fields(section)
                if (value := getattr(section, field.name)) is not None
            ]
        return "\n".join(lines) + "\n"


def read_profile(path: Path) -> Profile:
    """
    Read a file that `to_toml` wrote, and that you may have edited.

    Raises:
        ConfigurationError: lists all problems.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigurationError([f"the file cannot be read: {reason}"], source=str(path)) from error
    except ValueError as error:
        raise ConfigurationError([f"not a TOML file: {error}"], source=str(path)) from error
    problems: list[str] = []
    profile = _profile(raw, problems)
    if problems:
        raise ConfigurationError(problems, source=str(path))
    return profile


def _profile(raw: Mapping[str, Any], problems: list[str]) -> Profile:
    root = ConfigTable(
        raw, "", known=("format", "measured_at", "region", "incomplete", *SECTIONS), problems=problems
    )
    if root.raw("format") != FORMAT:
        root.problem(
            f"format is {describe(root.raw('format'))}; must be {FORMAT}; `lanes probe read` makes a new profile from "
            "the events"
        )
    sections = {
        name: read(ConfigTable(root.raw(name), name, known=_keys(kind), problems=problems))
        for name, (kind, read) in SECTIONS.items()
        if root.has(name)
    }
    incomplete = root.raw("incomplete", [])
    return Profile(
        measured_at=str(root.raw("measured_at", "")),
        region=str(root.raw("region", "")),
        incomplete=tuple(incomplete) if isinstance(incomplete, list) else (),
        **sections,
    )


def _keys(kind: type[Any]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def _spread(table: ConfigTable, key: str, *, maximum: float = LONGEST) -> Spread:
    """Read a number with its range; the ends must be in order."""
    inner_problems: list[str] = []
    if not table.has(key):
        table.problem(f"{key} is missing")
        return Spread(low=0, typical=0, high=0, samples=0)
    inner = ConfigTable(table.raw(key), key, known=_keys(Spread), problems=inner_problems)
    values = {one: inner.number(one, 0, minimum=0, maximum=maximum) for one in ("low", "typical", "high")}
    missing = [one for one in values if not inner.has(one)]
    if isinstance(table.raw(key), dict) and missing:
        inner.problem(f"{', '.join(missing)} missing")
    if not inner_problems and not values["low"] <= values["typical"] <= values["high"]:
        inner.problem(f"low {values['low']}, typical {values['typical']} and high {values['high']} must rise")
    for problem in inner_problems:
        table.problem(problem)
    return Spread(**values, samples=inner.integer("samples", 0, minimum=0))


def _share(table: ConfigTable, key: str) -> float:
    return table.number(key, 0, minimum=0, maximum=1)


def _samples(table: ConfigTable) -> int:
    return table.integer("samples", 0, minimum=0)


def _throttle(table: ConfigTable) -> Throttle:
    if not table.has("retried"):
        table.problem("retried is missing")
    return Throttle(
        retried=_share(table, "retried"),
        longest_wait=_spread(table, "longest_wait") if table.has("longest_wait") else None,
        receives=table.number("receives", 1, minimum=1, maximum=LONGEST),
        samples=_samples(table),
    )


def _winner(table: ConfigTable) -> Winner:
    return Winner(
        wins=Wins(table.choice("wins", Wins.CHANCE, allowed=Wins)),
        first=_share(table, "first"),
        last=_share(table, "last"),
        oldest=_share(table, "oldest"),
        samples=_samples(table),
    )


def _pollers(table: ConfigTable) -> Pollers:
    reached = table.raw("reached", {})
    return Pollers(
        first=table.integer("first", 0, minimum=0, maximum=1_000),
        ramp=_spread(table, "ramp"),
        reached=reached if isinstance(reached, dict) else {},
    )


def _order(table: ConfigTable) -> Order:
    return Order(
        next=NextGroup(table.choice("next", NextGroup.MIXED, allowed=NextGroup)),
        same_after_return=_share(table, "same_after_return"),
        same_after_delete=_share(table, "same_after_delete"),
        samples=_samples(table),
    )


def _counts(table: ConfigTable) -> Counts:
    known = table.has("blocked_counted")
    return Counts(
        age=_spread(table, "age"),
        blocked_counted=table.boolean("blocked_counted", True) if known else None,
    )


def _short_polls(table: ConfigTable) -> ShortPolls:
    return ShortPolls(missed=_spread(table, "missed", maximum=1))


def _calls(table: ConfigTable) -> Calls:
    names = ("receive", "delete", "get_queue_attributes", "update_item")
    return Calls(
        **{name: _spread(table, name) for name in names}, sigma=table.number("sigma", 0, minimum=0, maximum=3)
    )


def _kill(table: ConfigTable) -> Kill:
    return Kill(late=_spread(table, "late"))


def _bell(table: ConfigTable) -> Bell:
    return Bell(
        start=_spread(table, "start"),
        follow=_spread(table, "follow"),
        groups=table.integer("groups", 1, minimum=1),
        peak=table.integer("peak", 1, minimum=0),
    )


SECTIONS: Mapping[str, Any] = {
    "throttle": (Throttle, _throttle),
    "winner": (Winner, _winner),
    "pollers": (Pollers, _pollers),
    "order": (Order, _order),
    "counts": (Counts, _counts),
    "short_polls": (ShortPolls, _short_polls),
    "calls": (Calls, _calls),
    "kill": (Kill, _kill),
    "bell": (Bell, _bell),
}
"""The sections of the file: their class and the function that reads them."""


def _toml(value: Any) -> str:
    """Write a value; numbers have four significant digits."""
    if isinstance(value, Spread):
        return _toml(dataclasses.asdict(value))
    if isinstance(value, int):
        return str(value).lower()
    if isinstance(value, float):
        return f"{float(f'{value:.4g}')}"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
