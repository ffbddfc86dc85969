"""Dead letters: what goes with a message that is given up, and the protocol of the queue that takes it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lanes.consumer.records import RawRecord


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterNote:
    """Why a message is given up, for the dead-letter queue. Times are epoch seconds."""

    reason: str
    error: str
    attempts: int
    yields: int
    receives: int
    first_received_at: float
    dead_lettered_at: float


class DeadLetters(Protocol):
    """Puts records into their lane's dead-letter queue."""

    def dead_letter(self, lane: str, record: RawRecord, note: DeadLetterNote) -> None:
        """Send the untouched body with the note, and take the record out of its lane; raises `AwsError`."""
