"""
The rules of the bell: the FIFO queue that starts the invocations of the pull engine.

Its mapping has a batch size of one. AWS runs no more invocations for a FIFO queue than the queue has message groups, so
one group for each slot starts as many invocations as there are slots; a ring behind one in flight starts the next
(https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html). One more group carries the heartbeat, for
senders that do not ring, messages that return from a backoff, and crashes.

A send rings for as many slots as it has messages, so that a single one starts a single invocation, and the seconds take
turns with the slots. A slot that finds more than it takes rings for as many others as messages wait; one that is busy
for long rings for others as well, since no invocation starts for the rings of its own group.

Rings of one second are one ring: SQS drops all but the first by their deduplication id. An invocation stays until that
second is over by any clock, see `stay_for`, so it sees everything that was sent in it.

All durations are in seconds.
"""

from __future__ import annotations

import abc
import dataclasses
import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lanes.config import LanesConfig

BODY = '{"lanes":"ring"}'
"""The body of each message of the bell: JSON, since EventBridge can send no other constant."""
_PREFIX = "slot-"
# Lambda's maximum concurrency of a mapping is 1,000, so a slot has three digits at most.
_SLOT = re.compile(rf"{_PREFIX}(0|[1-9][0-9]{{0,2}})")
# The number of an interval at the end of a deduplication id.
_SECOND = re.compile(r"-([0-9]{1,15})\Z")
_LANE_PREFIX = "lanes-ring-"
HEARTBEAT = "heartbeat"
"""The group of the heartbeat."""
LARGEST_BATCH = 10
"""Rings of one call. AWS: its entries (API_SendMessageBatch)."""
COALESCING = 1.0
"""Rings within one such interval are one ring."""
MARGIN = 0.25
"""Seconds by which the clocks of SQS's servers, which date its answers, may differ."""
RETURN_EVERY = 20
"""A heartbeat is returned to its queue for this time, again and again."""
HEARTBEAT_LIFE = 11 * 60
"""
A heartbeat of this age is released, and the next one takes its place.

A rule sends one every minute, and SQS accepts one of these in five minutes, the deduplication interval. So at least one
waits behind a heartbeat of this age
(https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-exactly-once-processing.html).
"""
HEARTBEAT_EVERY = 60
"""A rule sends a heartbeat this often."""
VISIBILITY_MARGIN = 2
"""
A ring that an invocation has taken comes back this long after the function's timeout, unless it was answered.

If the process died, a slot starts then, and its cold start has to fit in the 5 s beyond the timeout as well.
"""
RETENTION = 20 * 60
"""The queue keeps a ring for this time: longer than a heartbeat's life and than any invocation, 15 minutes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ring:
    """
    A message for the bell.

    Attributes:
        group: its message group.
        deduplication_id: the same for all rings of a group within `COALESCING`.
    """

    group: str
    deduplication_id: str


def groups(slots: int) -> list[str]:
    """Return the message group of each slot."""
    return list(map(_group, range(slots)))


def maximum_concurrency(slots: int) -> int:
    """
    Return the maximum concurrency of the bell's mapping: the slots, so that Lambda throttles no ring.

    AWS: it is 2 to 1,000 (Lambda API, ScalingConfig).
    """
    return min(max(2, slots), 1000)


def is_ring(group: str, body: str) -> bool:
    """Whether a message of a lane is a ring, which starts an invocation of its mapping and is nobody's message."""
    return body == BODY and group.startswith(_LANE_PREFIX)


def lane_rings(count: int, at: float) -> list[Ring]:
    """Return messages for a lane's own queue that start so many invocations of its mapping, at an epoch time."""
    second = second_of(at)
    names = [f"{_LANE_PREFIX}{number}" for number in range(count)]
    return [Ring(name, f"{name}-{second}") for name in names]


