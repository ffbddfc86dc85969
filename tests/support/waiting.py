"""Waiting for an effect of other threads and processes."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TIMEOUT_SECONDS, INTERVAL_SECONDS = 120.0, 0.05  # the timeout is far more than a busy machine needs

SLACK = timedelta(minutes=2)
"""Time beyond the timeouts of functions: if a busy machine ends one, its messages stay hidden for minutes."""


def until(condition: Callable[[], bool], *, why: str = "the condition never held") -> None:
    """Check a condition again and again until it holds; fail after two minutes."""
    for _ in range(int(TIMEOUT_SECONDS / INTERVAL_SECONDS)):
        if condition():
            return
        threading.Event().wait(INTERVAL_SECONDS)
    raise AssertionError(why)
