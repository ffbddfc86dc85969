"""One slot in a process of its own: it serves the lanes, run after run, until it is stopped."""

from __future__ import annotations

import dataclasses
import io
import os
import signal
import sys
import threading
import time
import uuid
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from lanes.config.deployment import Deployment
from lanes.errors import ConfigurationError
from lanes.work.loading import load_consumer
from lanes.work.supervisor import BEGAN, ENDED, REFUSED

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.consumer import Consumer


class Stop:
    """Whether the slot is to stop. Signal handlers set it, so it has no lock."""

    is_asked = False

    def ask(self, *_signal: object) -> None:
        """Stop after the record in hand."""
        self.is_asked = True

    def wait(self, seconds: float) -> None:
        """Wait, but not for longer than until a stop."""
        until = time.monotonic() + seconds
        while not self.is_asked and time.monotonic() < until:
            # Not an event: a signal handler that sets one may wait for its lock for ever.
            time.sleep(0.1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a slot, in place of Lambda's context; after a stop it has no time left, so no record starts."""

    ends_at: float
    stop: Stop
    clock: Callable[[], float] = time.monotonic
    aws_request_id: str = dataclasses.field(default_factory=lambda: str(uuid.uuid4()))

    def get_remaining_time_in_millis(self) -> int:
        """Return the time that is left."""
        return 0 if self.stop.is_asked else max(0, int((self.ends_at - self.clock()) * 1000))

    def is_stopped(self) -> bool:
        """Whether the slot is to stop."""
        return self.stop.is_asked


def main(control_fd: str, number: str, consumer: str) -> None:
    """
    Run a slot until the supervisor stops it.

    Args:
        control_fd: the connection to the supervisor, which it passed on.
        number: of the slot.
        consumer: `MODULE:CONSUMER`.
    """
    control, stop = Connection(int(control_fd)), Stop()
    # A program that a handler starts would keep the connection open, and the supervisor would never see its end.
    os.set_inheritable(control.fileno(), False)
    for number_of_signal in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number_of_signal, stop.ask)
    threading.Thread(target=_obey, args=(control, stop), daemon=True).start()
    write_whole_lines()
    try:
        timeout = Deployment.from_env().config.consumer.function_timeout.total_seconds()
        loaded = load_consumer(consumer)
        # Without time nothing is received, but the clients are made, which may take longer than a run.
        loaded.work(Run(ends_at=0.0, stop=stop), slot=int(number))
    except ConfigurationError as error:
        control.send((REFUSED, "; ".join(error.problems)))
        sys.exit(1)
    serve(loaded, int(number), timeout=timeout, stop=stop, report=lambda word: control.send((word, "")))


def serve(
    consumer: Consumer, number: int, *, timeout: float, stop: Stop, report: Callable[[str], None]
) -> None:
    """Make runs until a stop, each as long as an invocation may be."""
    while not stop.is_asked:
        report(BEGAN)
        pause = consumer.work(Run(ends_at=time.monotonic() + timeout, stop=stop), slot=number)
        report(ENDED)
        stop.wait(pause)


def write_whole_lines() -> None:
    """Write each line of standard output at once and whole, so that the lines of processes never mix."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True, write_through=False)


def _obey(control: Connection, stop: Stop) -> None:
    """Stop on the supervisor's word; without a supervisor, end at once: the next one may start its slots already."""
    try:
        control.recv()
        stop.ask()
        control.recv()
    except (EOFError, OSError):
        os.killpg(0, signal.SIGKILL)
