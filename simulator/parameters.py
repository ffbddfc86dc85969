"""What AWS does not document, as parameters, and the times that calls take."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

from local.model.mapping import ThrottleBackoff


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unknowns:
    """
    The range of behaviours that a claim has to hold over.

    Attributes:
        backoff: waits of a throttled batch; AWS says only that they grow.
        poll: seconds of a receive that brings something.
        notice: seconds until an idle poller notices a message.
        invoke: seconds that an invocation takes beside its handler, and as long again to answer.
        delete: seconds after the answer until the done records are deleted.
        call: seconds of a call that the function makes.
        stale: age of the queue counts that the function reads; AWS: up to a minute (API_GetQueueAttributes).
        cold_start: seconds until a new environment runs its first batch.

    """

    backoff: ThrottleBackoff = dataclasses.field(
        default_factory=lambda: ThrottleBackoff(longest=timedelta(seconds=2))
    )
    poll: float = 0.010
    notice: float = 0.020
    invoke: float = 0.007
    delete: float = 0.010
    call: float = 0.008
    stale: float = 0.0
    cold_start: float = 0.4
