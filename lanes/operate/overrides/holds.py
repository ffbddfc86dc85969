"""Group holds for operators: let copies of dead letters pass, and end a hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.holds import Hold


class GroupHolds(Protocol):
    """The held groups; every method raises `AwsError`."""

    def read(self, lane: str, groups: Sequence[str]) -> Mapping[str, Hold]:
        """Return the holds of the groups that are held, by group, in one consistent read."""

    def held(self, lane: str | None = None) -> Sequence[Hold]:
        """Return all holds, as of about a second ago."""

    def arrived(self, lane: str, group: str, *, leader: str) -> None:
        """Record that the leader is in the dead-letter queue, unless the group has another one by now."""

    def open(self, lane: str, group: str, *, opening: str) -> bool:
        """Let the copies of an opening pass; return False if the group is not held, or has another opening."""

    def sending(self, lane: str, group: str, *, copy: str, opening: str) -> bool:
        """Announce the copy of a dead letter; return False if copies can no longer pass."""

    def let_go(self, hold: Hold) -> bool:
        """
        End a hold without dead letters: now, or when the last copy is done.

        Returns:
            False if another message has followed into the dead-letter queue since the hold was read, or the leader
            is still on its way there.
        """

    def end(self, lane: str, group: str) -> bool:
        """End a hold, with or without dead letters, at once or as its leader arrives; return False if there is none."""
