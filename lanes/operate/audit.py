"""
The audit trail: who changed what and when, written before the change and again with what became of it.

An entry that stays `started` belongs to a run that was killed.
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

STARTED, DONE, INTERRUPTED = "started", "done", "interrupted"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """
    One change by an operator.

    Attributes:
        id: of the entry.
        at: epoch seconds of the beginning.
        who: ARN of the caller.
        action: the verb.
        target: what it was done to, mostly a lane.
        details: what was asked for, and later what was done.
        outcome: started, done, interrupted, or failed with the error.

    """

    id: str
    at: float
    who: str
    action: str
    target: str
    details: Mapping[str, Any]
    outcome: str = STARTED


class AuditTrail(Protocol):
    """Keeps entries; every method raises `AwsError`."""

    def who(self) -> str:
        """Return who calls."""

    def write(self, entry: AuditEntry) -> None:
        """Write an entry, in place of an earlier one of the same id."""

    def entries(self, *, since: float, limit: int) -> Sequence[AuditEntry]:
        """Return entries, the latest first."""


@contextmanager
def audited(
    trail: AuditTrail,
    action: str,
    target: str,
    *,
    details: Mapping[str, Any],
    clock: Callable[[], float] = time.time,
) -> Iterator[dict[str, Any]]:
    """
    Write an entry before a change and its outcome after it; the body may add to the details.

    Raises:
        AwsError: the entry can't be written; nothing was changed yet.
    """
    noted: dict[str, Any] = dict(details)
    entry = AuditEntry(
        id=uuid.uuid4().hex, at=clock(), who=trail.who(), action=action, target=target, details=noted
    )
    trail.write(entry)
    try:
        yield noted
    except KeyboardInterrupt:
        with suppress(AwsError):
            trail.write(dataclasses.replace(entry, outcome=INTERRUPTED, details=noted))
        raise
    except Exception as error:
        with suppress(AwsError):  # the first error says more than that of writing it down
            trail.write(dataclasses.replace(entry, outcome=f"failed: {error}", details=noted))
        raise
    trail.write(dataclasses.replace(entry, outcome=DONE, details=noted))
