"""
The audit trail: each change with its author and time, written before the change and again with its outcome.

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
        at: start of the change, in epoch seconds.
        who: ARN of the caller.
        action: the verb.
        target: the object of the change, mostly a lane.
        details: the request, and later the result.
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
    """The entries; every method raises `AwsError`."""

    def who(self) -> str:
        """Return the ARN of the caller."""

    def write(self, entry: AuditEntry) -> None:
        """Write an entry, replacing an earlier one with the same id."""

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
        AwsError: the entry could not be written, and the change was not begun.
    """
    result: dict[str, Any] = dict(details)
    entry = AuditEntry(
        id=uuid.uuid4().hex, at=clock(), who=trail.who(), action=action, target=target, details=result
    )
    # Before the change: an operator who may not write here changes nothing.
    trail.write(entry)
    try:
        yield result
    except KeyboardInterrupt:
        with suppress(AwsError):
            trail.write(dataclasses.replace(entry, outcome=INTERRUPTED, details=result))
        raise
    except Exception as error:
        with suppress(AwsError):  # the first error matters more than that of the audit trail
            trail.write(dataclasses.replace(entry, outcome=f"failed: {error}", details=result))
        raise
    trail.write(dataclasses.replace(entry, outcome=DONE, details=result))
