"""The plan of a demo: every message it sends and when, decided by the seed alone."""

import random
import zlib
from collections.abc import Collection
from dataclasses import dataclass

from lanes import Message, Priority
from lanes.consumer.breakers import FIRST_PAUSE, IN_A_ROW, LONGEST_PAUSE

DEFAULT_CUSTOMERS, FEWEST_CUSTOMERS, MOST_CUSTOMERS = 5_000, 100, 10_000_000
RUN = "loyalty-tiers"
BACKFILL, PAYMENT, ORDER = "customer.loyalty_tier", "payment.captured", "order.placed"
PRIORITIES = {BACKFILL: Priority.BULK, PAYMENT: Priority.HIGH, ORDER: Priority.NORMAL}
ALWAYS, ONCE = "always", "once"
"""How a message is made to fail, as the sample's handlers read it."""
AWAY_SECONDS = 12.0
"""How long the resource is away after the flood."""

# At the default size 6 episodes of each kind: 48 payments, enough for a p99 that means something.
_CUSTOMERS_AN_EPISODE, _FEWEST_EPISODES = 800, 3
# Share of the backfill that is done when the first and the last episode are due: there is always a backlog.
_FIRST_EPISODE, _LAST_EPISODE = 0.04, 0.78
_JITTER = 0.5  # of the time between two episodes
# They take turns; messages in each: in the groups of customers, where without priority the backfill is in front of
# them, and in groups of their own.
_EPISODES = ((PAYMENT, 4, 4), (ORDER, 4, 2))
_TRIES_FOR_ANOTHER_GROUP = 50
# Messages and groups of each kind that wait for the resource: more groups of payments than calls while it is away.
_AWAY = ((BACKFILL, 40, 10), (PAYMENT, 16, 8))


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """Messages sent together once so many of the backfill are done, or so many calls found the resource away."""

    due_after: int
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    """
    Everything that the seed and the size decide.

    Episodes follow the backfill's progress, not the clock: all runs get the same messages at the same point,
    and the backlog is there on a slow machine as on a fast one.
    """

    customers: int
    seed: int
    shards: int
    episodes: tuple[Episode, ...]

    @classmethod
    def draw(cls, *, customers: int, seed: int, shards: int) -> "DemoPlan":
        """Make the plan of a seed."""
        chance = random.Random(seed)  # noqa: S311 - a demo
        turns = max(_FEWEST_EPISODES, customers // _CUSTOMERS_AN_EPISODE)
        in_trouble = [chance.randrange(turns) for _ in _EPISODES]
        step = (_LAST_EPISODE - _FIRST_EPISODE) / (turns * len(_EPISODES))
        episodes = []
        for number in range(turns * len(_EPISODES)):
            turn, which = divmod(number, len(_EPISODES))
            share = _FIRST_EPISODE + step * (number + _JITTER * chance.random())
            groups = _customer_groups(_EPISODES[which][1], customers, shards, chance)
            messages = _messages(number, *_EPISODES[which], groups=groups, fails=turn == in_trouble[which])
            episodes.append(Episode(due_after=round(customers * share), messages=messages))
        return cls(customers=customers, seed=seed, shards=shards, episodes=tuple(episodes))

    @property
    def poison(self) -> int:
        """How many rows of the backfill fail always: too few to decide the drain, since each holds its group back."""
        return min(10, max(1, self.customers // 2_500))

    @property
    def flaky(self) -> int:
        """How many rows of the backfill fail once."""
        return min(20, max(1, self.customers // 1_000))

    @property
    def live(self) -> tuple[Message, ...]:
        """All live messages in the order in which they are sent."""
        return tuple(message for episode in self.episodes for message in episode.messages)

    def backfill_ids(self) -> list[str]:
        """Return the ids of the backfill, one for each customer, as the job derives them."""
        return [f"{RUN}:{customer_id(number)}" for number in range(1, self.customers + 1)]


def customer_id(number: int) -> str:
    """Return the id of a customer as the job makes it."""
    return f"c-{number:07d}"


def group_of(customer: str, *, shards: int) -> str:
    """Return the group of a customer as the job chooses it."""
    return f"customers-{zlib.crc32(customer.encode()) % shards}"


def _customer_groups(count: int, customers: int, shards: int, chance: random.Random) -> list[str]:
    """
    Draw the groups of customers, different ones as far as there are any.

    A producer sends messages of one group one after the other, so an episode of several groups arrives at once.
    """
    groups: list[str] = []
    for _ in range(count):
        for _ in range(_TRIES_FOR_ANOTHER_GROUP):
            group = group_of(customer_id(chance.randint(1, customers)), shards=shards)
            if group not in groups:
                break
        groups.append(group)
    return groups


def _messages(
    episode: int, kind: str, customers: int, visitors: int, *, groups: Collection[str], fails: bool
) -> tuple[Message, ...]:
    """Make an episode; if the resource is in trouble, one visitor's message fails always, and he sends another one."""
    visiting = [f"visitor-{episode}-{place}" for place in range(visitors)]
    faults = {customers: ALWAYS, customers + 1: ONCE} if fails else {}
    if fails:
        visiting[2:3] = visiting[:1] * len(visiting[2:3])
    return tuple(
        Message(
            kind=kind,
            data={"amount_cents": 1_000 + 100 * place}
            | ({"fault": faults[place]} if place in faults else {}),
            id=f"live:{episode:04d}-{place:02d}",
            group=group,
            priority=PRIORITIES[kind],
        )
        for place, group in enumerate([*groups, *visiting])
    )


def outage(until: float) -> tuple[Episode, Episode]:
    """Make the messages of an outage, epoch seconds its end: a backlog that finds it, then urgent ones."""
    backlog, urgent = (
        tuple(
            Message(
                kind=kind,
                data={"away_until": until},
                id=f"away:{kind}-{number:02d}",
                group=f"{kind}-{number % groups}",
                priority=PRIORITIES[kind],
            )
            for number in range(count)
        )
        for kind, count, groups in _AWAY
    )
    return Episode(due_after=0, messages=backlog), Episode(due_after=IN_A_ROW, messages=urgent)


def tries_while_away() -> tuple[int, float]:
    """Return the calls that a slot may make while the resource is away, and the seconds of the pause at its end."""
    calls, pause = IN_A_ROW, FIRST_PAUSE
    ends = pause
    while ends < AWAY_SECONDS:
        calls, pause = calls + 1, min(2 * pause, LONGEST_PAUSE)
        ends += pause
    return calls, pause
