"""Ctrl-C and SIGTERM: the first one ends what goes on, later ones change nothing."""

import signal
from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


def interrupt_once() -> None:
    """Let the first signal raise KeyboardInterrupt, and nothing disturb the cleaning up after that."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for one in _NUMBERS:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    for one in _NUMBERS:
        signal.signal(one, interrupt)
