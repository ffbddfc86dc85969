"""The plan of a demo: every message it sends and when, decided by the seed alone."""

import random
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lanes import Message, Priority

DEFAULT_CUSTOMERS = 5_000
FEWEST_CUSTOMERS = 100
MOST_CUSTOMERS = 10_000_000
BACKFILL_RUN = "loyalty-tiers"
BACKFILL_KIND = "customer.loyalty_tier"
PAYMENT_KIND = "payment.captured"
ORDER_KIND = "order.placed"
PRIORITIES: Mapping[str, Priority] = {
    BACKFILL_KIND: Priority.BULK,
    PAYMENT_KIND: Priority.HIGH,
    ORDER_KIND: Priority.NORMAL,
}

# At the default size 6 episodes of each kind: 48 payments, enough for a p99 that means something.
_CUSTOMERS_AN_EPISODE = 800
_FEWEST_EPISODES = 3
# Share of the backfill that is done when the first and the last episode are due: there is always a backlog.
_FIRST_EPISODE, _LAST_EPISODE = 0.04, 0.78
# Of the time between two episodes.
_JITTER = 0.5
# Few enough not to decide the drain: each holds its group back for seconds.
_CUSTOMERS_A_POISON, _MOST_POISON = 2_500, 10
_CUSTOMERS_A_FLAKY, _MOST_FLAKY = 1_000, 20


class Fault(StrEnum):
    """How a message is made to fail, as the sample's handlers read it."""

    ALWAYS = "always"
    ONCE = "once"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMessage:
    """
    One message of the demo.

    Attributes:
        id: of the event, the same in every run.
        kind: decides the priority.
        group: None for the backfill, since its writer chooses the groups.
        fault: None for a healthy message.
        data: data of the message beside the fault.
    """

    id: str
    kind: str
    group: str | None = None
    fault: Fault | None = None
    data: Mapping[str, Any] | None = None

    @property
    def priority(self) -> Priority:
        """Priority of its kind."""
        return PRIORITIES[self.kind]

    @property
    def is_live(self) -> bool:
        """Whether it is sent while the backfill drains."""
        return self.kind != BACKFILL_KIND

    def to_message(self) -> Message:
        """Make the message for the producer."""
        data = dict(self.data or {}) | ({"fault": str(self.fault)} if self.fault else {})
        return Message(kind=self.kind, data=data, id=self.id, group=self.group, priority=self.priority)


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """Live messages that are sent together once so much of the backfill is done."""

    due_after: int
    messages: tuple[PlannedMessage, ...]


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
        count = max(_FEWEST_EPISODES, customers // _CUSTOMERS_AN_EPISODE)
        in_trouble = [chance.randrange(count) for _ in _BURSTS]
        step = (_LAST_EPISODE - _FIRST_EPISODE) / (count * len(_BURSTS))
        episodes = []
        for number in range(count * len(_BURSTS)):
            turn, which = divmod(number, len(_BURSTS))
            share = _FIRST_EPISODE + step * (number + _JITTER * chance.random())
            messages = _live_messages(
                number,
                burst=_BURSTS[which],
                fails=turn == in_trouble[which],
                draw=lambda taken: _draw_customer(customers, shards=shards, taken=taken, chance=chance),
                shards=shards,
            )
            episodes.append(Episode(due_after=round(customers * share), messages=messages))
        return cls(customers=customers, seed=seed, shards=shards, episodes=tuple(episodes))

    @property
    def poison(self) -> int:
        """How many rows of the backfill fail always."""
        return min(_MOST_POISON, max(1, self.customers // _CUSTOMERS_A_POISON))

    @property
    def flaky(self) -> int:
        """How many rows of the backfill fail once."""
        return min(_MOST_FLAKY, max(1, self.customers // _CUSTOMERS_A_FLAKY))

    @property
    def live(self) -> tuple[PlannedMessage, ...]:
        """All live messages in the order in which they are sent."""
        return tuple(message for episode in self.episodes for message in episode.messages)

    def backfill(self, *, poison: Sequence[str], flaky: Sequence[str]) -> list[PlannedMessage]:
        """
        List the messages of the backfill: one for each customer.

        Args:
            poison: ids of those that fail always, as the job chose them.
            flaky: ids of those that fail once.
        """
        faults = dict.fromkeys(poison, Fault.ALWAYS) | dict.fromkeys(flaky, Fault.ONCE)
        ids = (f"{BACKFILL_RUN}:{customer_id(number)}" for number in range(1, self.customers + 1))
        return [PlannedMessage(id=one, kind=BACKFILL_KIND, fault=faults.get(one)) for one in ids]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Burst:
    """
    The messages of an episode of one kind.

    Attributes:
        kind: of all its messages.
        customers: how many belong to customers, in the groups of these, where without priority the backfill is
            in front of them.
        visitors: how many belong to visitors, each in a group of its own.
        faults: which of its messages fail in the one episode in which the resource is in trouble.
        followed: a message that fails then; its visitor sends the next one too.
    """

    kind: str
    customers: int
    visitors: int
    faults: Mapping[int, Fault]
    followed: int | None = None


# They take turns.
_BURSTS = (
    _Burst(kind=PAYMENT_KIND, customers=4, visitors=4, faults={4: Fault.ALWAYS, 6: Fault.ONCE}, followed=4),
    _Burst(kind=ORDER_KIND, customers=4, visitors=2, faults={4: Fault.ALWAYS, 5: Fault.ONCE}),
)
_TRIES_FOR_ANOTHER_GROUP = 50


def customer_id(number: int) -> str:
    """Give the id of a customer as the job makes it."""
    return f"c-{number:07d}"


def group_of(customer: str, *, shards: int) -> str:
    """Give the group of a customer as the job chooses it."""
    return f"customers-{zlib.crc32(customer.encode()) % shards}"


def _live_messages(
    episode: int, *, burst: _Burst, fails: bool, draw: Callable[[Collection[str]], str], shards: int
) -> tuple[PlannedMessage, ...]:
    taken: list[str] = []
    messages = []
    for place in range(burst.customers + burst.visitors):
        customer = draw(taken)
        follows = fails and burst.followed is not None and place == burst.followed + 1
        group = f"visitor-{episode}-{burst.followed if follows else place}"
        if place < burst.customers:
            group = group_of(customer, shards=shards)
            taken.append(group)
        messages.append(
            PlannedMessage(
                id=f"live:{episode:04d}-{place:02d}",
                kind=burst.kind,
                group=group,
                fault=burst.faults.get(place) if fails else None,
                data={"customer_id": customer, "amount_cents": 1_000 + 100 * place},
            )
        )
    return tuple(messages)


def _draw_customer(customers: int, *, shards: int, taken: Collection[str], chance: random.Random) -> str:
    """
    Choose a customer, of another group than those taken if there is one.

    A producer sends messages of one group one after the other, so an episode of several groups arrives at once.
    """
    for _ in range(_TRIES_FOR_ANOTHER_GROUP):
        customer = customer_id(chance.randint(1, customers))
        if group_of(customer, shards=shards) not in taken:
            break
    return customer
