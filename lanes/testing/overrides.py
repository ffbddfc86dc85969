"""Overrides and held groups in memory, the consumer's side and the operators'."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lanes.overrides import ActiveOverrides

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.holds import Hold
    from lanes.overrides import Cancelled, GroupRedirect, Override
    from lanes.testing.memory import Calls


OVERRIDES_READ = "GetItem board"
"""The call that an environment makes every few seconds, whatever it handles meanwhile."""


class MemoryHolds:
    """The held groups."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.found: dict[tuple[str, str], Hold] = {}

    def read(self, lane: str, groups: Sequence[str]) -> dict[str, Hold]:
        """Return those that are held."""
        with self.calls.make("BatchGetItem"):
            return {group: self.found[lane, group] for group in groups if (lane, group) in self.found}

    def begin(self, hold: Hold) -> None:
        """Hold a group, or give its hold a new leader."""
        with self.calls.make("TransactWriteItems"):
            known = self.found.get((hold.lane, hold.group))
            since, behind = (known.since, known.behind) if known else (hold.since, 0)
            is_new = known is None
            self._put(
                dataclasses.replace(
                    hold, since=since, behind=behind, again=not is_new, arrived=is_new and hold.arrived
                )
            )

    def arrived(self, lane: str, group: str, *, leader: str) -> None:
        """Record that the leader is in the dead-letter queue."""
        with self.calls.make("UpdateItem"):
            hold = self.found.get((lane, group))
            if hold is not None and hold.leader == leader:
                self._put(dataclasses.replace(hold, arrived=True))

    def behind(self, lane: str, group: str, *, closes: bool = False) -> bool:
        """Count a follower, unless the hold is being released or has ended; with `closes`, let no copies pass."""
        with self.calls.make("UpdateItem"):
            hold = self.found.get((lane, group))
            if hold is None or (hold.releasing and not closes):
                return False
            if closes:
                hold = dataclasses.replace(hold, opening="", last="", releasing=False, again=True)
            return self._put(dataclasses.replace(hold, behind=hold.behind + 1))

    def send_behind(self, lane: str, group: str, *, copy: str) -> bool:
        """Record a copy about to be sent behind the others, if the hold is being released."""
        with self.calls.make("UpdateItem"):
            hold = self.found.get((lane, group))
            return hold is not None and hold.releasing and self._put(dataclasses.replace(hold, last=copy))

    def copy_done(self, lane: str, group: str, *, copy: str) -> None:
        """Record that a copy is done."""
        with self.calls.make("TransactWriteItems"):
            hold = self.found.get((lane, group))
            if hold is None or hold.last != copy:
                return
            if hold.releasing:
                del self.found[lane, group]
            else:
                self._put(dataclasses.replace(hold, last=""))

    def open(self, lane: str, group: str, *, opening: str) -> bool:
        """Let the copies of an opening pass."""
        with self.calls.make("UpdateItem"):
            hold = self.found.get((lane, group))
            if hold is None or hold.opening not in ("", opening):
                return False
            return self._put(dataclasses.replace(hold, opening=opening))

    def sending(self, lane: str, group: str, *, copy: str, opening: str) -> bool:
        """Record a copy of a dead letter about to be sent, if copies pass."""
        with self.calls.make("UpdateItem"):
            hold = self.found.get((lane, group))
            if hold is None or hold.opening != opening:
                return False
            return self._put(dataclasses.replace(hold, last=copy))

    def let_go(self, hold: Hold) -> bool:
        """End a hold of which no dead letter is left, unless another one followed since it was read."""
        with self.calls.make("TransactWriteItems"):
            known = self.found.get((hold.lane, hold.group))
            unchanged = known is not None and (known.behind, known.leader) == (hold.behind, hold.leader)
            if known is None or not unchanged or not known.arrived:
                return False
            if not known.last:
                del self.found[hold.lane, hold.group]
                return True
            return self._put(dataclasses.replace(known, releasing=True))

    def end(self, lane: str, group: str) -> bool:
        """End a hold, or let its leader do so."""
        with self.calls.make("TransactWriteItems"):
            hold = self.found.get((lane, group))
            if hold is not None and not hold.arrived:
                return self._put(dataclasses.replace(hold, released=True))
            return self.found.pop((lane, group), None) is not None

    def forget(self, lane: str, group: str) -> None:
        """Remove a hold that was released before its leader arrived."""
        with self.calls.make("TransactWriteItems"):
            hold = self.found.get((lane, group))
            if hold is not None and hold.released:
                del self.found[lane, group]

    def held(self, lane: str | None = None) -> list[Hold]:
        """Return the held groups."""
        with self.calls.make("Query"):
            return [hold for hold in self.found.values() if lane in (None, hold.lane)]

    def _put(self, hold: Hold) -> bool:
        self.found[hold.lane, hold.group] = hold
        return True


class MemoryOverrides:
    """The active overrides, with the lanes of held groups."""

    def __init__(self, calls: Calls, holds: MemoryHolds, clock: Callable[[], float]) -> None:
        self.calls = calls
        self.standing: dict[str, Override] = {}
        self.following: dict[tuple[str, str], GroupRedirect] = {}
        self.gone: dict[tuple[str, str], Cancelled] = {}
        self._holds = holds
        self._clock = clock

    def active(self) -> ActiveOverrides:
        """Return the active overrides."""
        with self.calls.make(OVERRIDES_READ):
            living = [one for one in self.standing.values() if one.expires_at > self._clock()]
            return ActiveOverrides(
                overrides=tuple(sorted(living, key=lambda one: (one.created_at, one.id), reverse=True)),
                held=frozenset(lane for lane, _ in self._holds.found),
            )

    def redirects(self, lane: str, groups: Sequence[str]) -> dict[str, GroupRedirect]:
        """Return the redirects of groups."""
        with self.calls.make("BatchGetItem"):
            found = {group: self.following.get((lane, group)) for group in groups}
            return {group: one for group, one in found.items() if one and one.expires_at > self._clock()}

    def redirect(self, follow: GroupRedirect) -> None:
        """Redirect a group."""
        with self.calls.make("PutItem"):
            self.following[follow.lane, follow.group] = follow

    def cancelled(self, cancelled: Cancelled) -> None:
        """Record a cancelled message."""
        with self.calls.make("PutItem"):
            self.gone[cancelled.lane, cancelled.message_id] = cancelled

    def add(self, override: Override) -> None:
        """Add an override."""
        self.standing[override.id] = override

    def withdraw(self, override_id: str) -> None:
        """Withdraw an override."""
        self.standing.pop(override_id, None)

    def cancellations(self, *, since: float, limit: int) -> list[Cancelled]:
        """Return cancelled messages, the latest first."""
        found = [one for one in self.gone.values() if one.cancelled_at >= since]
        return sorted(found, key=lambda one: one.cancelled_at, reverse=True)[:limit]
