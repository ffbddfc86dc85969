"""The operators' side of held groups: copies of dead letters pass, and holds end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.consumer.holds import Hold


class GroupHolds(Protocol):
    """The held groups; every method raises `AwsError`."""

    def read(self, lane: str, groups: Sequence[str]) -> Mapping[str, Hold]:
        """Return those of the groups that are held, by group, in one consistent read."""

    def held(self, lane: str | None = None) -> Sequence[Hold]:
        """Return the held groups, as known about a second ago."""

    def open(self, lane: str, group: str) -> bool:
        """Let copies of dead letters pass; return False where the group is not held."""

    def sending(self, lane: str, group: str, *, copy: str) -> bool:
        """Note that a copy of a dead letter is about to be sent; return False where copies pass no more."""

    def let_go(self, hold: Hold) -> bool:
        """
        End a hold of which no dead letter is left: now, or when the last copy is done.

        Returns:
            False where another one has followed into the dead-letter queue since the hold was read.
        """

    def end(self, lane: str, group: str) -> bool:
        """End a hold at once, whatever is left; return False where there is none."""
