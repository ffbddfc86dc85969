"""The connection of the page to one deployment, opened again after credentials have expired; its errors explained."""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any, Protocol

from lanes.aws.explanation import explained
from lanes.errors import AwsError, ConfigurationError, LanesError, MessageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lanes.aws.cloudwatch import LogCalls
    from lanes.aws.stack import Operations
    from lanes.config import LanesConfig
    from lanes.operate.log import LogLine
    from lanes.outbox.operations import Operator
    from lanes.outbox.store import OperatorStore, RelayStore


class OutboxSession(Protocol):
    """One outbox, in DynamoDB or SQL."""

    @property
    def name(self) -> str:
        """Name of the outbox."""

    @property
    def store(self) -> RelayStore:
        """The store of the relay."""

    @property
    def operations(self) -> OperatorStore:
        """The store of operators."""

    @property
    def config(self) -> LanesConfig:
        """The lanes of its entries."""

    def operator(self) -> Operator:
        """Return the operator that changes entries in your name."""


class Session:
    """
    Operations and outbox with current credentials.

    Args:
        connect: creates the operations with a new session of boto3, which reads the credentials again.
        outbox: finds the outbox; raises `ConfigurationError` if there is none.
    """

    def __init__(self, *, connect: Callable[[], Operations], outbox: Callable[[], OutboxSession]) -> None:
        self._connect = connect
        self._find_outbox = outbox
        self._lock = threading.Lock()
        self._operations: Operations | None = None
        self._outbox: OutboxSession | None = None

    @property
    def operations(self) -> Operations:
        """The operations; all clients are created at once, since boto3 can't create them concurrently."""
        # Two requests at once must not create two sessions.
        with self._lock:
            if self._operations is None:
                # A client is made at its first use, so all are used once, under the lock.
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
                    made.runs,
                )
                if made.deployment.scheduler is not None:
                    _ = made.schedules
                self._operations = made
            return self._operations

    @property
    def outbox(self) -> OutboxSession:
        """
        The outbox.

        Raises:
            ConfigurationError: there is no outbox.
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
        """Connect again at the next use."""
        with self._lock:
            # Both, since an outbox in DynamoDB has clients with the same credentials.
            self._operations = self._outbox = None

    def lane(self, name: str) -> str:
        """
        Return a lane's name.

        Raises:
            ConfigurationError: there is no such lane.
        """
        if name not in self.lanes:
            raise ConfigurationError(
                [f"there is no lane {name!r}; lanes are {', '.join(self.lanes)}"], source="request"
            )
        return name

    @property
    def lanes(self) -> list[str]:
        """Names of all lanes, highest first."""
        return [lane.name for lane in self.operations.deployment.config.lanes]

    def who(self) -> Any:
        """Return who is signed in."""
        return self.operations.audit.who()


class SessionLog:
    """
    The log of the function, found at its first use and again after the session has reconnected.

    Args:
        session: the connection to the lanes.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._found: tuple[Operations, LogCalls] | None = None

    @property
    def calls(self) -> LogCalls:
        """
        The log.

        Raises:
            LanesError: the function can't be found or read.
        """
        with self._lock:
            operations = self._session.operations
            # A new session means new credentials, and its clients replace the old ones.
            if self._found is None or self._found[0] is not operations:
                self._found = operations, operations.logs()
            return self._found[1]

    def lines(
        self, *, since: float, until: float | None = None, containing: Sequence[str] = ()
    ) -> Iterator[LogLine]:
        """Return the lines of a time; raises `LanesError`."""
        return self.calls.lines(since=since, until=until, containing=containing)


GOES_ON = "Then the page continues by itself. If your keys are in environment variables, restart `lanes ui`."
TRIES_AGAIN = "The page tries again by itself."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """
    An error as the page shows it.

    Attributes:
        status: HTTP status.
        title: meaning of the error.
        advice: the next step; may be empty.
        details: text of AWS or the library.
        needs_sign_in: whether new credentials solve it.
    """

    status: int
    title: str
    advice: str = ""
    details: str = ""
    needs_sign_in: bool = False


def fault_of(error: LanesError) -> Fault:
    """Explain an error."""
    if isinstance(error, AwsError):
        return _aws(error)
    if isinstance(error, ConfigurationError):
        return Fault(status=400, title="; ".join(error.problems))
    return Fault(status=400 if isinstance(error, MessageError) else 409, title=str(error))


def _aws(error: AwsError) -> Fault:
    found = explained(error)
    more = GOES_ON if found.needs_sign_in else TRIES_AGAIN if found.passes else ""
    return Fault(
        status=502,
        title=found.title,
        advice=" ".join(filter(None, (found.advice, more))),
        details=str(error),
        needs_sign_in=found.needs_sign_in,
    )
