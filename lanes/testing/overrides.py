"""Overrides and paused lanes in memory, the consumer's side and the operators'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.overrides import ActiveOverrides

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.overrides import Cancelled, GroupRedirect, Override
    from lanes.testing.calls import Calls


OVERRIDES_READ = "GetItem overrides"
"""The call that an environment makes every few seconds, whatever it handles meanwhile."""

PAUSES_READ = "GetItem pauses"
"""The call that a slot makes every few seconds, whatever it handles meanwhile."""


class MemoryOverrides:
    """The active overrides."""

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self.calls = calls
        self.standing: dict[str, Override] = {}
        self.following: dict[tuple[str, str], GroupRedirect] = {}
        self.gone: dict[tuple[str, str], Cancelled] = {}
        self._clock = clock

    def active(self) -> ActiveOverrides:
        """Return the active overrides."""
        with self.calls.make(OVERRIDES_READ):
            living = [one for one in self.standing.values() if one.expires_at > self._clock()]
            return ActiveOverrides(
                overrides=tuple(sorted(living, key=lambda one: (one.created_at, one.id), reverse=True)),
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


class MemoryPauses:
    """The paused lanes."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.lanes: set[str] = set()

    def paused(self) -> set[str]:
        """Return the names of the paused lanes."""
        with self.calls.make(PAUSES_READ):
            return set(self.lanes)

    def pause(self, lane: str) -> None:
        """Pause a lane."""
        with self.calls.make("UpdateItem"):
            self.lanes.add(lane)

    def resume(self, lane: str) -> None:
        """Resume a lane."""
        with self.calls.make("UpdateItem"):
            self.lanes.discard(lane)
