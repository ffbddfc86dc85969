"""Keep a reading for a while, so that several readers and short intervals cost no further calls."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Generic, TypeVar

from lanes.errors import LanesError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

T = TypeVar("T")


class Cached(Generic[T]):
    """
    The last value, or the error of its reading, until it is too old.

    Args:
        read: reads the value, may raise `LanesError`.
        lasts: lifetime of the value.
        clock: monotonic seconds.
    """

    def __init__(
        self, read: Callable[[], T], *, lasts: timedelta, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._lasts = lasts.total_seconds()
        self._clock = clock
        self._until = float("-inf")
        self._value: T
        self._error: LanesError | None = None

    def get(self) -> T:
        """
        Return the value.

        Raises:
            LanesError: the last reading failed.
        """
        if self._clock() >= self._until:
            # Before the call: an error lasts as long as a value, so an outage is not asked at every poll.
            self._until = self._clock() + self._lasts
            try:
                self._value, self._error = self._read(), None
            except LanesError as error:
                self._error = error
        if self._error is not None:
            raise self._error
        return self._value

    def forget(self) -> None:
        """Read the value again next time."""
        self._until = float("-inf")
