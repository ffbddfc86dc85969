"""The choice of a slot: which of the lanes with records it serves next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.consumer.engines.looks import POLL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.config import Lane
    from lanes.consumer.engines.looks import Looks, Paused
    from lanes.consumer.engines.order import Strict, Weighted
    from lanes.consumer.engines.reserve import Reserve
    from lanes.consumer.engines.slot_time import SlotTime


class Choice:
    """
    The lanes of a slot, and which of them is next.

    Args:
        lanes: those that it serves, highest first.
        paused: tells those that an operator paused.
        policy: their order.
        reserve: the account for overdue records.
        looks: the looks of its invocation.
        time: the time of its invocation.
        clock: returns epoch seconds.

    Attributes:
        lanes: as given, with paused ones.
        from_reserve: the lane that was chosen last, if that was for an overdue record.

    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        *,
        paused: Paused,
        policy: Strict | Weighted,
        reserve: Reserve,
        looks: Looks,
        time: SlotTime,
        clock: Callable[[], float],
    ) -> None:
        self.lanes = lanes
        self.from_reserve: Lane | None = None
        self._names = frozenset(lane.name for lane in lanes)
        self._paused = paused
        self._policy = policy
        self._reserve = reserve
        self._looks = looks
        self._time = time
        self._clock = clock
        self._overdue_at: dict[str, float] = {}

    def served(self) -> list[Lane]:
        """Return the lanes but for paused ones."""
        return self._served(self.lanes)

    def order(self) -> list[Lane]:
        """Return the same lanes in the order of the policy."""
        return self._served(self._policy.order(self.lanes))

    def above(self, lane: Lane) -> list[Lane]:
        """Return those with priority over a lane."""
        return self._served(self._policy.above(lane))

    def first(self, order: Sequence[Lane], *, expected: float) -> Lane | None:
        """Return the first lane with records in hand, after a look at those before it if one is due."""
        looks = self._looks
        looks.collect()
        before = looks.before_hands(order)
        if self._time.has_time_for(*before):
            looks.look(before, expected=expected)
        place = len(looks.before_hands(order))
        return self.overdue(order[place + 1 :]) or next(iter(order[place:]), None)

    def overdue(self, lanes: Sequence[Lane]) -> Lane | None:
        """Return the first lane with a record in hand that is due from the reserve, after the looks that are due."""
        self.from_reserve = next((lane for lane in lanes if self._is_overdue(lane)), None)
        return self.from_reserve

    def _is_overdue(self, lane: Lane) -> bool:
        now = self._clock()
        if lane.max_wait is None or not self._reserve.has_time:
            return False
        if not self._is_due(lane) and now >= self._overdue_at.get(lane.name, 0.0):
            self._looks.look([lane], expected=0.0)
            if not self._is_due(lane):
                # Half as often as an idle slot polls: with 2.5 s one started 5.7 s late in simulation.
                self._overdue_at[lane.name] = now + 2 * POLL
        return self._is_due(lane)

    def _is_due(self, lane: Lane) -> bool:
        records = self._looks.hands.get(lane.name)
        return records is not None and self._reserve.admits(lane, records[0])

    def _served(self, lanes: Sequence[Lane]) -> list[Lane]:
        paused = self._paused.lanes()
        return [lane for lane in lanes if lane.name in self._names and lane.name not in paused]
