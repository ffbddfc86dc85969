"""Idempotency: a message id that was done is not handled again within the window, nor twice at the same time."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING

from lanes.consumer import telemetry as report
from lanes.consumer.interceptors import Interception
from lanes.consumer.ledger import Effect, Ending, Entry, Ledger
from lanes.consumer.outcome import DONE, EXPIRED, Outcome, Reason, soon
from lanes.errors import AwsError
from lanes.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from lanes.consumer.handlers import Work
    from lanes.consumer.records import Batch, RawRecord
    from lanes.consumer.settlement import Settlement


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Idempotency:
    """Claims a message's effect before its attempt, and records it afterwards."""

    ledger: Ledger
    environment: str
    window: timedelta
    settlement: Settlement

    def begin(self, batch: Batch) -> Sequence[Interception]:
        """Take part in every batch."""
        return [_Claims(self, batch)]


@dataclasses.dataclass(frozen=True, slots=True)
class _Claims(Interception):
    _feature: Idempotency
    _batch: Batch
    _claimed: dict[str, str] = dataclasses.field(default_factory=dict)

    def _owner(self, record: RawRecord) -> str:
        """Return the name of this delivery; a second one of the same message has another."""
        return f"{record.message_id}/{self._feature.environment}/{self._batch.name}"

    def before(self, record: RawRecord, entry: Entry, work: Work, *, joins: bool) -> Outcome | None:
        """Claim the effect of a record that has a handler; the claim ends with the function's time."""
        del joins
        if entry.given_up or work.handler is None:
            return None
        feature, now = self._feature, self._feature.settlement.clock()
        # A second more, since Lambda ends a function up to 17 ms after its timeout in AWS's examples.
        until = now + max(0.0, self._batch.seconds_left) + 1
        owner, lane = self._owner(record), self._batch.lane
        try:
            effect, done_in = feature.ledger.begin_effect(work.effect_id, owner=owner, now=now, until=until)
        except AwsError:
            deferred = feature.settlement.deferred(lane, record, entry, Reason.NOT_BEGUN)
            # Only the answer may be lost: the claim would keep the record until its end.
            self._release(record, work.effect_id)
            return deferred
        if effect is Effect.DONE:
            report.duplicate(feature.settlement.telemetry, lane, record, work, done_in=done_in)
            return DONE
        if effect in (Effect.ELSEWHERE, Effect.TWICE):
            # The other delivery of this message writes its entry: that one counts the attempt.
            kept = entry if effect is Effect.ELSEWHERE else None
            return Outcome(entry=kept, delay=soon(record), reason=Reason.ELSEWHERE)
        self._claimed[record.message_id] = work.effect_id
        return None

    def after(self, record: RawRecord, outcome: Outcome) -> Outcome:
        """Record an effect that was done, and give back the claim of one that was not."""
        effect_id = self._claimed.pop(record.message_id, None)
        if effect_id is not None:
            is_done = outcome.ending is Ending.DONE and outcome.end != EXPIRED.end
            (self._finish if is_done else self._release)(record, effect_id)
        return outcome

    def _finish(self, record: RawRecord, effect_id: str) -> None:
        feature, owner = self._feature, self._owner(record)

        def finish() -> None:
            now = feature.settlement.clock()
            until = now + feature.window.total_seconds()
            lane = self._batch.lane.name
            feature.ledger.finish_effect(effect_id, owner=owner, lane=lane, now=now, keep_until=until)

        # Twice: if it is not recorded, a redelivery runs the effect again.
        if not self._try(Event.SUCCESS_NOT_NOTED, record, finish):
            self._try(Event.SUCCESS_NOT_NOTED, record, finish)

    def _release(self, record: RawRecord, effect_id: str) -> None:
        release = partial(self._feature.ledger.release_effect, effect_id, owner=self._owner(record))
        self._try(Event.EFFECT_NOT_RELEASED, record, release)

    def _try(self, problem: Event, record: RawRecord, call: Callable[[], object]) -> bool:
        ids = {"lane": self._batch.lane.name, "message_id": record.message_id}
        return report.tried(self._feature.settlement.telemetry, problem, call, **ids)
