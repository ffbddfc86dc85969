"""Show that work goes on, so that no verb is silent for long."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from lanes.cli.printing import console, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
