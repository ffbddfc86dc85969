"""
Other answers to whose turn it is, for the consumer as it is deployed: policies that a waiting room could have had.

Batches come, are settled and cost calls as ever. What an environment reads in the register of slots is put in the
policy's order first: who stands before it in line, for whom it makes way between two records, how many slots there are.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from simulator.world import SimulatedLanes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from lanes.config import LanesConfig
    from lanes.consumer.slots import Occupation, SlotsSnapshot
    from simulator.function import InvocationContext
    from simulator.memory import MemoryRegister


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """
    A batch that has a slot or wants one.

    Attributes:
        position: of its lane, 0 is the highest.
        since: when it came, in epoch seconds.
        sent_at: when its first message was sent.

    """

    position: int
    since: float
    sent_at: float


class Strict:
    """By lane, then by age: the order of the waiting room, of which the others change one thing each."""

    def turn(self, claim: Claim) -> tuple[float, ...]:
        """Return its place in line: the least goes first."""
        return claim.position, claim.since

    def makes_way(self, holder: Claim, waiting: Claim) -> bool:
        """Whether a batch gives its slot, between two records, to one of a higher lane that waits."""
        return self.turn(waiting) < self.turn(holder)

    def most_below(self, slots: int) -> int:
        """Return how many of the slots all lanes below the top may hold together."""
        return slots

    def draw(self) -> None:
        """Note that a slot was given out, or may be given away before the next record."""


class InLineAlone(Strict):
    """The same order in line, and nobody makes way: a batch that has its slot keeps it to its end."""

    def makes_way(self, holder: Claim, waiting: Claim) -> bool:
        """Never."""
        del holder, waiting
        return False


class Lottery(Strict):
    """
    Whenever a slot is given out, and before each record, lanes draw lots.

    Args:
        tickets: of each lane, highest first.
        chance: draws.

    """

    def __init__(self, tickets: Sequence[float], *, chance: Random) -> None:
        self._tickets = tickets
        self._chance = chance
        self.draw()

    def turn(self, claim: Claim) -> tuple[float, ...]:
        """Return what the lane has drawn."""
        return self._drawn[claim.position], claim.since

    def draw(self) -> None:
        """Draw an order of lanes: the first by its share of the tickets, the next by its share of the rest."""
        self._drawn = [self._chance.expovariate(tickets) for tickets in self._tickets]


class HeadStart(Strict):
    """
    The oldest message goes first, and each lane counts as older than it is.

    Args:
        seconds: that each lane's messages are ahead, highest first.

    """

    def __init__(self, seconds: Sequence[float]) -> None:
        self._seconds = seconds

    def turn(self, claim: Claim) -> tuple[float, ...]:
        """Return when it was sent, less its head start."""
        return (claim.sent_at - self._seconds[claim.position],)


class KeptForTop(Strict):
    """As ours, but one slot is the top lane's alone; with one slot there is none to keep."""

    def most_below(self, slots: int) -> int:
        """Return all but one."""
        return max(1, slots - 1)


class PolicyLanes(SimulatedLanes):
    """Lanes with a waiting room in which a policy decides."""

    def __init__(self, *arguments: Any, policy: Strict, **options: Any) -> None:
        self._policy = policy
        self._sent_at: dict[str, float] = {}
        super().__init__(*arguments, **options)

    def _make_handle(self) -> Callable[[Mapping[str, Any], InvocationContext], Mapping[str, Any]]:
        shared = self.register
        self.register = view = PolicyView(
            self._policy, shared, lanes=self.config, sent_at=self._sent_at, clock=self.kernel.clock
        )
        try:
            handle = super()._make_handle()
        finally:
            self.register = shared

        def noting(event: Mapping[str, Any], context: InvocationContext) -> Mapping[str, Any]:
            view.first_sent_at = int(event["Records"][0]["attributes"]["SentTimestamp"]) / 1000
            return handle(event, context)

        return noting


