"""The load of a simulation, from a TOML file and options, and the settings of the lanes that it varies."""

from __future__ import annotations

import dataclasses
import itertools
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from lanes.config import LanesConfig
from lanes.config.table import ConfigTable, format_duration, nearest, parse_duration
from lanes.errors import ConfigurationError

from .parameters import Faults, Unknowns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


ROOT_KEYS = ("duration", "drain", "seed", "away", "arrivals", "unknowns", "faults")
MANY = 10**9
TEN_MINUTES = timedelta(minutes=10)
DAY = timedelta(days=1)
BRIEF = timedelta(seconds=60)
Choice = TypeVar("Choice", bound=StrEnum)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """
    The messages of one lane.

    Attributes:
        rate: messages a second, at random times.
        burst: number that arrive together; the rate stays the same.
        backlog: messages in the queue at the start.
        groups: number of message groups, chosen at random; 0 gives each message its own group.
        service: median duration of a handler.
        spread: sigma of a log-normal distribution of handler durations around `service`.
        failing: share of messages that always fail, and are dead-lettered in the end.
        flaky: share of messages that fail the first time.

    """

    rate: float = 0.0
    burst: int = 1
    backlog: int = 0
    groups: int = 0
    service: timedelta = timedelta(milliseconds=100)
    spread: float = 0.0
    failing: float = 0.0
    flaky: float = 0.0

    @property
    def mean_service(self) -> float:
        """Mean duration of a handler in seconds: above the median if there is a spread."""
        return float(self.service.total_seconds() * 2.718281828459045 ** (self.spread**2 / 2))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """
    One load.

    Attributes:
        arrivals: by the lane's name; a lane without an entry gets no messages.
        duration: time in which messages arrive.
        drain: longest time after that for the remaining messages; the run ends sooner if none is left.
        seed: decides every random choice.
        away: from when until when the resource is away, in seconds since the start, each time.
        unknowns: undocumented behaviour of AWS.
        faults: faults to inject.

    """

    arrivals: Mapping[str, Arrivals]
    duration: timedelta = TEN_MINUTES
    drain: timedelta = timedelta(hours=1)
    seed: int = 1
    away: Sequence[tuple[float, float]] = ()
    unknowns: Unknowns = dataclasses.field(default_factory=Unknowns)
    faults: Faults = dataclasses.field(default_factory=Faults)

    @property
    def expected_messages(self) -> float:
        """Expected number of messages."""
        seconds = self.duration.total_seconds()
        return sum(one.backlog + one.rate * seconds for one in self.arrivals.values())

    @property
    def slots_needed(self) -> float:
        """Mean number of slots that the arriving messages keep busy, without backlogs."""
        return sum(one.rate * one.mean_service for one in self.arrivals.values())

    def is_away(self, seconds: float) -> bool:
        """Return whether the resource is away so many seconds after the start."""
        return any(begin <= seconds < end for begin, end in self.away)


def resolve(raw: object, config: LanesConfig, *, source: str = "scenario") -> Scenario:
    """
    Check a scenario against its lanes.

    Raises:
        ConfigurationError: lists all problems.

    """
    problems: list[str] = []
    root = ConfigTable(raw, "", known=ROOT_KEYS, problems=problems)
    scenario = Scenario(
        arrivals=_arrivals(root, config, problems),
        duration=root.duration("duration", TEN_MINUTES, minimum=timedelta(seconds=1), maximum=30 * DAY),
        drain=root.duration("drain", timedelta(hours=1), maximum=30 * DAY),
        seed=root.integer("seed", 1, minimum=0),
        away=_away(root),
        unknowns=_unknowns(root.raw("unknowns", {}), problems, Unknowns()),
        faults=_faults(root.raw("faults", {}), problems),
    )
    if not problems and scenario.expected_messages <= 0:
        problems.append("arrivals: no lane has a rate or a backlog; set one, or no message is sent")
    if problems:
        raise ConfigurationError(problems, source=source)
    return scenario


def arrivals_option(text: str, tables: dict[str, Any]) -> None:
    """
    Add the keys of an option such as "HIGH rate=0.5 burst=20 service=200ms" to the tables of arrivals.

    Raises:
        ConfigurationError: the option has another form.

    """
    lane, *pairs = text.split()
    table: dict[str, Any] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign:
            raise ConfigurationError(
                [f"{pair!r} is not key=value, as in rate=0.5"], source=f"--arrivals {text!r}"
            )
        table[key] = _number_or_text(value)
    own = tables.get(lane, {})
    # Anything else than a table is for `resolve` to report, with the other problems of the file.
    if isinstance(own, dict):
        tables[lane] = {**own, **table}


