"""Looking again and again, for verbs that follow what happens."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import typer

from lanes.cli.operating import duration
from lanes.cli.printing import say
from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LEAST_INTERVAL = timedelta(milliseconds=100)

Seen = TypeVar("Seen")


def interval_given(text: str) -> float:
    """
    Read how often to look, in seconds.

    Raises:
        typer.BadParameter: it is no duration, or so short that it would be one look after the other.
    """
    interval = duration(text)
    if interval < LEAST_INTERVAL:
        raise typer.BadParameter(f"{text!r} is too short; at least 100ms are needed", param_hint="--interval")
    return interval.total_seconds()


def looks(look: Callable[[], Seen], *, every: float, times: int) -> Iterator[Seen]:
    """
    Look again and again; what a throttled look misses, the next one finds.

    Args:
        look: looks once.
        every: seconds between two looks.
        times: so many looks; 0 for no end.

    Raises:
        AwsError: the first look failed, or a later one in a way that does not pass.
    """
    waiting = threading.Event()
    count = 0
    while True:
        try:
            yield look()
        except AwsError as error:
            if not error.retryable or count == 0:
                raise
            say(f"note: {error}; looking again")
        count += 1
        if times and count >= times:
            return
        waiting.wait(every)
