"""Show progress, so that no verb is silent for long, and read again at an interval."""

from __future__ import annotations

import math
import sys
import threading
import time
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from lanes.cli.arguments import duration
from lanes.cli.printing import console, say
from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lanes.operate.redrive import DeadLetterRun, RunProgress

# People take a command that is silent for longer for one that hangs.
EVERY_SECONDS = 2.0
THREAD = "busy"


@contextmanager
def busy(describe: Callable[[], str]) -> Iterator[None]:
    """Show a spinner on a terminal while the block runs, and a line elsewhere; renew the text every two seconds."""
    terminal = console(stderr=True).status(describe()) if sys.stderr.isatty() else None
    show = terminal.update if terminal else say
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(EVERY_SECONDS):
            show(describe())

    thread = threading.Thread(target=tell, name=THREAD, daemon=True)
    with terminal or nullcontext():
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def progress_bar(last: ProgressColumn | None = None) -> Progress:
    """Return a bar with a count and a last column, by default the remaining time; it shows on a terminal alone."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        last or TimeRemainingColumn(),
        console=console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )


def run_shown(
    title: str,
    make: Callable[[Callable[[RunProgress], None]], DeadLetterRun],
    *,
    limit: int,
) -> RunProgress:
    """
    Run with a progress bar, or lines in a log.

    Args:
        title: in front of the bar.
        make: makes the run, with the function that shows its progress.
        limit: of the run; 0 for no limit.
    """
    with progress_bar() as bar:
        task = bar.add_task(title, total=None)

        def report(progress: RunProgress) -> None:
            bar.update(task, completed=progress.done, total=limit or progress.expected)

        run = make(report)

        def so_far() -> str:
            return f"{title}: {run.progress.done} of about {limit or run.progress.expected}"

        try:
            # The bar is for a terminal; a log gets lines.
            with nullcontext() if sys.stderr.isatty() else busy(so_far):
                return run.run()
        except KeyboardInterrupt:
            say(f"interrupted after {run.progress.done}; repeat the command to continue")
            raise


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
