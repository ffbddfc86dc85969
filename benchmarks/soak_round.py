"""One round of the soak: everything drawn from its seed, run to its end, and judged."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from benchmarks.soak_faults import Operator, hostile_body, land_late, standstills
from lanes.config import LanesConfig
from lanes.mapping.rules import ThrottleBackoff, Winner
from lanes.testing.fifo.message import GroupOrder
from simulator.history import data_of
from simulator.oracle import FAILURES, violations
from simulator.parameters import Faults, Unknowns
from simulator.simulated_lanes import SimulatedLanes

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

SETTLED_WITHIN = 3_000_000.0
MOST_INVOCATIONS = 100_000
"""Virtual seconds (five weeks) and invocations after which something will never end; usual are a few hundred."""

FAULTS: dict[str, tuple[float, float]] = {
    "call_errors": (0.001, 0.05),
    "lost_answers": (0.001, 0.05),
    "slow_calls": (0.01, 0.1),
    "ledger_throttled": (0.01, 0.5),
    "crashes": (0.001, 0.03),
    "duplicates": (0.01, 0.1),
    "undeleted": (0.01, 0.1),
    "redeploy_every": (2.0, 60.0),
    "clock_jumps": (0.1, 120.0),
    "hostile": (0.01, 0.2),
    "deploys": (3.0, 120.0),
    "late_effects": (0.002, 0.03),
    "operator": (3.0, 30.0),
    "repeats": (0.02, 0.2),
    "outages": (20.0, 300.0),
    "lengths": (0.5, 1.5),
    "away": (5.0, 600.0),
}
"""
Faults, and how often they come.

`hostile` is the share of messages whose bodies are; `deploys` are the seconds between two deploys of another engine or
number of slots, `operator` those between an operator's actions; `late_effects` is the share of writes that time out and
take effect later, `repeats` that of messages with an id that is sent again, with idempotency only; `outages` are the
seconds between two outages, `lengths` the sigma of log-normal times of handlers, `away` the seconds for which handlers
find their resource away, from a moment within the sends on.
"""

DRAWN_APART = frozenset({"away", "deploys", "late_effects", "lengths", "operator", "outages", "repeats"})
"""Added later, so that earlier rounds stay the same."""

NOT_WITH_OPERATOR = frozenset({"clock_jumps", "hostile"})
"""An override is known everywhere after some seconds, by the environments' clocks; and moves change hostile bodies."""

EFFECTS_ONCE = frozenset(
    {
        "away",
        "duplicates",
        "undeleted",
        "slow_calls",
        "redeploy_every",
        "hostile",
        "deploys",
        "lengths",
        "repeats",
    }
)
"""Faults under which a handler's effect happens once with idempotency."""

PULL_ONLY = ("linger", "policy", "max_rate", "weight", "tenant_share")
"""Settings that take effect with the pull engine only."""

DEPLOY_TAKES = 20.0
"""Longest time in seconds for which mappings and senders of the deployment before go on."""

REPEATING = frozenset(
    {
        "call_errors",
        "lost_answers",
        "ledger_throttled",
        "duplicates",
        "undeleted",
        "late_effects",
        "operator",
        "outages",
        "repeats",
    }
)
"""Faults under which AWS may deliver or count once more; without all of them attempts are judged to the last one."""

LONGEST_REPEAT = 20.0
"""Seconds until an id is sent again, at the latest."""

LONGEST_SHARE = 0.5
"""Longest handler, over the function timeout."""

LONGEST_SPREAD = 0.2
"""Seconds of the sends, over the number of messages."""

TENANTS = 3
"""How many the groups belong to."""

