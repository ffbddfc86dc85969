"""An operator in a round of the soak, who cancels, prioritises, and redrives held groups."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING

from lanes.depth import LaneDepth
from lanes.holds import Holds
from lanes.message_filter import MessageFilter
from lanes.operate.dead_letters.listing import DeadLetterFilter
from lanes.operate.dead_letters.redrive import DeadLetterRun, Task
from lanes.overrides import Action, Override
from lanes.testing.calls import Calls
from lanes.testing.fifo.errors import FifoQueueError
from lanes.testing.overrides import MemoryHolds, MemoryOverrides
from simulator.dead_letters import letter_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from lanes.operate.dead_letters.listing import DeadLetteredMessage
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
        holds = MemoryHolds(lanes.calls)
        self._overrides = MemoryOverrides(lanes.calls, holds, lanes.scheduler.clock)
        # The operator's calls work, and reach the same table.
        plain = MemoryHolds(Calls())
        plain.found = holds.found
        self._holds = Holds(plain)
        self._has_prioritized = False
        self.actions = 0
        lanes.overrides, lanes.holds = self._overrides, Holds(holds)
        lanes.meter = NoMeter()  # type: ignore[assignment]

    def work(self, *, every: float, until: float) -> None:
        """Begin, and do something about every so many seconds until a time."""
        scheduler = self._lanes.scheduler

        def act() -> None:
            if scheduler.now > until:
                return
            self.actions += 1
            self._chance.choice((self._cancel, self._prioritize, self._redrive))()
            self.work(every=every, until=until)

        scheduler.after(self._chance.expovariate(1 / every), act)

    @property
    def cancelled(self) -> set[int]:
        """Places of the cancelled messages."""
        return {int(one.id.rpartition("-")[2]) for one in self._overrides.gone.values() if one.id}

    def _redrive(self) -> None:
        """Send the dead letters of a lane again, and end its holds; without holds, they would be out of order."""
        if not self._lanes.config.consumer.on_dead_letter:
            return
        lane = self._chance.choice(self._lanes.config.lanes).name
        run = DeadLetterRun(
            Task(
                lane=lane,
                wanted=DeadLetterFilter(),
                copies=True,
                limit=self._chance.choice((None, 1, 10)),
            ),
            queues=_DeadLetters(self._lanes),
            holds=self._holds,
            clock=self._lanes.scheduler.clock,
            pause=self._lanes.scheduler.sleep,
        )
        self._lanes.scheduler.spawn(run.run)

    def _cancel(self) -> None:
        place = self._chance.randrange(max(1, self._lanes.sent)) + 1
        ids = tuple(f"{lane.name}-{place}" for lane in self._lanes.config.lanes)
        self._put(Action.CANCEL, MessageFilter(ids=ids))

    def _prioritize(self) -> None:
        """Once: changes that contradict each other may break the order."""
        if self._has_prioritized:
            return
        self._has_prioritized = True
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


class _DeadLetters:
    """The dead-letter queues of a run, as a redrive reads them."""

    def __init__(self, lanes: SimulatedLanes) -> None:
        self._lanes = lanes

    def dead_letters(self, lane: str) -> LaneDepth:
        counts = self._lanes.queues.dead[lane].counts()
        return LaneDepth(backlog=counts.visible, in_flight=counts.not_visible)

    def receive(
        self, lane: str, *, limit: int, hold: timedelta, wait: bool = True
    ) -> list[DeadLetteredMessage]:
        received = self._lanes.queues.dead[lane].receive(limit, visibility_timeout=hold)
        if wait and not received:
            self._lanes.scheduler.sleep(1.0)
        return [letter_of(lane, message) for message in received]

    def give_back(self, letters: Sequence[DeadLetteredMessage]) -> None:
        for letter in letters:
            with contextlib.suppress(FifoQueueError):
                self._lanes.queues.dead[letter.lane].change_visibility(letter.receipt_handle, timedelta(0))

    def send_back(self, letter: DeadLetteredMessage) -> str:
        dead, note = self._lanes.queues.dead[letter.lane], {**letter.note, "letter_id": letter.letter_id}
        key = f"back-{letter.message_id}"
        sent = dead.send(letter.body, group=letter.group, deduplication_id=key, attributes=note)
        with contextlib.suppress(FifoQueueError):
            dead.delete(letter.receipt_handle)
        return sent.message_id

    def copy(self, letters: Sequence[DeadLetteredMessage], openings: Mapping[str, str]) -> Mapping[str, str]:
        for letter in letters:
            live = self._lanes.queues.live[letter.lane]
            copy = letter.copied_as(openings.get(letter.group, ""))
            live.send(letter.body, group=letter.group, deduplication_id=copy)
            self._lanes.queues.on_visible(letter.lane)
            self._lanes.bell.ring_for(letter.lane)
        return {}

    def delete(self, letters: Sequence[DeadLetteredMessage]) -> Mapping[str, str]:
        refused = {}
        for letter in letters:
            try:
                self._lanes.queues.dead[letter.lane].delete(letter.receipt_handle)
            except FifoQueueError as error:
                refused[letter.message_id] = type(error).__name__
        return refused
