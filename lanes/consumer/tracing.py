"""What surrounds the run of a handler for whoever traces: the protocol, and what it is where nobody does."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lanes.config import Lane
    from lanes.consumer.ledger import Cause
    from lanes.consumer.records import RawRecord
    from lanes.consumer.work import Work
    from lanes.trace_context import TraceContext


class Tracing(Protocol):
    """Who records a trace of each message; nothing that it does may fail a message."""

    def attempt(
        self, lane: Lane, record: RawRecord, work: Work, *, attempt: int, cause: Cause
    ) -> AbstractContextManager[TraceContext | None]:
        """
        Surround the run of a handler.

        Returns:
            The place in a trace that the handler runs at; None where the message belongs to none.

        """


class Untraced:
    """Records nothing; the message's trace goes on all the same."""

    def attempt(
        self,
        lane: Lane,  # noqa: ARG002
        record: RawRecord,  # noqa: ARG002
        work: Work,
        *,
        attempt: int,  # noqa: ARG002
        cause: Cause,  # noqa: ARG002
    ) -> AbstractContextManager[TraceContext | None]:
        """Give a new place in the message's trace."""
        return contextlib.nullcontext(work.trace.child()) if work.trace else _NOWHERE


_NOWHERE: contextlib.nullcontext[None] = contextlib.nullcontext()
