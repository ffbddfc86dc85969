"""Rates: how many records may start a second, split over the slots. Pure but for its clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.config import ConsumerSettings


class Rates:
    """
    The slot's part of `max_rate` and of `max_rates`.

    Each slot spaces its records evenly, and begins with a pause: a new environment knows no records of the one before.

    Args:
        settings: the consumer's.
        clock: epoch seconds.

    """

    def __init__(self, settings: ConsumerSettings, *, clock: Callable[[], float]) -> None:
        slots = settings.reserved_concurrency
        self._clock = clock
        self._pause = {kind: slots / rate for kind, rate in settings.max_rates.items()}
        self._pause_of_all = slots / settings.max_rate if settings.max_rate else 0.0
        now = clock()
        self._next = {kind: now + pause for kind, pause in self._pause.items()}
        self._next_of_all = now + self._pause_of_all
        self.has_kinds = bool(self._pause)

    def wait(self, kind: str = "") -> float:
        """Return the seconds until a record of this kind may start."""
        return max(0.0, self._next_of_all - self._clock(), self._next.get(kind, 0.0) - self._clock())

    def start(self, kind: str = "") -> None:
        """Count a record that starts now."""
        now = self._clock()
        self._next_of_all = max(now, self._next_of_all) + self._pause_of_all
        if kind in self._pause:
            self._next[kind] = max(now, self._next[kind]) + self._pause[kind]
