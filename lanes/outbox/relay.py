"""
The relay: publish the entries of an outbox to the lanes, the most urgent first.

Owns the words relay and claim. A round claims a batch, publishes it through a producer and marks it, in this order. If
a relay dies in between, the entries are published again under the same deduplication ID.
"""

from __future__ import annotations

import random
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from lanes.errors import AwsError, MessageError, OutboxStoreError
from lanes.outbox.rules import Mark, abandoned, lane_shares, next_pause, not_sent, published
from lanes.outbox.telemetry import NoTelemetry, RelayMetric, RelayRound, RelayTelemetry
from lanes.producer.report import PartialSendError, RefusedMessagesError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from lanes.config import LanesConfig
    from lanes.message import Message
    from lanes.outbox.entry import Entry
    from lanes.outbox.store import RelayStore
    from lanes.producer.report import SentMessage, UnsentMessage

REMOVED_AT_ONCE = 1000


class Publisher(Protocol):
    """Sends messages; a producer, as a relay uses it."""

    def send_many(self, messages: Sequence[Message], *, concurrency: int = ...) -> list[SentMessage]:
        """Send messages in batches, in order within each group of a lane."""


class Depths(Protocol):
    """Counts the messages in the lanes, for `lane_window`."""

    def waiting(self, lane: str) -> int:
        """Return the number of messages in a lane's queue, including received ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayContext:
    """
    The name of a relay, the receiver of its reports, and its sources of time and chance.

    Attributes:
        name: of the relay, in `locked_by`.
        telemetry: receives metrics and events.
        clock: epoch seconds.
        chance: returns numbers from 0 to 1 for the jitter of retries.
    """

    name: str = "relay"
    telemetry: RelayTelemetry = field(default_factory=NoTelemetry)
    clock: Callable[[], float] = time.time
    chance: Callable[[], float] = random.random


class Relay:
    """
    Publishes the entries of one store.

    Args:
        store: the outbox.
        producer: sends to the lanes; its tries must end within half of the lock.
        config: lanes and outbox settings.
        depths: counts the messages in the lanes; required for `lane_window`.
        context: name, reports, time and chance.
    """

    def __init__(
        self,
        *,
        store: RelayStore,
        producer: Publisher,
        config: LanesConfig,
        depths: Depths | None = None,
        context: RelayContext | None = None,
    ) -> None:
        context = context or RelayContext()
        self.store = store
        self.config = config
        self._producer = producer
        self._settings = config.outbox
        self._depths = depths
        # With the rest of the owner's name it fits the 80 characters of `locked_by` in SQL.
        self._name = context.name[:40]
        self._telemetry = context.telemetry
        self._clock = context.clock
        self._chance = context.chance

    def run_once(self) -> RelayRound:
        """Claim one batch, publish it and mark it."""
        now = self._clock()
        # New for each claim: a round that has outlived its lock must not mark entries that this relay has claimed
        # again.
        owner = f"{self._name}/{uuid.uuid4().hex[:16]}"
        claim = self.store.claim(
            lane_shares(self.config, self._free_places()),
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
        """Run rounds until nothing is due or the deadline has passed; return their sum."""
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
        Run rounds until `should_stop`: immediately while there is work, after growing pauses while there is none.

        An outage of the store is reported, and the relay tries again. Entries locked at that time are taken over when
        their lock expires.

        Args:
            should_stop: called between rounds.
            pause: waits; it can return early, for example on the notification of a commit.
        """
        waited: timedelta | None = None
        while not should_stop():
            if not self._run_once_or_report().is_idle:
                waited = None
                continue
            waited = next_pause(waited, self._settings)
            pause(waited)

    def _run_once_or_report(self) -> RelayRound:
        """Run a round; treat a temporary outage of the store as an idle round."""
        try:
            return self.run_once()
        except (OutboxStoreError, AwsError) as error:
            # A wrong table or a missing right does not pass: the process manager should show it.
            if not error.retryable:
                raise
            self._telemetry.outage(error)
            return RelayRound()

    def remove_expired(self) -> int:
        """Remove a batch of expired entries; return their number."""
        return self.store.remove_expired(now=self._clock(), limit=REMOVED_AT_ONCE)

    def report_status(self, *, limit: int | None = None) -> None:
        """Report the number of waiting, failed and abandoned entries, and the age of the oldest."""
        status = self.store.status(limit=limit)
        self._telemetry.status(status, now=self._clock())

    def _free_places(self) -> Mapping[str, int] | None:
        windows = self._settings.lane_window
        if not windows or self._depths is None:
            return None
        return {lane: size - self._depths.waiting(lane) for lane, size in windows.items()}

    def _publish(self, entries: Sequence[Entry]) -> list[Mark]:
        """Send the entries and return the mark of each."""
        messages, marks = [], []
        for entry in entries:
            try:
                messages.append(entry.message())
            except MessageError as error:
                marks.append(self._unreadable(entry, error))
        by_id = {entry.id: entry for entry in entries}
        sent: Sequence[SentMessage] = ()
        failed: Sequence[UnsentMessage] = ()
        try:
            sent = self._producer.send_many(messages) if messages else ()
        except PartialSendError as error:
            # Every message is in one of the lists, so every entry of the claim gets a mark.
            sent, failed = error.sent, error.failed
        except RefusedMessagesError as refused:
            # A producer refuses the whole call for one message that breaks a rule: the others are sent without it.
            marks += [
                self._unreadable(by_id.pop(message.id), error) for _, message, error in refused.refusals
            ]
            return marks + self._publish([by_id[one.id] for one in messages if one.id in by_id])
        return marks + self._marks(by_id, sent, failed)

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
        """Abandon an entry that no attempt can send."""
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
