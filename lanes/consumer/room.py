"""
The waiting room: invocations that have no slot yet, in the function rather than before it.

With a waiting room Lambda may run more invocations than there are slots, so it throttles none. Whoever has no slot
waits for one here, highest lane first, and whoever makes way gives its slot back and waits here too, records in hand.
A slot is taken by one conditional write, and belongs to its holder until its invocation can't run any more.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.consumer.slots import Occupation, SlotRegister, SlotsSnapshot

LOOK_SOON, LOOK_LATER = 0.02, 0.1
"""
Seconds between two looks for a slot: for as many as may have one soon, a third of the slots and one more, and for the
others; also for all while it is known that no slot becomes free.
"""

GIVING_BACK = 0.01
"""Seconds after a batch's likely end at which its slot is free, if all went as it is likely to: a call and a bit."""

LINE_LASTS, LINE_RENEWED = 3.0, 1.0
"""Seconds for which a line of who waits holds, if its environment is lost, and after which it is written anew."""

OVER = 1.0
"""Seconds after its deadline at which an invocation has ended on every clock: its slot is free again."""


class WaitingRoom:
    """
    One environment's way to a slot.

    Args:
        register: where the environments tell each other what they do.
        slots: how many may work at once.
        clock: epoch seconds.
        pause: waits for so many seconds.

    """

    def __init__(
        self,
        *,
        register: SlotRegister,
        slots: int,
        clock: Callable[[], float],
        pause: Callable[[float], None],
    ) -> None:
        self._register = register
        self._slots = slots
        self._clock = clock
        self._pause = pause
        self._slot: int | None = None

    def give_back(self) -> int | None:
        """Return the slot that this environment has, to be given back by whatever it tells next."""
        slot, self._slot = self._slot, None
        return slot

    def take(
        self,
        line: Occupation,
        seen: SlotsSnapshot,
        *,
        patience: float,
        parked_until: Mapping[str, float],
        rank: Callable[[Occupation, SlotsSnapshot], int],
        lasts: float = 0.0,
        since: float | None = None,
    ) -> tuple[Occupation, SlotsSnapshot] | None:
        """
        Wait for a slot; return the line as it took it and what the others say, or None when the patience is over.

        Args:
            line: this environment's, busy, as it stands once it has the slot.
            seen: what was last known of the others.
            patience: seconds.
            parked_until: what else to tell.
            rank: the place of its line in the order of lanes, asked at each look: its records may become overdue.
            lasts: seconds for which it is likely to need the slot; 0 where that can't be told.
            since: when this environment told that it waits, if it did.

        Raises:
            AwsError: the register can't be read or written. No slot is held for longer than the line says.

        """
        began = self._clock()
        waits = dataclasses.replace(line, busy=False, waiting_since=since or began)
        told = since or float("-inf")
        while True:
            told_rank, waits = waits.rank, dataclasses.replace(waits, rank=rank(waits, seen))
            slot = self._free_slot(waits, seen)
            if slot is not None:
                # Noted before the call: if its answer is lost, the slot is given back all the same.
                self._slot = slot
                ends_about = self._clock() + lasts if lasts else 0.0
                line = dataclasses.replace(line, rank=waits.rank, slot=slot, ends_about=ends_about)
                taken = self._register.take(line, slot, now=self._clock(), parked_until=parked_until)
                if taken is not None and not self._is_behind(waits, taken):
                    return line, taken
                if taken is None:
                    self._slot = None
                seen = self._give_back_and_tell(waits, parked_until)
                # Told once: by now others may know better.
                told, parked_until = self._clock(), {}
            elif waits.rank != told_rank or self._clock() - told >= LINE_RENEWED:
                seen = self._tell(waits, parked_until)
                told, parked_until = self._clock(), {}
                if self._free_slot(waits, seen) is not None:
                    continue
            if self._clock() - began >= patience:
                return None
            slot = self._await(waits, seen)
            seen = self._register.read(line.environment) if slot is None else seen.without(slot)

    def _await(self, line: Occupation, seen: SlotsSnapshot) -> int | None:
        """Wait for the next look, or with the first in line for a slot that is likely free by then; return that."""
        now, place = self._clock(), self._before(line, seen)
        # Lower lanes may make way sooner for this one, the others only for those before it.
        ends = sorted(
            (other.ends_about + GIVING_BACK, other.slot)
            for other in seen.others
            if other.slot is not None
            and other.slot < self._slots
            and other.rank <= line.rank
            and other.ends_about + GIVING_BACK > now
        )
        pause = LOOK_SOON if place <= self._slots // 3 + 1 and len(ends) < self._slots else LOOK_LATER
        if ends and ends[0][0] - now <= pause:
            free_at, slot = ends[0]
            self._pause(free_at - now)
            return None if place else slot
        self._pause(pause)
        return None

    def step_aside(
        self, line: Occupation, *, since: float, parked_until: Mapping[str, float]
    ) -> SlotsSnapshot:
        """Give the slot back and stand in line for the next."""
        waits = dataclasses.replace(line, busy=False, waiting_since=since)
        return self._give_back_and_tell(waits, parked_until)

    def _give_back_and_tell(self, line: Occupation, parked_until: Mapping[str, float]) -> SlotsSnapshot:
        """Stand in line; a slot that was not given back for sure is still this one's, to be given back later."""
        seen = self._tell(line, parked_until, frees=self._slot)
        self._slot = None
        return seen

    def _tell(
        self, line: Occupation, parked_until: Mapping[str, float], *, frees: int | None = None
    ) -> SlotsSnapshot:
        now = self._clock()
        line = dataclasses.replace(line, until=now + LINE_LASTS)
        return self._register.write(line, now=now, parked_until=parked_until, frees=frees)

    def _free_slot(self, line: Occupation, seen: SlotsSnapshot) -> int | None:
        """Return the free slot that is this one's by its place in line."""
        now = self._clock()
        free = [slot for slot in range(self._slots) if seen.taken.get(slot, 0.0) <= now]
        place = self._before(line, seen)
        return free[place] if place < len(free) else None

    def _before(self, line: Occupation, seen: SlotsSnapshot) -> int:
        now = self._clock()
        return sum(other.waits(now) and other.goes_before(line) for other in seen.others)

    def _is_behind(self, line: Occupation, seen: SlotsSnapshot) -> bool:
        """Whether others that go first find no other slot: they came just before, or what was known was old."""
        now = self._clock()
        free = sum(seen.taken.get(slot, 0.0) <= now for slot in range(self._slots))
        return self._before(line, seen) > free
