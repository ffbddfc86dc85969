"""Read again at an interval, for verbs that follow changes."""

from __future__ import annotations

import math
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import typer

from lanes.cli.arguments import duration
from lanes.cli.printing import say
from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Below this the verb would call AWS without a pause, and be throttled.
MIN_INTERVAL = timedelta(milliseconds=100)

Seen = TypeVar("Seen")


def parse_interval(text: str) -> float:
    """
    Parse an interval into seconds.

    Raises:
        typer.BadParameter: the text is not a duration, or the duration is too short.
    """
    interval = duration(text, "--interval")
    if interval < MIN_INTERVAL:
        raise typer.BadParameter(f"{text!r} is too short; give at least 100ms", param_hint="--interval")
    return interval.total_seconds()


def readings(
    read: Callable[[], Seen], *, every: float, times: int = 0, within: float = math.inf
) -> Iterator[Seen]:
    """
    Read again and again; a retryable error after the first reading is reported and skipped.

    Args:
        read: reads once.
        every: seconds between readings.
        times: number of readings, also failed ones; 0 for no limit.
        within: seconds after which the last reading begins.

    Raises:
        AwsError: the first reading failed, or a later one failed with an error that is not retryable.
    """
    waiting = threading.Event()
    ends_at, count = time.monotonic() + within, 0
    while True:
        try:
            yield read()
        except AwsError as error:
            # At the first reading it is a wrong stack or missing rights rather than an outage.
            if not error.retryable or count == 0:
                raise
            say(f"note: {error}; trying again")
        count += 1
        left = ends_at - time.monotonic()
        if left <= 0 or (times and count >= times):
            return
        waiting.wait(min(every, left))