ATTEMPTS, UNSEEN = 5, 2
"""
`max_attempts`, and how many of them may have ended in a death that the handler didn't see.

A process may die before the handler of an announced attempt has begun, or after it has done its work. More than two
such deaths of one message are too many to be chance.
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """
    What decides a round.

    Attributes:
        seed: draws all that isn't given.
        messages: how many are sent; drawn unless given.
        without: faults that stay away.

    """

    seed: int
    messages: int = 0
    without: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.messages:
            drawn = Random(f"messages {self.seed}").choice((20, 60, 150, 300, 600))  # noqa: S311
            object.__setattr__(self, "messages", drawn)

    def but(self, **changes: Any) -> Round:
        """Return the round with something changed."""
        return dataclasses.replace(self, **changes)

    @property
    def only_crashes(self) -> bool:
        """Whether handlers that kill their process are its only fault, so that standstills can be judged."""
        return self.chance("crashes").random() < 0.15  # noqa: PLR2004 - one round in seven

    def chance(self, what: str) -> Random:
        """Return the source of chance for one part, so that no part depends on another."""
        return Random(f"{what} {self.seed}")  # noqa: S311 - a simulation

    @property
    def faults(self) -> dict[str, float]:
        """The faults of this round: all of them, those that leave attempts exact, or any."""
        chance = self.chance("faults")
        how = chance.choice(("all", "exact", "some", "some"))
        drawn = {}
        for name, (low, high) in FAULTS.items():
            chance = self.chance(name) if name in DRAWN_APART else chance
            value = chance.uniform(low, high)
            if (
                how == "all"
                or (how == "exact" and name not in REPEATING)
                or (how == "some" and chance.random() < 0.5)  # noqa: PLR2004 - every other fault
            ):
                drawn[name] = value
        left_out = set(self.without)
        if "operator" in drawn:
            left_out |= NOT_WITH_OPERATOR
        return {name: value for name, value in drawn.items() if name not in left_out}

    @property
    def config(self) -> LanesConfig:
        """The lanes of this round and their settings."""
        chance = self.chance("config")
        count = chance.choice((1, 2, 3, 3, 3, 7))
        lanes: list[dict[str, Any]] = []
        for place in range(count):
            lane: dict[str, Any] = {"name": f"L{place}", "batch_size": chance.choice((1, 2, 5, 10, 10))}
            if place < count - 1:
                lane["threshold"] = 10 * (count - place)
            if chance.random() < 0.2:  # noqa: PLR2004 - one lane in five
                lane["max_wait"] = chance.choice((1, 20, 300))
            if chance.random() < 0.2:  # noqa: PLR2004
                lane |= {"yield_delay_min": 1, "yield_delay_max": chance.choice((1, 3, 60))}
            lanes.append(lane)
        consumer = {
            "reserved_concurrency": chance.choice((1, 1, 2, 3, 5, 10)),
            "function_timeout": chance.choice((10, 30)),
            "idempotency": chance.random() < 0.5,  # noqa: PLR2004 - one round in two
            "max_attempts": ATTEMPTS,
            "backoff_base": chance.choice((1, 2, 10)),
            "backoff_max": chance.choice((10, 60)),
            "recheck_interval": chance.choice((0.05, 0.25, 1.0)),
        }
        return self._with_engine(lanes, consumer, self.chance("engine"))

    def deployed(self, chance: Random) -> LanesConfig:
        """Return the same lanes with another engine or number of slots."""
        document = self.config.to_dict(brief=True)
        slots = chance.choice((1, 2, 3, 5, 10))
        for key in PULL_ONLY:
            document["consumer"].pop(key, None)
        consumer = {**document["consumer"], "reserved_concurrency": slots}
        lanes = [
            {key: value for key, value in lane.items() if key not in PULL_ONLY} for lane in document["lanes"]
        ]
        return self._with_engine(lanes, consumer, chance)

    @staticmethod
    def _with_engine(lanes: list[dict[str, Any]], consumer: dict[str, Any], chance: Random) -> LanesConfig:
        consumer["engine"] = chance.choice(("mappings", "pull"))
        if consumer["engine"] == "pull":
            consumer["linger"] = chance.choice((0, 1, 5))
            consumer["policy"] = chance.choice(("strict", "strict", "weighted"))
            if chance.random() < 0.2:  # noqa: PLR2004 - one round in five
                consumer["max_rate"] = chance.choice((5, 100))
            if chance.random() < 0.3:  # noqa: PLR2004 - one round in three
                lanes = [lane | {"tenant_share": 0.4} for lane in lanes]
        return LanesConfig.from_dict({"lanes": lanes, "consumer": consumer})

    @property
    def unknowns(self) -> Unknowns:
        """Undocumented behaviour of AWS, anywhere in its range."""
        chance = self.chance("unknowns")
        longest = timedelta(seconds=chance.choice((0.3, 2, 10)))
        return Unknowns(
            backoff=ThrottleBackoff(longest=longest),
            winner=chance.choice(list(Winner)),
            first_pollers=chance.choice((0, 1, 2)),
            call=chance.choice((0.002, 0.008, 0.03)),
            call_spread=chance.choice((0.0, 0.7)),
            stale=chance.choice((0.0, 0.0, 1.0, 5.0, 60.0)),
            noise=chance.choice((0.0, 0.0, 0.3)),
            blocked_counted=chance.random() < 0.5,  # noqa: PLR2004
            cold_start=chance.choice((0.1, 0.4, 3.0)),
            group_order=self.chance("turns").choice(list(GroupOrder)),
            missed_polls=self.chance("polls").choice((0.0, 0.1, 0.34)),
        )

    def description(self) -> Iterator[str]:
        """Yield lines that describe the round."""
        yield f"messages {self.messages}"
        yield f"faults {self.faults}"
        yield f"consumer {self.config.consumer}"
        yield from (f"lane {lane}" for lane in self.config.lanes)
        yield f"unknowns {self.unknowns}"


@dataclasses.dataclass(slots=True)
class Sent:
    """Messages of a round that the simulator does not record: places of poison, and hostile bodies by lane."""

    poison: set[int] = dataclasses.field(default_factory=set)
    hostile: dict[str, str] = dataclasses.field(default_factory=dict)


def breaches(one: Round, seen: Counter[str]) -> list[str]:
    """Run a round; return the broken promises, and add to the counts."""
    seen["rounds_of_crashes" if one.only_crashes else f"rounds_{one.config.consumer.engine}"] += 1
    if one.only_crashes:
        return standstills(one.chance("crashes"), seen)
    drawn = one.faults
    share, every, repeats = (drawn.pop(name, 0.0) for name in ("hostile", "deploys", "repeats"))
    late, acts, sigma, away = (
        drawn.pop(name, 0.0) for name in ("late_effects", "operator", "lengths", "away")
    )
    lanes = SimulatedLanes(one.config, unknowns=one.unknowns, faults=Faults(**drawn), seed=one.seed)
    began = one.chance("away begins").uniform(0.0, one.messages * LONGEST_SPREAD)
    lanes.away = lambda seconds: began <= seconds < began + away
    sent, operator = Sent(), None
    if late:
        land_late(lanes, share=late, chance=one.chance("late"))
    if acts:
        operator = Operator(lanes, one.chance("operator acts"))
        operator.work(every=acts, until=lanes.scheduler.now + one.messages)
    try:
        if every:
            _deploy_later(one, lanes, every, one.chance("deployed"))
        repeats = repeats if one.config.consumer.idempotency else 0.0
        _send_all(one, lanes, sent, share, repeats=repeats, sigma=sigma)
        lanes.run(seconds=one.messages)
        lanes.run(seconds=SETTLED_WITHIN, until=lambda: _is_over(lanes))
    except Exception as error:  # noqa: BLE001 - any exception out of the function is a breach
        return [f"the function raised {error!r}"]
    _count(lanes, sent, seen)
    seen["operator_actions"] += operator.actions if operator else 0
    if lanes.left:
        return [f"never settled: {lanes.left} messages left"]
    return [
        *violations(
            lanes,
            foreign=sent.hostile,
            cancelled=operator.cancelled if operator else (),
            repeats=bool(late or acts or repeats),
        ),
        *_hostile_lost(lanes, sent),
        *(() if operator else _healthy_dead(lanes, sent)),
        *(
            _done_twice(lanes)
            if one.config.consumer.idempotency and one.faults.keys() <= EFFECTS_ONCE
            else ()
        ),
    ]


def _is_over(lanes: SimulatedLanes) -> bool:
    return not lanes.left or lanes.function.times.invocations > MOST_INVOCATIONS


def _deploy_later(one: Round, lanes: SimulatedLanes, every: float, chance: Random) -> None:
    def deploy() -> None:
        lanes.deploy(one.deployed(chance), within=chance.random() * DEPLOY_TAKES)
        _deploy_later(one, lanes, every, chance)

    lanes.scheduler.after(every, deploy)


def _send_all(
    one: Round, lanes: SimulatedLanes, sent: Sent, share: float, *, repeats: float, sigma: float
) -> None:
    chance, again, lengths = one.chance("load"), one.chance("again"), one.chance("log-normal")
    names = [lane.name for lane in lanes.config.lanes]
    timeout = lanes.config.consumer.function_timeout.total_seconds()
    groups = chance.choice((1, 3, 20, 1000))
    works = chance.choice(((0.01,), (0.2,), (0.05, 0.2, 1.0), (0.02, timeout * 0.5)))
    spread = chance.choice((0.0, 1.0, one.messages * LONGEST_SPREAD))

    def send(number: int) -> None:
        lane, group = chance.choice(names), chance.randrange(groups)
        # A group of one lane only, since an operator may move it to another.
        group = f"t{group % TENANTS}:g{group}{lane}"
        if chance.random() < share:
            body = hostile_body(chance, number)
            sent.hostile[body] = lane
            lanes.queues.live[lane].send(body, group=group, deduplication_id=f"hostile-{number}")
            lanes.mappings[lane].notice()
            return
        fault = chance.choices(("", "check", "once", "always"), (82, 10, 5, 3))[0]
        seconds = chance.choice(works)
        if sigma:
            # A handler that lasts as long as the function would kill its process at every attempt.
            seconds = min(seconds * lengths.lognormvariate(0.0, sigma), timeout * LONGEST_SHARE)
        lanes.send(lane, group=group, seconds=seconds, fault=fault)
        if fault == "always":
            sent.poison.add(lanes.sent)
        elif fault != "once" and again.random() < repeats:
            body, place = lanes.queues.live[lane].bodies()[-1], lanes.sent
            lanes.scheduler.after(
                again.random() * LONGEST_REPEAT, lambda: _repeat(lanes, again.choice(names), place, body)
            )

    for number in range(one.messages):
        lanes.scheduler.after(chance.random() * spread, lambda number=number: send(number))


def _repeat(lanes: SimulatedLanes, lane: str, place: int, body: str) -> None:
    """Send a message's id again, in a group of its own, once it was begun."""
    if lanes.history.times_begun(place):
        lanes.queues.live[lane].send(body, group=f"again{place}", deduplication_id=f"again-{place}")
        lanes.mappings[lane].notice()
        lanes.senders.ring_for(lane)