def _number_or_text(value: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _arrivals(root: ConfigTable, config: LanesConfig, problems: list[str]) -> dict[str, Arrivals]:
    names = [lane.name for lane in config.lanes]
    tables = ConfigTable(root.raw("arrivals", {}), "arrivals", known=names, problems=problems)
    known = Arrivals.__slots__
    found = {}
    for name in names:
        if not tables.has(name):
            continue
        table = ConfigTable(tables.raw(name), f"arrivals.{name}", known=known, problems=problems)
        default = Arrivals()
        found[name] = Arrivals(
            rate=table.number("rate", 0, minimum=0, maximum=MANY),
            burst=table.integer("burst", 1, minimum=1),
            backlog=table.integer("backlog", 0, minimum=0),
            groups=table.integer("groups", 0, minimum=0),
            service=table.duration("service", default.service, maximum=timedelta(minutes=15)),
            spread=table.number("spread", 0, minimum=0, maximum=3),
            failing=table.number("failing", 0, minimum=0, maximum=1),
            flaky=table.number("flaky", 0, minimum=0, maximum=1),
        )
        if found[name].failing + found[name].flaky > 1:
            table.problem("failing and flaky add up to more than 1")
    return found


def _away(root: ConfigTable) -> list[tuple[float, float]]:
    value = root.raw("away", [])
    found = []
    for text in value if isinstance(value, list) else [value]:
        ends = [parse_duration(part) for part in text.split("-")] if isinstance(text, str) else []
        match ends:
            case [timedelta() as begin, timedelta() as end] if begin < end:
                found.append((begin.total_seconds(), end.total_seconds()))
            case _:
                root.problem(f"away is {text!r}; give its begin and its later end since the start: 10m-30m")
    return found


def _unknowns(raw: object, problems: list[str], default: Unknowns) -> Unknowns:
    table = ConfigTable(raw, "unknowns", known=("backoff", *_UNKNOWN_KEYS), problems=problems)
    longest = table.duration("backoff", default.backoff.longest, minimum=timedelta(milliseconds=1))
    seconds = {
        key: table.duration(key, timedelta(seconds=getattr(default, key)), maximum=BRIEF).total_seconds()
        for key in ("poll", "notice", "invoke", "delete", "call", "stale", "cold_start")
    }
    return dataclasses.replace(
        default,
        backoff=dataclasses.replace(default.backoff, longest=longest),
        winner=_choice(table, "winner", default.winner),
        first_pollers=table.integer("first_pollers", default.first_pollers, minimum=0),
        ramp=table.number("ramp", default.ramp, minimum=0, maximum=MANY),
        throttles_shrink=table.boolean("throttles_shrink", default.throttles_shrink),
        call_spread=table.number("call_spread", default.call_spread, minimum=0, maximum=3),
        noise=table.number("noise", default.noise, minimum=0, maximum=1),
        blocked_counted=table.boolean("blocked_counted", default.blocked_counted),
        group_order=_choice(table, "group_order", default.group_order),
        missed_polls=table.number("missed_polls", default.missed_polls, minimum=0, maximum=0.9),
        **seconds,
    )


def _choice(table: ConfigTable, key: str, default: Choice) -> Choice:
    kind = type(default)
    value = table.raw(key, default.value)
    if value in list(kind):
        return kind(value)
    table.problem(f"{key} is {value!r}{nearest(value, list(kind))}")
    return default


def _faults(raw: object, problems: list[str]) -> Faults:
    table = ConfigTable(raw, "faults", known=Faults.__slots__, problems=problems)
    seconds = ("redeploy_every", "clock_jumps")
    shares = {
        key: table.number(key, 0, minimum=0, maximum=0.9) for key in Faults.__slots__ if key not in seconds
    }
    times = {key: table.duration(key, timedelta(0), maximum=30 * DAY).total_seconds() for key in seconds}
    return Faults(**shares, **times)


_UNKNOWN_KEYS: Sequence[str] = [key for key in Unknowns.__slots__ if key != "backoff"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """
    One combination; None keeps the value of your lanes.

    Attributes:
        slots: reserved concurrency.
        batch_size: of every lane.
        recheck: `recheck_interval`.

    """

    slots: int | None = None
    batch_size: int | None = None
    recheck: timedelta | None = None

    def apply(self, config: LanesConfig) -> LanesConfig:
        """
        Return the lanes with these settings; defaults that depend on the slots are derived again.

        Raises:
            ConfigurationError: the lanes can't have such a value.

        """
        document = config.to_dict(brief=True)
        consumer = dict(document["consumer"])
        if self.slots is not None:
            consumer["reserved_concurrency"] = self.slots
        if self.recheck is not None:
            consumer["recheck_interval"] = self.recheck.total_seconds()
        size = {} if self.batch_size is None else {"batch_size": self.batch_size}
        lanes = [{**lane, **size} for lane in document["lanes"]]
        return LanesConfig.from_dict({**document, "consumer": consumer, "lanes": lanes})

    @property
    def description(self) -> str:
        """The values on one line; empty if all are those of your lanes."""
        parts = []
        if self.slots is not None:
            parts.append("1 slot" if self.slots == 1 else f"{self.slots} slots")
        if self.batch_size is not None:
            parts.append(f"batch_size {self.batch_size}")
        if self.recheck is not None:
            parts.append(f"recheck_interval {format_duration(self.recheck)}")
        return ", ".join(parts)

    def plain(self) -> dict[str, Any]:
        """Return the changed values under their keys in `lanes.toml`, durations in seconds."""
        values = {
            "reserved_concurrency": self.slots,
            "batch_size": self.batch_size,
            "recheck_interval": None if self.recheck is None else self.recheck.total_seconds(),
        }
        return {key: value for key, value in values.items() if value is not None}


def combinations(
    *, slots: Sequence[int] = (), batch_sizes: Sequence[int] = (), rechecks: Sequence[timedelta] = ()
) -> list[Settings]:
    """Return each combination of the values; of a setting without values, your lanes keep theirs."""
    return [
        Settings(slots=slot, batch_size=size, recheck=recheck)
        for slot, size, recheck in itertools.product(
            slots or (None,), batch_sizes or (None,), rechecks or (None,)
        )
    ]
