"""One environment's seat: it takes part with a slot, makes way for a while, and leaves, and tells the others so."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lanes.consumer.others import RESERVE
from lanes.consumer.room import OVER
from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.config import Lane, LanesConfig
    from lanes.consumer.gate import Gate
    from lanes.consumer.loads import QueueLoads
    from lanes.consumer.others import Others
    from lanes.consumer.reserve import Reserve
    from lanes.consumer.room import WaitingRoom
    from lanes.consumer.slots import Occupation, SlotsSnapshot

UNDELETED = 0.25
"""Seconds for which a mapping may still hold the records that an invocation has done: it deletes them after it."""

FOLLOW_UP, WORTH_WAITING_FOR = 0.1, 1.0
"""
Seconds for which a lane's next batch is expected in the waiting room, and that the full batch before it has lasted.

Between two batches of one group lie a deletion, a receive and an invocation. A lower lane that takes the slot in
between makes way again after its next record. A tenth of the slot's time is the most that is spent in vain.
"""


class Seat:
    """
    What one environment does with its slot, over its invocations.

    Args:
        config: of the deployment.
        gate: is told when it was a lane's turn, since nothing waited above then.
        others: who are told.
        loads: of the queues, as this environment reads them.
        room: where it waits for a slot, if that is not before the function.
        reserve: for overdue records.
        clock: epoch seconds.

    """

    def __init__(
        self,
        *,
        config: LanesConfig,
        gate: Gate,
        others: Others,
        loads: QueueLoads,
        room: WaitingRoom | None,
        reserve: Reserve,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._gate = gate
        self._others = others
        self._loads = loads
        self._room = room
        self._reserve = reserve
        self._clock = clock
        self._taken_at = float("-inf")
        self._serves_overdue = False

    @property
    def has_room(self) -> bool:
        """Whether whoever has no slot waits for one in the function."""
        return self._room is not None

    def enter(
        self,
        lane: Lane,
        *,
        records: int,
        deadline: float,
        patience: float,
        overdue: Callable[[], bool],
        lasts: float,
        tenant: str,
    ) -> bool:
        """
        Tell the others that an invocation began, once it has a slot; return False where it waited for one in vain.

        Args:
            lane: whose records it has.
            records: how many.
            deadline: when it ends at the latest, in epoch seconds.
            patience: seconds for which it waits for a slot, where there is a waiting room.
            overdue: tells whether they may go before all others in the waiting room.
            lasts: seconds for which they are likely to need a slot; 0 where that can't be told.
            tenant: whose they are, in a lane with a `tenant_share`.

        Raises:
            AwsError: the others can't be told. With a waiting room there is no slot then.

        """
        self._others.tenant = tenant
        self._gate.entered(lane)
        if self._room is None:
            self._others.tell(self._others.line(lane, records=records, busy=True, until=deadline))
            return True
        if overdue():
            # What others have spent of the reserve by now.
            self._others.look()
        line = self._others.line(lane, records=records, busy=True, until=deadline + OVER)
        return self._take_slot(lane, line, patience=patience, overdue=overdue, lasts=lasts)

    @property
    def serves_overdue(self) -> bool:
        """Whether this invocation may serve overdue records while a higher lane waits."""
        return self._room is None or self._serves_overdue

    def waits_in_place(
        self, lane: Lane, *, records: int, deadline: float, patience: float, overdue: Callable[[], bool]
    ) -> bool:
        """
        Make way with the records in hand: give the slot back and wait for one; return whether it came back.

        Without a waiting room it never does.

        Raises:
            AwsError: the others can't be told, and there may be no slot.

        """
        if self._room is None:
            return False
        line = self._others.line(lane, records=records, busy=True, until=deadline + OVER)
        line = dataclasses.replace(line, rank=lane.position)
        since = self._clock()
        self._others.learn(self._room.step_aside(line, since=since, parked_until=self._others.news()))
        return self._take_slot(lane, line, patience=patience, overdue=overdue, since=since)

    def _take_slot(
        self,
        lane: Lane,
        line: Occupation,
        *,
        patience: float,
        overdue: Callable[[], bool],
        lasts: float = 0.0,
        since: float | None = None,
    ) -> bool:
        assert self._room is not None  # noqa: S101 - asked for with one only
        taken = self._room.take(
            line,
            self._others.seen,
            patience=patience,
            parked_until=self._others.news(),
            rank=lambda waits, seen: self._rank(lane, waits, seen, overdue=overdue),
            lasts=lasts,
            since=since,
        )
        self._serves_overdue = taken is not None and taken[0].rank < 0
        if taken is None:
            return False
        self._others.learn(taken[1])
        self._taken_at = self._clock()
        self._gate.seated(lane, serves_overdue=self._serves_overdue)
        return True

    def _rank(
        self, lane: Lane, waits: Occupation, seen: SlotsSnapshot, *, overdue: Callable[[], bool]
    ) -> int:
        """Return the place in line: overdue records go before all, but one at a time, for there is one account."""
        self._reserve.learn(seen.parked_until.get(RESERVE, 0.0))
        now = self._clock()
        mine = dataclasses.replace(waits, rank=-1)
        is_free = not any(
            line.rank < 0 and line.until > now and (line.busy or line.goes_before(mine))
            for line in seen.others
        )
        return -1 if is_free and overdue() else lane.position

    def leave(self, lane: Lane, *, done: int, kept: int, more_behind: bool = False) -> None:
        """
        Tell the others that the slot is free as good as now: as soon as it is decided, not when all is settled.

        Args:
            lane: whose records it had.
            done: how many of them are done.
            kept: how many stay in the queue.
            more_behind: whether others of their groups may have waited behind them.

        """
        slot = self._room.give_back() if self._room else None
        line = self._others.line(lane, records=done, busy=False, until=self._clock() + UNDELETED, kept=kept)
        told = self._expecting(lane, line) if self._room and more_behind else line
        try:
            self._others.tell(told, frees=slot)
        except AwsError:
            if slot is None:
                raise
            # Else nobody would have the slot until this invocation could run no more.
            self._others.tell(told, frees=slot)
        self._others.undeleted = line if done else None
        if self._others.alone:
            # While it ran, what stayed visible was behind its own groups: that proves nothing.
            self._loads.observe_anew(lane)

    def _expecting(self, lane: Lane, line: Occupation) -> Occupation:
        """Keep a place in line for the next batch of the lane for a moment, where one is likely to follow at once."""
        now = self._clock()
        if line.kept or now - self._taken_at < WORTH_WAITING_FOR or lane == self._config.last_lane:
            return line
        return dataclasses.replace(
            line, waiting_since=now + FOLLOW_UP, until=now + FOLLOW_UP, rank=lane.position
        )
