"""What the page works with: the parts of one deployment, made again when credentials have run out."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.aws.operations import Operations
    from lanes.config import LanesConfig
    from lanes.outbox.operate import Operator
    from lanes.outbox.store import OperatorStore, RelayStore


class OutboxDesk(Protocol):
    """One outbox, whatever keeps it."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def store(self) -> RelayStore:
        """The relay's side of it."""

    @property
    def operations(self) -> OperatorStore:
        """The operators' side of it."""

    @property
    def config(self) -> LanesConfig:
        """The lanes that its entries go to."""

    def operator(self) -> Operator:
        """Make what changes entries in the caller's name."""


class Desk:
    """
    Operations and outbox, as they can be reached at the moment.

    Args:
        connect: makes the operations, with a new session of boto3, which reads credentials anew.
        outbox: finds the outbox, raises `ConfigurationError` where there is none.
    """

    def __init__(self, *, connect: Callable[[], Operations], outbox: Callable[[], OutboxDesk]) -> None:
        self._connect = connect
        self._find_outbox = outbox
        self._lock = threading.Lock()
        self._operations: Operations | None = None
        self._outbox: OutboxDesk | None = None

    @property
    def operations(self) -> Operations:
        """The operations; clients are all made at once, since making them is not safe between threads."""
        with self._lock:
            if self._operations is None:
                made = self._connect()
                _ = (
                    made.dead_letters,
                    made.depths,
                    made.mappings,
                    made.figures,
                    made.audit,
                    made.state,
                    made.cloudwatch,
                    made.overrides,
                    made.holds,
                )
                self._operations = made
            return self._operations

    @property
    def outbox(self) -> OutboxDesk:
        """
        The outbox.

        Raises:
            ConfigurationError: there is none.
        """
        with self._lock:
            if self._outbox is None:
                found = self._find_outbox()
                _ = found.store, found.operations, found.config
                self._outbox = found
            return self._outbox

    @property
    def has_outbox(self) -> bool:
        """Whether there is one."""
        try:
            return bool(self.outbox)
        except ConfigurationError:
            return False

    def forget(self) -> None:
        """Make everything anew at the next use."""
        with self._lock:
            self._operations = self._outbox = None

    def lane(self, name: str) -> str:
        """
        Return a lane's name.

        Raises:
            ConfigurationError: there is no such lane.
        """
        if name not in self.lanes:
            raise ConfigurationError([f"there is no lane {name!r}"], source="request")
        return name

    @property
    def lanes(self) -> list[str]:
        """Names of all lanes, highest first."""
        return [lane.name for lane in self.operations.deployment.config.lanes]

    def who(self) -> Any:
        """Return who is signed in."""
        return self.operations.audit.who()
