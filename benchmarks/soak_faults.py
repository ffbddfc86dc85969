"""Faults of a round: invalid bodies, deadly handlers, writes that land late, and an operator who moves messages."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from lanes.config import LanesConfig
from lanes.errors import AwsError
from lanes.message_filter import MessageFilter
from lanes.overrides import Action, Override
from lanes.testing.table import MemoryOverrides
from simulator.oracle import violations
from simulator.simulated_lanes import SimulatedLanes

if TYPE_CHECKING:
    from collections import Counter
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


LONGER = 5.0
"""Seconds beyond the function timeout for which a lane may stand still, with either engine."""

START = 0.6
"""Seconds in which the environment after the dead one starts and receives: it takes 0.5."""

NAMES = ("HIGH", "MEDIUM", "LOW")
DEATHS, APART = 2, 7
"""Deadly messages of a round, and function timeouts between them: longer than a lane's visibility timeout."""

LIGHT = 0.05
"""Seconds of the other messages: the slots are free for most of the time."""

BEFORE = 0.15
"""
Seconds that one of them takes with its calls at one slot: 0.103 in the worst of some 300 rounds. A lane also waits for
the messages that higher lanes got meanwhile, one a second each: they come first when the slot is back.
"""
WRITES = {
    "ledger": ("note", "unpark", "begin_effect", "finish_effect", "release_effect"),
    "queues": ("change_visibility", "delete", "dead_letter", "forward"),
    "slots": ("publish",),
}
GIVEN_UP_AFTER = 2.0
LONGEST = 6.0
"""Seconds until the caller gives up, and until the effect at the latest: a request may wait in a proxy or a server."""

LASTS = 14 * 86_400.0
"""Seconds of an operator's change."""


def standstills(chance: Random, seen: Counter[str]) -> list[str]:
    """Run lanes of which one has messages that kill their process; return the broken promises."""
    timeout = chance.choice((10, 30))
    config = _config(chance, timeout)
    lanes = SimulatedLanes(config, seed=chance.randrange(1000))
    names = [lane.name for lane in config.lanes]
    deadly = chance.choice(names)
    for number in range(DEATHS):
        moment, seconds = chance.uniform(1, 20) + number * APART * timeout, chance.choice((0.1, 0.5, 3.0))
        lanes.scheduler.after(
            moment,
            lambda number=number, seconds=seconds: lanes.send(
                deadly, group=f"deadly{number}", seconds=seconds, fault="crash"
            ),
        )
    for second in range(20 + DEATHS * APART * timeout):
        for name in names:
            lanes.scheduler.after(
                second + chance.random(),
                lambda name=name: lanes.send(name, group=f"g{chance.randrange(20)}", seconds=LIGHT),
            )
    lanes.run(seconds=30 + DEATHS * APART * timeout)
    settled = lanes.settle(within=100_000)
    seen["messages"] += lanes.sent
    seen["processes_lost"] += lanes.function.times.lost
    longest = {name: lanes.meter.standstill(name) for name in names}
    silence = timeout + LONGER + START
    allowed = {name: silence * (1 + place * BEFORE) for place, name in enumerate(names)}
    engine = config.consumer.engine.value
    seen[f"longest_standstill_{engine}_percent"] = max(
        seen[f"longest_standstill_{engine}_percent"],
        round(100 * max(longest[name] / allowed[name] for name in names)),
    )
    return [
        *([] if settled else [f"never settled: {lanes.left} messages left"]),
        *violations(lanes),
        *(
            f"{name} stood still for {seconds:.1f} s, {config.consumer} while handlers of {deadly} crashed"
            for name, seconds in longest.items()
            if seconds > allowed[name]
        ),
    ]