def slot_of(group: str) -> int | None:
    """Return the number of the slot that a group rings for, from 0; None for the heartbeat's and for foreign groups."""
    found = _SLOT.fullmatch(group)
    return int(found[1]) if found else None


def second_of(at: float) -> int:
    """Return the number of the interval that an epoch time is in."""
    return math.floor(at / COALESCING)


def stay_for(deduplication_id: str, *, sent_at: float) -> float:
    """
    Return the seconds from its start for which the invocation of a ring stays.

    SQS drops later rings of the ring's second, and both of its times are SQS's, so the clock of the invocation has no
    say. An id of a second that SQS's clock is not near tells nothing: then it is one whole interval.

    Args:
        deduplication_id: of the ring.
        sent_at: epoch time at which SQS took the ring.
    """
    found = _SECOND.search(deduplication_id)
    if found is None or abs(int(found[1]) - second_of(sent_at)) > 1:
        return COALESCING + MARGIN
    return max(0.0, (int(found[1]) + 1) * COALESCING + MARGIN - sent_at)


def rings(slots: Iterable[int], at: float) -> list[Ring]:
    """
    Return the messages that ring for some slots.

    Args:
        slots: their numbers, from 0.
        at: epoch time of SQS's answer to the send.
    """
    second = second_of(at)
    return [Ring(group, f"{group}-{second}") for group in map(_group, slots)]


def rung_for(messages: int, serving: Sequence[int], at: float) -> list[int]:
    """
    Return the slots that a sender rings for: as many as it has sent messages, beginning with another one each second.

    All senders of a second begin with the same slot, so that SQS drops all but one of their rings.

    Args:
        messages: number of them in one call.
        serving: the slots that serve their lane.
        at: epoch time of SQS's answer to the send.
    """
    first = second_of(at)
    return [serving[(first + one) % len(serving)] for one in range(min(messages, len(serving)))]


def others(slot: int, count: int, *, slots: int, after: int = 0) -> list[int]:
    """
    Return slots for which another one rings: the next ones, each at most once.

    Args:
        slot: its number.
        count: number of them.
        slots: number of all slots.
        after: how many behind its own are passed over; after the last one the first follows.
    """
    rest = slots - 1
    return [(slot + 1 + (after + one) % rest) % slots for one in range(min(count, rest))]


class Ringer(abc.ABC):
    """
    Rings for slots, for each once in a second; every method raises `AwsError`.

    Args:
        config: the lanes.
        clock: returns epoch seconds.
    """

    def __init__(self, config: LanesConfig, clock: Callable[[], float]) -> None:
        self._config = config
        self._clock = clock
        self._rung: dict[int, int] = {}

    def ring_for(self, lane: str, *, messages: int = 1, at: float | None = None) -> None:
        """
        Ring for messages that a lane has accepted.

        Args:
            lane: its name.
            messages: number of them in one call.
            at: epoch time of SQS's answer to your send; by default that of the clock.
        """
        moment = self._clock() if at is None else at
        serving = self._config.slots_for(self._config.lane(lane))
        self.ring(rung_for(messages, serving, moment), at=moment)

    def ring(self, slots: Iterable[int], *, at: float | None = None) -> None:
        """
        Ring for some slots, but for those that this process has rung for in the same second.

        Args:
            slots: their numbers.
            at: epoch time; by default that of the clock.
        """
        moment = self._clock() if at is None else at
        second = second_of(moment)
        new = [slot for slot in slots if self._rung.get(slot) != second]
        wanted = rings(new, moment)
        for start in range(0, len(wanted), LARGEST_BATCH):
            self._send(wanted[start : start + LARGEST_BATCH])
        # After the calls, so that a slot's next ring in this second repeats a failed one.
        self._rung.update(dict.fromkeys(new, second))

    @abc.abstractmethod
    def _send(self, wanted: Sequence[Ring]) -> None:
        """Send up to ten rings in one call."""


def _group(slot: int) -> str:
    return f"{_PREFIX}{slot}"
