"""Giving up: a record becomes a dead letter, behind which its group is held where that is asked for."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lanes.consumer import delays
from lanes.consumer.dead_letters import DeadLetterNote
from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from lanes.config import ConsumerSettings, Lane
    from lanes.consumer.dead_letters import DeadLetters
    from lanes.consumer.diversion import Diversions, View
    from lanes.consumer.ledger import Entry
    from lanes.consumer.outcomes import GivenUp
    from lanes.consumer.records import RawRecord
    from lanes.consumer.telemetry import Telemetry

AGAIN = 120
"""
Most seconds until a dead letter that failed to be sent is sent again.

AWS: SQS recognises a repeated deduplication id for five minutes (SendMessage), and the first one may have arrived.
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """It can't be dead-lettered yet and goes back for `delay` seconds; `entry` says what was decided."""

    entry: Entry
    delay: int


class GivingUp:
    """Makes dead letters of one environment's records."""

    def __init__(
        self,
        *,
        settings: ConsumerSettings,
        diversions: Diversions,
        dead_letters: DeadLetters,
        telemetry: Telemetry,
        clock: Callable[[], float],
        random: Random,
    ) -> None:
        self._settings = settings
        self._diversions = diversions
        self._dead_letters = dead_letters
        self._telemetry = telemetry
        self._clock = clock
        self._random = random

    def give_up(self, lane: Lane, record: RawRecord, outcome: GivenUp, view: View) -> DeadLetterNote | Kept:
        """Hold the record's group if that is asked for, and dead-letter it; return what went with the dead letter."""
        if not self._diversions.holds_group(record, view):
            return self.dead_letter(lane, record, outcome)
        try:
            delay = self._diversions.hold(lane, record, view, reason=outcome.reason, error=outcome.error)
        except AwsError:
            self._telemetry.problem("group_not_held", lane=lane.name, message_id=record.message_id)
            return self._keep(outcome, delay=self._backoff(lane, outcome.entry))
        return self._keep(outcome, delay=delay) if delay else self.dead_letter(lane, record, outcome)

    def dead_letter(self, lane: Lane, record: RawRecord, outcome: GivenUp) -> DeadLetterNote | Kept:
        """Dead-letter a record, whatever becomes of its group; return what went with it."""
        note = DeadLetterNote(
            reason=outcome.reason,
            error=outcome.error,
            attempts=outcome.entry.attempts,
            yields=outcome.entry.yields,
            receives=record.receive_count,
            first_received_at=record.first_received_at,
            dead_lettered_at=self._clock(),
        )
        try:
            self._dead_letters.dead_letter(lane.name, record, note)
        except AwsError:
            self._telemetry.problem("dead_letter_not_sent", lane=lane.name, message_id=record.message_id)
            return self._keep(outcome, delay=self._backoff(lane, outcome.entry))
        return note

    def _keep(self, outcome: GivenUp, *, delay: int) -> Kept:
        entry = dataclasses.replace(outcome.entry, given_up=outcome.reason, last_error=outcome.error)
        return Kept(entry=entry, delay=delay)

    def _backoff(self, lane: Lane, entry: Entry) -> int:
        attempt = max(1, entry.attempts)
        return min(delays.backoff(self._settings, lane, attempt=attempt, random=self._random), AGAIN)
