"""
Idempotency: a message id that was done is not handled again within the window, nor twice at the same time.

A delivery claims its effect before the attempt: the claim is the right to run it, and ends with the function's time.
"""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import TYPE_CHECKING

from lanes.consumer import telemetry as report
from lanes.consumer.interceptors import Interception
from lanes.consumer.ledger import Claim, Effect, Ending, Entry, Ledger
from lanes.consumer.outcome import DUPLICATE, EXPIRED, Outcome, Reason, soon
from lanes.errors import AwsError
from lanes.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from lanes.consumer.handlers import Work
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Idempotency:
    """Claims a message's effect before its attempt, and records it afterwards."""

    claims: Claims
    window: timedelta

    def begin(self, batch: Batch) -> Sequence[Interception]:
        """Take part in every batch."""
        return [_Effects(self, batch)]


@dataclasses.dataclass(frozen=True, slots=True)
class _Effects(Interception):
    _feature: Idempotency
    _batch: Batch
    _claimed: dict[str, str] = dataclasses.field(default_factory=dict)

    def before(self, record: RawRecord, entry: Entry, work: Work, *, joins: bool) -> Outcome | None:
        """Claim the effect of a record that has a handler; the claim ends with the function's time."""
        del joins
        if entry.given_up or work.handler is None:
            return None
        claims = self._feature.claims
        claim = claims.begin(self._batch, record, entry, work.effect_id)
        if isinstance(claim, Outcome):
            return claim
        if claim.effect is Effect.DONE:
            report.duplicate(
                claims.settlement.telemetry, self._batch.lane, record, work, done_in=claim.done_in
            )
            return DUPLICATE
        self._claimed[record.message_id] = work.effect_id
        return None

    def after(self, record: RawRecord, outcome: Outcome) -> Outcome:
        """Record an effect that was done, and give back the claim of one that was not."""
        effect_id = self._claimed.pop(record.message_id, None)
        if effect_id is not None:
            if outcome.ending is Ending.DONE and outcome.end != EXPIRED.end:
                self._finish(record, effect_id)
            else:
                self._feature.claims.release(self._batch, record, effect_id)
        return outcome

    def _finish(self, record: RawRecord, effect_id: str) -> None:
        claims, batch = self._feature.claims, self._batch

        def finish() -> None:
            now = claims.settlement.clock()
            until = now + self._feature.window.total_seconds()
            owner, lane = claims.owner(batch, record), batch.lane.name
            claims.ledger.finish_effect(effect_id, owner=owner, lane=lane, now=now, keep_until=until)

        # Twice: if it is not recorded, a redelivery runs the effect again.
        if not claims.tried(batch, record, Event.SUCCESS_NOT_NOTED, finish):
            claims.tried(batch, record, Event.SUCCESS_NOT_NOTED, finish)
