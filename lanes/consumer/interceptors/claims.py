"""Claims: the right of one delivery of a record to run an effect, which ends with the function's time."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import TYPE_CHECKING

from lanes.consumer import telemetry as report
from lanes.consumer.ledger import Claim, Effect
from lanes.consumer.outcome import Outcome, Reason, soon
from lanes.errors import AwsError
from lanes.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.consumer.ledger import Entry, Ledger
    from lanes.consumer.records import Batch, RawRecord
    from lanes.consumer.settlement import Settlement


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Claims effects for the records of batches, and gives them back."""

    ledger: Ledger
    environment: str
    settlement: Settlement

    def owner(self, batch: Batch, record: RawRecord) -> str:
        """Return the name of this delivery; a second one of the same message has another."""
        return f"{record.message_id}/{self.environment}/{batch.name}"

    def begin(self, batch: Batch, record: RawRecord, entry: Entry, effect_id: str) -> Claim | Outcome:
        """Claim an effect; return its state if it is claimed now or was done, else the outcome of the record."""
        now = self.settlement.clock()
        # A second more, since Lambda ends a function up to 17 ms after its timeout in AWS's examples.
        until = now + max(0.0, batch.seconds_left) + 1
        try:
            claim = self.ledger.begin_effect(effect_id, owner=self.owner(batch, record), now=now, until=until)
        except AwsError:
            deferred = self.settlement.deferred(batch.lane, record, entry, Reason.NOT_BEGUN)
            # Only the answer may be lost: the claim would keep the record until its end.
            self.release(batch, record, effect_id)
            return deferred
        if claim.effect in (Effect.ELSEWHERE, Effect.TWICE):
            # The other delivery of this message writes its entry: that one counts the attempt.
            kept = entry if claim.effect is Effect.ELSEWHERE else None
            # At its end at the latest: a crash must not hold up another lane for longer, however often this one was
            # received until then.
            delay = min(soon(record), max(1, math.ceil(claim.until - now)))
            return Outcome(entry=kept, delay=delay, reason=Reason.ELSEWHERE)
        return claim

    def release(self, batch: Batch, record: RawRecord, effect_id: str) -> None:
        """Give a claim back."""
        release = partial(self.ledger.release_effect, effect_id, owner=self.owner(batch, record))
        self.tried(batch, record, Event.EFFECT_NOT_RELEASED, release)

    def tried(self, batch: Batch, record: RawRecord, problem: Event, call: Callable[[], object]) -> bool:
        """Make a call; report it and return False if it fails."""
        ids = {"lane": batch.lane.name, "message_id": record.message_id}
        return report.tried(self.settlement.telemetry, problem, call, **ids)
