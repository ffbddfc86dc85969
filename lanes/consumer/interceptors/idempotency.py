"""Idempotency: a message id that was done is not handled again within the window, nor twice at the same time."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lanes.consumer import telemetry as report
from lanes.consumer.interceptors import Interception
from lanes.consumer.ledger import Effect, Ending, Entry
from lanes.consumer.outcome import DUPLICATE, EXPIRED, Outcome
from lanes.events import Event

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from lanes.consumer.handlers import Work
    from lanes.consumer.interceptors.claims import Claims
    from lanes.consumer.records import Batch, RawRecord


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
