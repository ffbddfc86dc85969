"""The phases of a demo and how long each took."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Phases:
    """
    Times phases.

    Args:
        announce: gets the words of each phase that begins.
    """

    def __init__(self, *, announce: Callable[[str], None]) -> None:
        self._announce = announce
        self._began = time.monotonic()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str, words: str) -> Iterator[None]:
        """Announce a phase and time it."""
        self._announce(words)
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = time.monotonic() - began

    @property
    def total(self) -> float:
        """Seconds since the first phase could begin."""
        return time.monotonic() - self._began
