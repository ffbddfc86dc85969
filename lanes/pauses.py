"""Paused lanes of the pull engine, which every slot reads: there is no mapping on a lane to disable."""

from __future__ import annotations

from typing import Protocol


class Pauses(Protocol):
    """The paused lanes of one deployment; every method raises `AwsError`."""

    def paused(self) -> set[str]:
        """Return the names of the paused lanes."""

    def pause(self, lane: str) -> None:
        """Pause a lane; a paused one stays so."""

    def resume(self, lane: str) -> None:
        """Resume a lane, if it is paused."""
