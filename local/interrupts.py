"""Ctrl-C and SIGTERM: the first one ends the program, later ones change nothing."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


@dataclass(slots=True)
class _Interrupt:
    """Whether one may come now, and whether one has come meanwhile."""

    held_back: int = 0
    has_come: bool = False
    notice: str = ""

    def take(self, _number: int, _frame: FrameType | None) -> None:
        for one in _NUMBERS:
            signal.signal(one, signal.SIG_IGN)
        if self.notice:
            os.write(2, self.notice.encode())
        if self.held_back:
            self.has_come = True
        else:
            raise KeyboardInterrupt


_interrupt = _Interrupt()


def interrupt_once(notice: str = "") -> None:
    """Let the first signal show a notice and raise KeyboardInterrupt; nothing disturbs the cleaning up after that."""
    _interrupt.notice = notice
    for one in _NUMBERS:
        signal.signal(one, _interrupt.take)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """
    Hold an interrupt back while something happens that must not be torn apart, and raise it at the end.

    Starting a process is such a thing: interrupted half way, it would leave a process that no code ends. Signals reach
    the main thread alone, so others need nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _interrupt.held_back += 1
    try:
        yield
    finally:
        _interrupt.held_back -= 1
    if _interrupt.has_come and not _interrupt.held_back:
        _interrupt.has_come = False
        raise KeyboardInterrupt
