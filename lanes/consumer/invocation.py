"""One invocation: the records that Lambda brought, the time there is for them, and what is known of each."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.config import Lane
    from lanes.consumer.ledger import Entry
    from lanes.consumer.records import RawRecord

SETTLING = 1.0
"""Seconds of the function's time kept for settling what goes back."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Invocation:
    """
    The records of one lane, those of each group in the order SQS gave them, and how far they are.

    Attributes:
        name: of the invocation; what it parks is parked under it.
        seconds_left: call it for the seconds until Lambda ends the function.
        clock: epoch seconds.
        began_at: when it began, in epoch seconds.
        entries: of the ledger, by message id; none before they were looked up.
        done: ids of the records that are finished with: all others are kept, whatever goes wrong.
        lost: ids of the records that may be with another invocation by now.
        lost_groups: the groups of those.

    """

    lane: Lane
    records: Sequence[RawRecord]
    name: str
    seconds_left: Callable[[], float]
    clock: Callable[[], float]
    began_at: float
    entries: dict[str, Entry] = dataclasses.field(default_factory=dict)
    done: set[str] = dataclasses.field(default_factory=set)
    lost: set[str] = dataclasses.field(default_factory=set)
    lost_groups: set[str] = dataclasses.field(default_factory=set)

    @property
    def is_over(self) -> bool:
        """Whether the time that is left is needed for settling."""
        return self.seconds_left() < SETTLING

    @property
    def deadline(self) -> float:
        """When it ends at the latest, in epoch seconds."""
        return self.clock() + self.seconds_left()

    def lose(self, message_ids: set[str]) -> None:
        """Note records that may be with another invocation by now."""
        if message_ids:
            self.lost = message_ids
            self.lost_groups = {record.group for record in self.records if record.message_id in message_ids}

    def rest(self, position: int = 0) -> list[RawRecord]:
        """Return the records from a position on that are not done."""
        return [record for record in self.records[position:] if record.message_id not in self.done]
