"""Behaviour of a mapping that AWS does not document, as parameters."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from lanes.mapping.rules import MappingSettings

# 2**20 initial waits exceed every cap; a larger power could overflow a timedelta.
_MAX_DOUBLINGS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleBackoff:
    """
    How long a throttled batch waits between its tries.

    # AWS: "Lambda continues to retry the message until the message's timestamp exceeds your queue's
    # visibility timeout" (Handling errors for an SQS event source in Lambda). AWS documents no waits:
    # these numbers are ours.

    Attributes:
        initial: first wait.
        factor: growth from one wait to the next.
        longest: cap of a wait.
        jitter: share of a wait that is taken off at random, 0 to 1.
        retries: false drops a batch at its first throttle.
    """

    initial: timedelta = timedelta(milliseconds=100)
    factor: float = 2.0
    longest: timedelta = timedelta(milliseconds=300)
    jitter: float = 0.2
    retries: bool = True

    def wait(self, throttles: int, *, left: timedelta, random: random.Random) -> timedelta | None:
        """
        Return the wait after a throttled try, or None to drop the batch.

        Args:
            throttles: throttled tries so far, from 1.
            left: rest of the visibility timeout, which began with the receive.
            random: source of the jitter, seeded by you.

        Returns:
            None if the visibility timeout would end first: the messages then return by themselves, and their
            receive has been counted.
        """
        if not self.retries:
            return None
        grown = self.initial * self.factor ** min(throttles - 1, _MAX_DOUBLINGS)
        wait = min(grown, self.longest) * (1 - self.jitter * random.random())
        return wait if wait < left else None


class Winner(StrEnum):
    """Which of the batches that wait for a slot gets a free one."""

    CHANCE = "chance"  # the one that is tried next
    HIGHEST = "highest"  # at once the one of the highest lane
    LOWEST = "lowest"  # at once the one of the lowest lane
    OLDEST = "oldest"  # at once the one that has waited longest

    def rank(self, *, position: int, until: float) -> int | None:
        """
        Return the place of a waiting batch, lowest first; None if a free slot is offered to no batch.

        Args:
            position: of the batch's lane, 0 for the highest.
            until: end of the batch's visibility timeout.
        """
        match self:
            case Winner.CHANCE:
                return None
            case Winner.HIGHEST:
                return position
            case Winner.LOWEST:
                return -position
            case Winner.OLDEST:
                return int(until * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """
    How a mapping comes to its concurrency.

    # AWS documents numbers for standard queues only: it starts with 5 and adds up to 300 a minute
    # (Configuring scaling for SQS event source mappings).

    Attributes:
        first: concurrency of a new mapping; 0 for all of it at once.
        per_second: concurrency that is added each second while there is more to receive.
        shrinks: whether each throttled try takes one unit of the concurrency away, down to one.
            # AWS: "Lambda gradually backs off retries by reducing the amount of concurrency allocated to your Amazon
            # SQS event source mapping" (Handling errors for an SQS event source in Lambda), without numbers.
    """

    first: int = 0
    # The documented 300 a minute of standard queues.
    per_second: float = 5.0
    shrinks: bool = False

    def start(self, settings: MappingSettings) -> int:
        """Return the concurrency of a new mapping."""
        return min(self.first or settings.concurrency, settings.concurrency)

    def added(self, seconds: float, *, random: random.Random) -> int:
        """Return the concurrency to add after some seconds, a fraction of one by chance."""
        wanted = self.per_second * seconds
        return int(wanted) + (random.random() < wanted % 1)


def start_order(mapping_names: Collection[str], *, seed: int) -> list[str]:
    """Return an order for the first polls of mappings: AWS documents none, so the seed decides."""
    order = sorted(mapping_names)
    random.Random(seed).shuffle(order)  # noqa: S311 - an order, not a secret
    return order
