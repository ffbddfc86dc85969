"""
The relay: brings what an outbox holds to the lanes, the most urgent first.

Owns the words relay and claim. It claims a batch, publishes it through a producer and marks it, in this order: what
is published and not marked, since a relay died between, is published again under the same deduplication ID.
"""

from __future__ import annotations

import random
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lanes.errors import AwsError, MessageError, OutboxStoreError, PartialSendError
from lanes.outbox.rules import Mark, abandoned, lane_shares, next_pause, not_sent, published
from lanes.outbox.telemetry import RelayMetric, Silence

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from lanes.config import LanesConfig
    from lanes.message import Message
    from lanes.outbox.entry import Entry
    from lanes.outbox.store import RelayStore
    from lanes.outbox.telemetry import RelayTelemetry
    from lanes.outgoing import SentMessage, UnsentMessage

REMOVED_AT_ONCE = 1000


class Publisher(Protocol):
    """What a relay needs of a producer."""

    def send_many(self, messages: Sequence[Message], *, concurrency: int = ...) -> list[SentMessage]:
        """Send in batches, keeping the order within each group of a lane."""


class Depths(Protocol):
    """What a relay needs to keep to `lane_window`."""

    def waiting(self, lane: str) -> int:
        """Give how many messages are in a lane's queue, received ones included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayRound:
    """
    What one round did.

    Attributes:
        published: entries that SQS has and that are marked so.
        failed: entries that were not sent.
        abandoned: those of them that had their last attempt.
        lock_lost: entries that another relay took over meanwhile; nothing was marked on them.
        is_idle: nothing was claimed, and another round at once would find nothing either.
    """

    published: int = 0
    failed: int = 0
    abandoned: int = 0
    lock_lost: int = 0
    is_idle: bool = True


class Relay:
    """
    Publishes the entries of one store.

    Args:
        store: the outbox.
        producer: sends to the lanes; its tries must end well within half of the lock.
        config: lanes and outbox settings.
        depths: how full the lanes are; needed where `lane_window` is set.
        name: of this relay, in `locked_by`.
        telemetry: where figures and events go.
        clock: epoch seconds.
        chance: numbers from 0 to 1 for the retries' jitter.
    """

    def __init__(
        self,
        *,
        store: RelayStore,
        producer: Publisher,
        config: LanesConfig,
        depths: Depths | None = None,
        name: str = "relay",
        telemetry: RelayTelemetry | None = None,
        clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.store = store
        self.config = config
        self._producer = producer
        self._settings = config.outbox
        self._depths = depths
        self._name = name[:40]
        self._telemetry = telemetry or Silence()
        self._clock = clock
        self._chance = chance

    def run_once(self) -> RelayRound:
        """Claim one batch, publish it and mark it."""
        now = self._clock()
        owner = f"{self._name}/{uuid.uuid4().hex[:16]}"
        claim = self.store.claim(
            lane_shares(self.config, self._room()),
            owner=owner,
            now=now,
            locked_until=now + self._settings.lock.total_seconds(),
            limit=self._settings.batch,
        )
        if claim.taken_over:
            self._telemetry.count(RelayMetric.TAKEN_OVER, claim.taken_over)
        if not claim.entries:
            return RelayRound(is_idle=claim.is_idle)
        return self._settle(self._publish(claim.entries), owner)

    def run_until(self, deadline: float) -> RelayRound:
        """Run rounds until nothing is due or the time has come; give them as one."""
        total = RelayRound()
        while True:
            one = self.run_once()
            total = RelayRound(
                published=total.published + one.published,
                failed=total.failed + one.failed,
                abandoned=total.abandoned + one.abandoned,
                lock_lost=total.lock_lost + one.lock_lost,
                is_idle=one.is_idle,
            )
            if one.is_idle or self._clock() >= deadline:
                return total

    def run(self, *, should_stop: Callable[[], bool], pause: Callable[[timedelta], None]) -> None:
        """
        Run rounds for ever: at once while there is work, after growing pauses while there is none.

        An outage of the store is reported and waited out; what was locked then is taken over when the lock ends.

        Args:
            should_stop: asked between rounds.
            pause: waits, and may return early, for instance when a commit was notified.
        """
        waited: timedelta | None = None
        while not should_stop():
            if not self._run_once_or_say_why().is_idle:
                waited = None
                continue
            waited = next_pause(waited, self._settings)
            pause(waited)

    def _run_once_or_say_why(self) -> RelayRound:
        """Run a round; an outage of the store counts as nothing to do, since it may pass."""
        try:
            return self.run_once()
        except (OutboxStoreError, AwsError) as error:
            if not error.retryable:
                raise
            self._telemetry.trouble(error)
            return RelayRound()

    def remove_expired(self) -> int:
        """Remove a batch of finished entries whose retention is over; give how many."""
        return self.store.remove_expired(now=self._clock(), limit=REMOVED_AT_ONCE)

    def report_standing(self, *, limit: int | None = None) -> None:
        """Report how many entries wait, how many failed or were abandoned, and the age of the oldest."""
        standing = self.store.standing(limit=limit)
        self._telemetry.standing(standing, now=self._clock())

    def _room(self) -> Mapping[str, int] | None:
        windows = self._settings.lane_window
        if not windows or self._depths is None:
            return None
        return {lane: size - self._depths.waiting(lane) for lane, size in windows.items()}

    def _publish(self, entries: Sequence[Entry]) -> list[Mark]:
        """Send the entries and decide what to mark on each."""
        messages, marks = [], []
        for entry in entries:
            try:
                message = entry.message()
                message.to_body()
            except MessageError as error:
                marks.append(self._unreadable(entry, error))
                continue
            messages.append(message)
        sent: Sequence[SentMessage] = ()
        failed: Sequence[UnsentMessage] = ()
        try:
            sent = self._producer.send_many(messages) if messages else ()
        except PartialSendError as error:
            sent, failed = error.sent, error.failed
        return marks + self._marks({entry.id: entry for entry in entries}, sent, failed)

    def _marks(
        self, entries: Mapping[str, Entry], sent: Sequence[SentMessage], failed: Sequence[UnsentMessage]
    ) -> list[Mark]:
        now = self._clock()
        marks = [
            published(entries[one.id], self._settings, now=now, sequence_number=one.sequence_number)
            for one in sent
        ]
        for unsent in failed:
            entry = entries[unsent.message.id]
            mark = not_sent(
                entry,
                self._settings,
                now=now,
                code=unsent.code,
                reason=unsent.reason,
                chance=self._chance(),
            )
            self._telemetry.not_sent(entry, mark, reason=unsent.reason)
            marks.append(mark)
        return marks

    def _unreadable(self, entry: Entry, error: MessageError) -> Mark:
        """Abandon at once what no attempt can send."""
        attempts = entry.attempts + 1
        mark = abandoned(entry, self._settings, now=self._clock(), attempts=attempts, reason=str(error))
        self._telemetry.not_sent(entry, mark, reason=str(error))
        return mark

    def _settle(self, marks: Sequence[Mark], owner: str) -> RelayRound:
        now = self._clock()
        settled = self.store.settle(marks, owner=owner, now=now)
        outcome = RelayRound(
            published=sum(mark.state == "PUBLISHED" for mark in marks if mark.entry.id in settled),
            failed=sum(mark.state != "PUBLISHED" for mark in marks),
            abandoned=sum(mark.state == "ABANDONED" for mark in marks if mark.entry.id in settled),
            lock_lost=len(marks) - len(settled),
            is_idle=False,
        )
        self._telemetry.round(outcome, marks, now=now)
        return outcome
