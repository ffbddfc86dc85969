"""What a consumer does beside its handlers, in virtual time: on a strand of its own."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from .kernel import ProcessLost

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.consumer.background import Errand

    from .kernel import Kernel

GLANCE = 0.0005
"""Seconds between two looks whether an errand is done, by whoever waits for it."""


class StrandBackground:
    """Gives each errand a strand."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def after(self, seconds: float, action: Callable[[], None]) -> Errand:
        """Begin an action in so many seconds."""
        errand = StrandErrand(self._kernel, action)
        self._kernel.after(seconds, errand.begin)
        return errand


class StrandErrand:
    """One action on its strand."""

    def __init__(self, kernel: Kernel, action: Callable[[], None]) -> None:
        self._kernel = kernel
        self._action: Callable[[], None] | None = action
        self._runs = False

    def begin(self) -> None:
        """Begin it, unless it was dropped."""
        if self._action is not None:
            self._runs = True
            self._kernel.spawn(self._run)

    def end(self) -> None:
        """Drop it if it has not begun, else wait until it is done, or until the waiting process dies."""
        self._action = None
        while self._runs:
            self._kernel.sleep(GLANCE)

    def _run(self) -> None:
        assert self._action is not None  # noqa: S101 - begin looked
        # A process that dies takes this with it; its strand is the handler's.
        with suppress(ProcessLost):
            self._action()
        self._runs = False
