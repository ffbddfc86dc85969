"""The rates of kinds: a record that comes too early waits or returns."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from lanes.config.settings import MAX_RECEIVES
from lanes.consumer.interceptors import Interception
from lanes.consumer.outcome import Outcome, Reason, receive_floor
from lanes.message_filter import first_like

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.consumer.engines.order import Rate
    from lanes.consumer.handlers import Work
    from lanes.consumer.ledger import Entry
    from lanes.consumer.records import Batch, RawRecord


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KindRate(Interception):
    """Spaces the records of kinds with a rate, each by the slot's part of it: one that comes too early returns."""

    rates: dict[str, Rate]
    sleep: Callable[[float], None]

    def begin(self, batch: Batch) -> Sequence[Interception]:
        """Take part in every batch."""
        del batch
        return [self]

    def before(self, record: RawRecord, entry: Entry, work: Work, *, joins: bool) -> Outcome | None:
        """Let a record start if its kind may, or within a second: SQS takes it back for whole ones."""
        del record
        pattern = first_like(work.kind, self.rates)
        rate = None if pattern is None else self.rates[pattern]
        # In a call of several, those of one second start together, and the next call waits for all of them.
        if rate is None or (joins and rate.join()):
            return None
        if (wait := rate.wait()) > 1:
            # No longer than any yield: the rate may be raised meanwhile.
            delay = math.ceil(min(rate.promise(), receive_floor(MAX_RECEIVES)))
            return Outcome(entry=entry, delay=delay, reason=Reason.RATE)
        if wait > 0:
            self.sleep(wait)
        rate.start()
        return None