def _done_twice(lanes: SimulatedLanes) -> Iterator[str]:
    """With idempotency a message is done once, unless its process died between the effect and its record."""
    twice = [place for place in lanes.history.places if lanes.history.times_done(place) > 1]
    if twice and not lanes.function.times.lost:
        yield f"done twice with idempotency: {len(twice)} ({twice[:5]})"


def _hostile_lost(lanes: SimulatedLanes, sent: Sent) -> Iterator[str]:
    """Every hostile body is dead-lettered as it was, in its lane's queue: it can't be handled, and isn't dropped."""
    dead = {(lane, body) for lane, queue in lanes.queues.dead.items() for body in queue.bodies()}
    missing = [body for body, lane in sent.hostile.items() if (lane, body) not in dead]
    if missing:
        yield f"hostile bodies not dead-lettered: {len(missing)} ({missing[0][:80]!r})"


def _healthy_dead(lanes: SimulatedLanes, sent: Sent) -> Iterator[str]:
    """Nothing that could be done is dead-lettered: neither yields nor throttles nor a few deaths bring it there."""
    dead = {
        int(data_of(body)["place"])
        for queue in lanes.queues.dead.values()
        for body in queue.bodies()
        if body not in sent.hostile
    }
    ends = {place: lanes.history.attempts.get(place, []) for place in sorted(dead - sent.poison)}
    healthy = [
        place
        for place, attempts in ends.items()
        if sum(how in FAILURES for _, how in attempts) < ATTEMPTS - UNSEEN
    ]
    if healthy:
        yield f"healthy messages dead-lettered: {len(healthy)} ({healthy[0]}, attempts {ends[healthy[0]]})"


def _count(lanes: SimulatedLanes, sent: Sent, seen: Counter[str]) -> None:
    seen["messages"] += lanes.sent + len(sent.hostile)
    seen["hostile"] += len(sent.hostile)
    seen["dead_letters"] += lanes.dead
    seen["invocations"] += lanes.function.times.invocations
    seen["processes_lost"] += lanes.function.times.lost
    seen["yields"] += lanes.tally.counts["YieldedMessages"]
    ends = lanes.history.attempts.values()
    seen["yields_in_mid_work"] += sum(how == "yielded" for attempts in ends for _, how in attempts)
    mappings = (*lanes.mappings.values(), lanes.bell_mapping)
    seen["throttles"] += sum(mapping.throttles for mapping in mappings)
    seen["rings"] += lanes.bell_mapping.receives
    seen["refused"] += lanes.refused
    seen["calls"] += sum(lanes.calls.counts.values())
    seen["problems"] += sum(lanes.tally.problems.values())
    seen["virtual_seconds"] += int(lanes.scheduler.now - 1_800_000_000)
