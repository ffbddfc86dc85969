"""Waiting for what other threads and processes bring about."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE, LOOK = 120.0, 0.05
"""Seconds until it is given up, far more than a busy machine needs, and between two looks."""


def until(condition: Callable[[], bool], *, why: str = "it did not happen") -> None:
    """Look again and again until a condition holds; fail after two minutes."""
    for _ in range(int(PATIENCE / LOOK)):
        if condition():
            return
        threading.Event().wait(LOOK)
    raise AssertionError(why)