def _config(chance: Random, timeout: int) -> LanesConfig:
    names = NAMES[-chance.choice((2, 3)) :]
    size = chance.choice((1, 10))
    lanes = [
        {"name": name, "batch_size": size} | ({"threshold": 50 - 50 * place} if name != NAMES[-1] else {})
        for place, name in enumerate(names)
    ]
    consumer = {
        "engine": chance.choice(("mappings", "pull")),
        "reserved_concurrency": chance.choice((1, 2, 3, 5)),
        "function_timeout": timeout,
        # Each deadly message has one attempt, which counts: several deaths in a row may add up.
        "idempotency": True,
        "max_attempts": 1,
    }
    return LanesConfig.from_dict({"lanes": lanes, "consumer": consumer})


def land_late(lanes: SimulatedLanes, *, share: float, chance: Random) -> None:
    """Let that share of the function's writes time out, and take effect up to `LONGEST` seconds after their start."""
    for owner, names in WRITES.items():
        for name in names:
            part = getattr(lanes, owner)
            setattr(part, name, _late(lanes, getattr(part, name), share=share, chance=chance))


def _late(
    lanes: SimulatedLanes, call: Callable[..., Any], *, share: float, chance: Random
) -> Callable[..., Any]:
    scheduler = lanes.scheduler

    def effect(*given: Any, **named: Any) -> None:
        with contextlib.suppress(AwsError):
            call(*given, **named)

    def made(*given: Any, **named: Any) -> Any:
        if chance.random() >= share:
            return call(*given, **named)
        lands = chance.uniform(GIVEN_UP_AFTER, LONGEST)
        scheduler.after(lands, lambda: scheduler.spawn(lambda: effect(*given, **named)))
        scheduler.sleep(GIVEN_UP_AFTER)
        raise AwsError(operation=call.__name__, code="ReadTimeoutError", retryable=True, answered=False)

    return made


class NoMeter:
    """In place of the meter, which knows no message that changes its lane."""

    def sent(self, lane: str, group: str) -> None:
        """Do nothing."""

    def began(self, lane: str, group: str, *, first: bool) -> None:
        """Do nothing."""

    def ended(self, lane: str, group: str, *, done: bool) -> None:
        """Do nothing."""


class Operator:
    """
    Works on the lanes of a run.

    Attributes:
        actions: how many.

    """

    def __init__(self, lanes: SimulatedLanes, chance: Random) -> None:
        self._lanes = lanes
        self._chance = chance
        self._overrides = MemoryOverrides(lanes.calls, lanes.scheduler.clock)
        self.actions = 0
        lanes.overrides = self._overrides
        lanes.meter = NoMeter()  # type: ignore[assignment]

    def work(self, *, every: float, until: float) -> None:
        """Begin, and do something about every so many seconds until a time."""
        scheduler = self._lanes.scheduler

        def act() -> None:
            if scheduler.now > until:
                return
            self.actions += 1
            self._chance.choice((self._cancel, self._prioritize))()
            self.work(every=every, until=until)

        scheduler.after(self._chance.expovariate(1 / every), act)

    @property
    def cancelled(self) -> set[int]:
        """Places of the cancelled messages."""
        return {int(one.id.rpartition("-")[2]) for one in self._overrides.gone.values() if one.id}

    def _cancel(self) -> None:
        place = self._chance.randrange(max(1, self._lanes.sent)) + 1
        ids = tuple(f"{lane.name}-{place}" for lane in self._lanes.config.lanes)
        self._put(Action.CANCEL, MessageFilter(ids=ids))

    def _prioritize(self) -> None:
        waiting = [
            message
            for lane in self._lanes.config.lanes
            for message in self._lanes.queues.live[lane.name]._store.messages()  # noqa: SLF001 - all, in flight too
        ]
        if waiting:
            group = self._chance.choice(waiting).group.name
            self._put(
                Action.PRIORITIZE, MessageFilter(group=group), priority=self._chance.choice((-100, 15, 1000))
            )

    def _put(self, action: Action, wanted: MessageFilter, *, priority: int = 0) -> None:
        now = self._lanes.scheduler.now
        self._overrides.add(
            Override(
                id=f"o{self.actions}",
                action=action,
                wanted=wanted,
                created_at=now,
                expires_at=now + LASTS,
                who="soak",
                priority=priority,
            )
        )
