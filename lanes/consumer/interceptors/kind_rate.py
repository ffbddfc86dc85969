"""Rates of kinds: a record that comes too early returns to its lane for as long as its kind needs."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from lanes.consumer.interceptors import Interception
from lanes.consumer.outcome import Outcome, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.consumer.engines.pull.rates import Rate
    from lanes.consumer.handlers import Work
    from lanes.consumer.ledger import Entry
    from lanes.consumer.records import Batch, RawRecord

PATIENCE = 1.0
"""Seconds for which a record waits in its slot: the shortest time for which SQS takes it back."""

LONGEST = 3600.0
"""Seconds for which a record returns at most: the rate may be raised meanwhile."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KindRate(Interception):
    """Spaces the records of kinds with a rate. Each that returns has a later time than those before it."""

    rates: dict[str, Rate]
    sleep: Callable[[float], None]

    def begin(self, batch: Batch) -> Sequence[Interception]:
        """Take part in every batch."""
        del batch
        return [self]

    def before(self, record: RawRecord, entry: Entry, work: Work) -> Outcome | None:
        """Let a record start if its kind may, or in a moment."""
        del record
        rate = self.rates.get(work.kind)
        if rate is None:
            return None
        if (wait := rate.wait()) > PATIENCE:
            return Outcome(entry=entry, delay=math.ceil(min(rate.promise(), LONGEST)), reason=Reason.RATE)
        if wait > 0:
            self.sleep(wait)
        rate.start()
        return None
