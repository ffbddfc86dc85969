"""The messages of the demo and when each is sent; the size of the backfill decides all of it."""

from random import Random
from typing import NamedTuple

from lanes import Message, Priority

DEFAULT_CUSTOMERS, FEWEST_CUSTOMERS = 5_000, 100
RUN, SEED = "loyalty-tiers", 1
BACKFILL, PAYMENT, ORDER = "customer.loyalty_tier", "payment.captured", "order.placed"
PRIORITIES = {BACKFILL: Priority.BULK, PAYMENT: Priority.HIGH, ORDER: Priority.NORMAL}
GROUPS = 4
"""Groups of customers, each handled in order."""
AWAY_SECONDS = 12.0
"""How long the resource is away after the flood of a run."""
BEFORE_URGENT, AWAY_TRIES, AWAY_PAUSE = 3, 6, 8.0
"""
The calls that find the resource away before urgent messages are sent, those that a slot may make in all, and the
seconds of the pause in which the resource comes back: three calls in a row, then one after each pause of 1, 2, 4, 8 s.
"""

# At the default size 6 episodes of each kind: 48 payments, enough for a p99 that means something.
_CUSTOMERS_AN_EPISODE, _FEWEST_EPISODES = 800, 3
# Shares of the backfill that are done when the first and the last episode are due: there is always a backlog.
_FIRST, _LAST = 0.04, 0.78
# Kinds of the episodes, and how many visitors, each a group, take part beside the customers, who have the backfill in
# front of them where there is no priority.
_EPISODES = ((PAYMENT, 4), (ORDER, 2))
# Messages and groups of each kind that wait for the resource: more groups of payments than calls while it is away.
_AWAY = ((BACKFILL, 40, 10), (PAYMENT, 16, 8))


class Episode(NamedTuple):
    """Messages that are sent together once so many of the backfill are done: at the same point in each run."""

    due_after: int
    messages: list[Message]


def backfill_ids(customers: int) -> list[str]:
    """Return the ids of the backfill, one for each customer, as the job derives them."""
    return [f"{RUN}:c-{number:07d}" for number in range(1, customers + 1)]


def backfill_arguments(customers: int) -> list[str]:
    """Return the arguments of the job that sends a row for each customer; which of them fail is drawn by the seed."""
    always, once = failing(customers)
    drawn = Random(SEED).sample(range(1, customers + 1), always + once)  # noqa: S311 - a demo
    faults = "".join(
        f" WHEN id IN ({', '.join(map(str, numbers))}) THEN '{fault}'"
        for fault, numbers in (("always", drawn[:always]), ("once", drawn[always:]))
    )
    query = (
        f"FROM range(1, {customers + 1}) SELECT format_string('c-%07d', id) AS customer_id, "
        f"pmod(xxhash64(id), 61) AS orders, CASE{faults} END AS fault"
    )
    return [
        *["--sql", query, "--kind", BACKFILL, "--id", f"concat('{RUN}:', customer_id)"],
        *["--group-by", f"concat('customers-', pmod(crc32(customer_id), {GROUPS}))"],
    ]


def failing(customers: int) -> tuple[int, int]:
    """Return how many rows fail always and once: too few to decide the drain, since each holds its group back."""
    return min(10, max(1, customers // 2_500)), min(20, max(1, customers // 1_000))


def episodes(customers: int) -> list[Episode]:
    """Make the urgent messages; in the second turn one visitor's message fails always, and another one's once."""
    count = len(_EPISODES) * max(_FEWEST_EPISODES, customers // _CUSTOMERS_AN_EPISODE)
    found = []
    for number in range(count):
        turn, which = divmod(number, len(_EPISODES))
        kind, visitors = _EPISODES[which]
        groups = [f"customers-{place}" for place in range(GROUPS)]
        groups += [f"visitor-{number}-{place}" for place in range(visitors)]
        faults = {GROUPS: "always", GROUPS + 1: "once"} if turn == 1 else {}
        messages = [
            _message(kind, f"live:{number:04d}-{place:02d}", group, fault=faults.get(place))
            for place, group in enumerate(groups)
        ]
        found.append(Episode(round(customers * (_FIRST + (_LAST - _FIRST) * number / count)), messages))
    return found


def outage(until: float) -> list[list[Message]]:
    """Make the messages of an outage, epoch seconds its end: a backlog that finds it, then urgent ones."""
    return [
        [
            _message(kind, f"away:{kind}-{number:02d}", f"{kind}-{number % groups}", away_until=until)
            for number in range(count)
        ]
        for kind, count, groups in _AWAY
    ]


def _message(kind: str, name: str, group: str, **data: object) -> Message:
    return Message(kind=kind, data=data, id=name, group=group, priority=PRIORITIES[kind])