class PolicyView:
    """
    The register as one environment reads it, put in a policy's order.

    Args:
        policy: whose turn it is.
        register: what all environments share.
        lanes: the lanes.
        sent_at: when the first message of each environment's batch was sent, shared as well.
        clock: epoch seconds.

    Attributes:
        first_sent_at: when the first message of this environment's batch was sent.

    """

    def __init__(
        self,
        policy: Strict,
        register: MemoryRegister,
        *,
        lanes: LanesConfig,
        sent_at: dict[str, float],
        clock: Callable[[], float],
    ) -> None:
        self._policy = policy
        self._register = register
        self._positions = {lane.name: lane.position for lane in lanes.lanes}
        self._slots = lanes.consumer.reserved_concurrency
        self._sent_at = sent_at
        self._clock = clock
        self._line: Occupation | None = None
        self.first_sent_at = 0.0

    def write(
        self, line: Occupation, *, now: float, parked_until: Mapping[str, float], frees: int | None = None
    ) -> SlotsSnapshot:
        """Tell the others, and return who stands before this one."""
        self._tells(line)
        seen = self._register.write(line, now=now, parked_until=parked_until, frees=frees)
        return self._in_line(seen, line)

    def take(
        self, line: Occupation, slot: int, *, now: float, parked_until: Mapping[str, float]
    ) -> SlotsSnapshot | None:
        """Take a slot, unless it may have none: one condition more of the same call."""
        register, before = self._register, self._line
        told = register.lines.get(line.environment)
        self._tells(line)
        taken = register.take(line, slot, now=now, parked_until=parked_until)
        if taken is not None and self._is_full(line, taken):
            del register.taken[slot]
            if told is not None:
                register.lines[line.environment] = told
            taken = None
        if taken is None:
            self._line = before
            return None
        waited = before is not None and before.lane == line.lane and before.waiting_since
        seen = self._in_line(taken, dataclasses.replace(line, waiting_since=waited or now))
        self._policy.draw()
        return seen

    def read(self, environment: str) -> SlotsSnapshot:
        """Return who stands before this one; or, where it has a slot, only those it makes way for."""
        seen = self._register.read(environment)
        if self._line is None:
            return seen
        return self._making_way(seen, self._line) if self._line.busy else self._in_line(seen, self._line)

    def _tells(self, line: Occupation) -> None:
        self._line = line
        self._sent_at[line.environment] = self.first_sent_at

    def _in_line(self, seen: SlotsSnapshot, line: Occupation) -> SlotsSnapshot:
        """Rank those who wait around this one, if it waits, and show no free slot where it may have none."""
        now, mine = self._clock(), self._turn(line)
        if not line.waiting_since:
            return seen
        others = tuple(
            self._ranked(other, line, first=self._turn(other) < mine) if other.waits(now) else other
            for other in seen.others
        )
        taken = dict.fromkeys(range(self._slots), float("inf")) if self._is_full(line, seen) else seen.taken
        return dataclasses.replace(seen, others=others, taken=taken)

    def _ranked(self, other: Occupation, line: Occupation, *, first: bool) -> Occupation:
        if other.goes_before(line) == first:
            return other
        return dataclasses.replace(other, rank=line.rank + (-1 if first else 1))

    def _making_way(self, seen: SlotsSnapshot, line: Occupation) -> SlotsSnapshot:
        self._policy.draw()
        now, mine = self._clock(), self._claim(line)
        others = tuple(
            other
            for other in seen.others
            if not other.waits(now) or self._policy.makes_way(mine, self._claim(other))
        )
        return dataclasses.replace(seen, others=others)

    def _is_full(self, line: Occupation, seen: SlotsSnapshot) -> bool:
        """Whether the lanes below the top have as many slots as they may have, and this is one of them."""
        now = self._clock()
        below = sum(
            other.busy and other.until > now and self._positions[other.lane] > 0 for other in seen.others
        )
        return self._positions[line.lane] > 0 and below >= self._policy.most_below(self._slots)

    def _turn(self, line: Occupation) -> tuple[float | str, ...]:
        return *self._policy.turn(self._claim(line)), line.environment

    def _claim(self, line: Occupation) -> Claim:
        return Claim(
            position=self._positions[line.lane],
            since=line.waiting_since,
            sent_at=self._sent_at.get(line.environment, 0.0),
        )
