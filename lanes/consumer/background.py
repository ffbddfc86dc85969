"""What is done beside a handler: one errand at a time, begun after a while unless it is no longer wanted."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Errand(Protocol):
    """Something that was given to be done."""

    def end(self) -> None:
        """Drop it if it has not begun, else wait until it is done; whatever it changed is safe to read then."""


class Background(Protocol):
    """Does errands beside whoever gives them; the one before has ended when the next is given."""

    def after(self, seconds: float, action: Callable[[], None]) -> Errand:
        """Begin an action in so many seconds; it raises nothing."""


class NoBackground:
    """Does nothing: what is left undone here is done in the foreground, where it is needed."""

    def after(self, seconds: float, action: Callable[[], None]) -> Errand:  # noqa: ARG002
        """Leave it undone."""
        return self

    def end(self) -> None:
        """Have nothing to wait for."""


class BackgroundThread:
    """
    One thread for all errands, started with the first.

    AWS: an execution environment is frozen between invocations with all its threads (Lambda developer guide,
    "Execution environment lifecycle"), so an errand has ended before its invocation does.
    """

    def __init__(self) -> None:
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._action: Callable[[], None] | None = None
        self._begins_at = 0.0
        self._runs = False

    def after(self, seconds: float, action: Callable[[], None]) -> Errand:
        """Begin an action in so many seconds."""
        self._know_process()
        with self._changed:
            self._action, self._begins_at = action, time.monotonic() + seconds
            if self._thread is None:
                self._start()
            self._changed.notify_all()
        return self

    def _start(self) -> None:
        thread = threading.Thread(target=self._serve, name="lanes-background", daemon=True)
        # Handlers may have started as many threads as the process may have: this errand can be left undone.
        with suppress(RuntimeError):
            thread.start()
            self._thread = thread

    def end(self) -> None:
        """Drop the action if it has not begun, else wait until it is done."""
        self._know_process()
        with self._changed:
            self._action = None
            while self._runs:
                self._changed.wait()

    def _know_process(self) -> None:
        """Begin anew in a process that a handler forked: the thread is not in it, and can't end what it had begun."""
        if self._process != os.getpid():
            self._begin_anew()

    def _serve(self) -> None:
        while True:
            action = self._next()
            try:
                action()
            finally:
                with self._changed:
                    self._runs = False
                    self._changed.notify_all()

    def _next(self) -> Callable[[], None]:
        """Wait for the moment at which an action is to begin, and begin it."""
        with self._changed:
            while self._action is None or (left := self._begins_at - time.monotonic()) > 0:
                self._changed.wait(None if self._action is None else left)
            action, self._action, self._runs = self._action, None, True
            return action
