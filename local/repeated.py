"""A repeated task of a deployed resource: a thread that follows its settings."""

import threading
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

Settings = TypeVar("Settings")


class Repeated(ABC, Generic[Settings]):
    """
    A repeated task in a thread of its own.

    Args:
        settings: as deployed.
        name: of the thread.
    """

    def __init__(self, settings: Settings, *, name: str) -> None:
        self._settings = settings
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    @property
    def settings(self) -> Settings:
        """As deployed now."""
        return self._settings

    @abstractmethod
    def pause(self) -> float:
        """Return the seconds until the next time."""

    @abstractmethod
    def once(self) -> None:
        """Do it."""

    def start(self) -> None:
        """Begin to count the time."""
        self._thread.start()

    def update(self, settings: Settings) -> None:
        """Follow a deploy, from the next time on."""
        self._settings = settings

    def stop(self) -> None:
        """Stop; a task that runs finishes."""
        self._stopped.set()

    def join(self) -> None:
        """Wait for the thread after `stop`."""
        if self._thread.ident is not None:
            self._thread.join()

    def _work(self) -> None:
        while not self._stopped.wait(self.pause()):
            self.once()
