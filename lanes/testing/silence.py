"""Telemetry without a receiver: for the consumer alone, and for receivers of some of its reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lanes.metrics import Metric


class Silence:
    """Telemetry without a receiver."""

    def begin(self, lane: str, context: Any) -> None:
        """Do nothing."""

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        """Do nothing."""

    def problem(self, name: str, /, **fields: Any) -> None:
        """Do nothing."""

    def count(self, metric: Metric | str, value: float = 1) -> None:
        """Do nothing."""

    def milliseconds(self, metric: Metric | str, value: float) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""
