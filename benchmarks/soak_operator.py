"""An operator in a round of the soak, who cancels and prioritises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.message_filter import MessageFilter
from lanes.overrides import Action, Override
from lanes.testing.overrides import MemoryOverrides

if TYPE_CHECKING:
    from random import Random

    from simulator.simulated_lanes import SimulatedLanes

LASTS = 14 * 86_400.0


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
