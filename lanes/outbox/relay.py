"""
The relay: publish the entries of an outbox to the lanes, the most urgent first.

Owns the words relay and claim. A round claims a batch, publishes it through a producer and marks it, in this order. If
a relay dies in between, the entries are published again under the same deduplication ID.

A round sends each entry once, and starts no call after half of the lock. What is not sent by then, or for no fault of
its own, is returned; a lane that accepts nothing pauses, and the others go on. Marks are repeated until the lock ends.
While the entries of a full batch are being sent, the next one is claimed.
"""

from __future__ import annotations

import random
import time
import uuid
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from lanes.errors import AwsError, OutboxStoreError, UnwrittenMarksError
from lanes.outbox.publication import STORE, Publication
from lanes.outbox.rules import Mark, lane_shares, next_pause
from lanes.outbox.telemetry import RelayMetric, RelayRound, RelayTelemetry
from lanes.retries import OutageLog, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor

    from lanes.config import LanesConfig
    from lanes.depth import LaneDepth
    from lanes.outbox.entry import Entry
    from lanes.outbox.store import RelayStore
    from lanes.producer import Producer

# More than a batch, so that a busy relay removes entries faster than it publishes them.
REMOVED_AT_ONCE = 200
REMOVES_EVERY_SECONDS = 60.0
# A producer that a relay uses tries once: a retry inside a round would keep the other lanes waiting.
ONE_TRY = RetryPolicy(max_attempts=1, give_up_after=timedelta(0))
MARK_RETRIES = RetryPolicy(backoff_base=timedelta(milliseconds=100), backoff_max=timedelta(seconds=2))
# A relay that was asked to stop repeats marks for so long.
STOPS_WITHIN_SECONDS = 3.0
REPORTS_EVERY_SECONDS = 60.0
# Counting costs one read unit of DynamoDB for about fifty entries, so larger counts are lower bounds.
COUNTED = 10_000
# Claims without an answer that are looked for, and for how long.
MOST_LOST, LOST_FOR_SECONDS = 10, 10.0
# `run_until` waits for the end of a pause that is shorter; a longer one is for the next run.
LONGEST_LINGER_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claimed:
    """A claim: its owner and entries, when it began, and until when they may be sent and marked."""

    owner: str
    at: float
    send_until: float
    mark_until: float
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class _Flying:
    """A claim whose entries are being sent, and what waits for their marks."""

    claimed: _Claimed
    marks: Callable[[], list[Mark]]


class Relay:
    """
    Publishes the entries of one store.

    Args:
        store: the outbox.
        producer: sends to the lanes, each message once (`ONE_TRY`).
        config: lanes and outbox settings.
        depth_of: counts the messages of a lane by its name, received ones too; required for `lane_window`.
        name: of the relay, in `locked_by`.
        telemetry: receives metrics and events.
        clock: epoch seconds.
        pause: sleeps for a number of seconds.
        chance: returns numbers from 0 to 1 for the jitter of retries.
        sender: sends a batch, on one thread, while the relay claims the next one; None to wait for each.
    """

    def __init__(
        self,
        *,
        store: RelayStore,
        producer: Producer,
        config: LanesConfig,
        depth_of: Callable[[str], LaneDepth] | None = None,
        name: str = "relay",
        telemetry: RelayTelemetry | None = None,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], object] = time.sleep,
        chance: Callable[[], float] = random.random,
        sender: Executor | None = None,
    ) -> None:
        self.store = store
        self.config = config
        self._settings = config.outbox
        self._depth_of = depth_of
        # With the rest of the owner's name it fits the 80 characters of `locked_by` in SQL.
        self._name = name[:40]
        self._telemetry = telemetry or RelayTelemetry()
        self._clock = clock
        self._pause = pause
        self._chance = chance
        self._outages = OutageLog()
        self._publication = Publication(
            producer,
            settings=config.outbox,
            telemetry=self._telemetry,
            clock=clock,
            chance=chance,
            outages=self._outages,
        )
        self._sender = sender
        self._should_stop: Callable[[], bool] = lambda: False
        self._removes_at = 0.0
        self._reported_at = clock()
        self._limit = config.outbox.batch
        self._claims_until = float("inf")
        self._flying: _Flying | None = None
        self._lost: list[_Claimed] = []
        self._unwritten: list[tuple[Sequence[Mark], _Claimed]] = []

    def run_once(self, *, last_call: float = float("inf")) -> RelayRound:
        """Claim one batch, publish it and mark it; no call to a lane starts after `last_call`."""
        written = self._write_again()
        return written.plus(self._run_once(last_call))

    def _run_once(self, last_call: float) -> RelayRound:
        flying, self._flying = self._flying, None
        if flying is None:
            claimed, is_idle = self._claim(last_call)
            if not claimed.entries:
                return RelayRound(is_idle=is_idle)
            flying = self._send(claimed)
        following = self._claim_ahead(flying.claimed, last_call)
        marks = flying.marks()
        if following is not None:
            # Its sends begin before the marks are written.
            self._flying = self._send(following)
        return self._settle(marks, flying.claimed)

    def _claim(self, last_call: float) -> tuple[_Claimed, bool]:
        """Claim a batch; return also whether an immediate next claim would find nothing either."""
        now = self._clock()
        lock = self._settings.lock.total_seconds()
        self._release_lost(now)
        # New for each claim: a round that has outlived its lock must not mark entries that this relay has claimed
        # again. The second half of the lock is for marks, and a repeat after it lies within SQS's five minutes.
        claimed = _Claimed(
            owner=f"{self._name}/{uuid.uuid4().hex[:16]}",
            at=now,
            send_until=min(now + lock / 2, last_call),
            mark_until=now + lock,
        )
        try:
            claim = self.store.claim(
                lane_shares(self.config, self._free_places(now)),
                owner=claimed.owner,
                now=now,
                locked_until=claimed.mark_until,
                limit=self._limit,
            )
        except (OutboxStoreError, AwsError) as error:
            # It may have been written, and its answer lost.
            if len(self._lost) < MOST_LOST:
                self._lost.append(claimed)
            self._shrink(error)
            raise
        if claim.taken_over:
            self._telemetry.count(RelayMetric.TAKEN_OVER, claim.taken_over)
        return replace(claimed, entries=claim.entries), claim.is_idle

    def _claim_ahead(self, flying: _Claimed, last_call: float) -> _Claimed | None:
        """Claim the next batch while one is being sent; not if there may be none, or a lane may take none."""
        is_over = self._should_stop() or self._clock() >= self._claims_until
        is_limited = self._settings.lane_window or self._publication.pauses.waits
        if self._sender is None or is_over or is_limited or len(flying.entries) < self._limit:
            return None
        try:
            claimed, _ = self._claim(last_call)
        except (OutboxStoreError, AwsError) as error:
            if not error.retryable:
                raise
            self._store_failed(error)
            return None
        return claimed if claimed.entries else None

    def _send(self, claimed: _Claimed) -> _Flying:
        def publish() -> list[Mark]:
            return self._publication.publish(
                claimed.entries,
                claimed_at=claimed.at,
                should_stop=lambda: self._clock() >= claimed.send_until or self._should_stop(),
            )

        return _Flying(claimed, publish if self._sender is None else self._sender.submit(publish).result)

    def _release_lost(self, now: float) -> None:
        """Free the entries of claims that may have been written without an answer."""
        for claimed in self._lost:
            self.store.release(owner=claimed.owner, locked_until=claimed.mark_until, now=now)
        # The server may write a claim some time after its connection is lost.
        self._lost = [one for one in self._lost if 0 <= now - one.at < LOST_FOR_SECONDS]

    def _finish(self) -> RelayRound:
        """Mark the entries that are being sent."""
        written = self._write_again()
        flying, self._flying = self._flying, None
        return written if flying is None else written.plus(self._settle(flying.marks(), flying.claimed))

    def _write_again(self) -> RelayRound:
        """Write the marks that some partitions of the store did not take, until their locks end."""
        unwritten, self._unwritten = self._unwritten, []
        written = RelayRound()
        for marks, claimed in unwritten:
            if self._clock() < claimed.mark_until:
                written = written.plus(self._settle(marks, claimed, tries=1))
        return written

    def run_until(self, deadline: float, *, calls_for: float = float("inf")) -> RelayRound:
        """
        Run rounds until nothing is due; return their sum. Short pauses of lanes are waited out.

        Args:
            deadline: no round but the first begins after it.
            calls_for: no call to a lane starts after so many seconds; what is unsent is returned.
        """
        total = RelayRound()
        self._claims_until = deadline
        last_call = self._clock() + calls_for
        while True:
            one = self.run_once(last_call=last_call)
            total = total.plus(one)
            now = self._clock()
            if one.is_idle:
                resumes_at = now + 1 if self._unwritten else self._publication.pauses.resumes_at()
                if resumes_at is None or resumes_at > now + LONGEST_LINGER_SECONDS:
                    return total
                self._pause(max(resumes_at - now, 0.001))
            if self._clock() >= deadline:
                return total if self._flying is None else total.plus(self._finish())

    def run(self, *, should_stop: Callable[[], bool], pause: Callable[[timedelta], object]) -> None:
        """
        Run rounds until `should_stop`: immediately while there is work, after growing pauses while there is none.

        An outage of the store is reported, and the relay tries again. Entries locked at that time are taken over when
        their lock expires. Each round also removes some expired entries.

        Args:
            should_stop: asked between rounds, before each call to a lane, and while a mark is repeated.
            pause: waits; a signal to stop may end it early.
        """
        waited: timedelta | None = None
        self._should_stop = should_stop
        self._claims_until = float("inf")
        while not should_stop():
            done = self._run_once_or_report()
            self._report()
            if not done.is_idle:
                waited = None
                continue
            waited = next_pause(waited, self._settings.tick)
            pause(waited)
        self._finish()
        self._telemetry.flush()

    def _report(self) -> None:
        """Report the status of the outbox once a minute, and all figures since the last time."""
        now = self._clock()
        if 0 <= now - self._reported_at < REPORTS_EVERY_SECONDS:
            return
        self._reported_at = now
        try:
            self.report_status()
        except (OutboxStoreError, AwsError) as error:
            if not error.retryable:
                raise
            self._store_failed(error)
        self._telemetry.flush()

    def _run_once_or_report(self) -> RelayRound:
        """Run a round; treat a temporary outage of the store as an idle round."""
        try:
            done = self.run_once()
            self._limit = min(2 * self._limit, self._settings.batch)
            self._remove_expired()
        except (OutboxStoreError, AwsError) as error:
            # A wrong table or a missing right does not pass: the process manager should show it.
            if not error.retryable:
                raise
            self._store_failed(error)
            return RelayRound()
        self._store_answered()
        return done

    def _remove_expired(self) -> None:
        """Remove a batch of expired entries; the next one follows with the next round while there are more."""
        now = self._clock()
        if self.store.expires_by_itself or now < self._removes_at:
            return
        removed = self.store.remove_expired(now=now, limit=min(REMOVED_AT_ONCE, 2 * self._limit))
        self._removes_at = now if removed else now + REMOVES_EVERY_SECONDS

    def report_status(self) -> None:
        """Report the number of waiting, failed and abandoned entries, and the age of the oldest."""
        status = self.store.status(limit=COUNTED)
        self._telemetry.status(status, now=self._clock())

    def _free_places(self, now: float) -> Mapping[str, int]:
        """Return how many entries may be claimed of each lane that has a window or has failed."""
        free = dict(self._publication.pauses.limits(now))
        if self._depth_of is not None:
            for lane, size in self._settings.lane_window.items():
                left = size - self._depth_of(lane).messages
                free[lane] = min(left, free.get(lane, left))
        return free

    def _settle(self, marks: Sequence[Mark], claimed: _Claimed, *, tries: int = 0) -> RelayRound:
        """Write the marks after some tries, and count what they say."""
        held, unwritten = self._write(marks, claimed, tries)
        now = self._clock()
        written = [mark for mark in marks if mark.entry.id in held]
        outcome = RelayRound(
            published=sum(mark.state == "PUBLISHED" for mark in written),
            failed=sum(mark.attempts > mark.entry.attempts for mark in marks),
            returned=sum(
                mark.state != "PUBLISHED" and mark.attempts == mark.entry.attempts for mark in marks
            ),
            abandoned=sum(mark.state == "ABANDONED" for mark in written),
            lock_lost=len(marks) - len(held) - unwritten,
            is_idle=False,
        )
        seconds = now - claimed.at
        self._telemetry.round(outcome, written, now=now, seconds=seconds)
        if seconds > self._settings.lock.total_seconds() / 2:
            self._telemetry.slow_round(seconds)
        return outcome

    def _write(self, marks: Sequence[Mark], claimed: _Claimed, tries: int) -> tuple[set[str], int]:
        """Write marks, again and again until the lock ends; return the ids of the marked, and how many were not."""
        held: set[str] = set()
        rest, stops_at = list(marks), None
        size = len(rest)
        while rest:
            now = self._clock()
            try:
                found = self.store.settle(rest[:size], owner=claimed.owner, now=now)
            except (OutboxStoreError, AwsError, UnwrittenMarksError) as error:
                if isinstance(error, UnwrittenMarksError):
                    held |= error.held
                    rest = list(error.unwritten)
                if self._shrink(error):
                    size = max(1, size // 2)
                # One entry that can't be written must not hold up the others of its round.
                if not (error.retryable or held):
                    raise
                if self._leaves(error, rest, claimed, is_any_written=bool(held or tries)):
                    break
                tries += 1
                delay = MARK_RETRIES.delay(tries, self._chance())
                if self._should_stop() and stops_at is None:
                    stops_at = now + STOPS_WITHIN_SECONDS
                if now + delay >= min(claimed.mark_until, stops_at or claimed.mark_until):
                    break
                self._pause(delay)
            else:
                # Within the lock nobody else can have taken them: an earlier try was written and lost its answer.
                is_known = tries and self._clock() < claimed.mark_until
                held |= {mark.entry.id for mark in rest[:size]} if is_known else found
                rest = rest[size:]
        return held, len(rest)

    def _leaves(
        self,
        error: OutboxStoreError | AwsError | UnwrittenMarksError,
        rest: Sequence[Mark],
        claimed: _Claimed,
        *,
        is_any_written: bool,
    ) -> bool:
        """Report an error; return whether the rest is not tried again at once."""
        if isinstance(error, UnwrittenMarksError) and error.retryable and is_any_written:
            # The store takes others: these are written beside the next rounds.
            self._unwritten.append((rest, claimed))
            return True
        self._store_failed(error)
        return not error.retryable

    def _shrink(self, error: Exception) -> bool:
        """Make the next rounds smaller if the database has cancelled a statement; return whether it has."""
        is_cancelled = isinstance(error, OutboxStoreError) and error.is_cancelled
        if is_cancelled:
            self._limit = max(1, self._limit // 2)
        return is_cancelled

    def _store_failed(self, error: Exception) -> None:
        now = self._clock()
        is_cancelled = isinstance(error, OutboxStoreError) and error.is_cancelled
        cause = "RoundCancelled" if is_cancelled else _code_of(error)
        reason = f"{error}; the next round claims at most {self._limit}" if is_cancelled else str(error)
        outage = self._outages.failed(STORE, cause=cause, reason=reason, now=now, error=error)
        if outage is not None:
            self._telemetry.outage(outage, now=now)

    def _store_answered(self) -> None:
        if (outage := self._outages.ended(STORE)) is not None:
            self._telemetry.recovered(outage, now=self._clock())


def _code_of(error: Exception) -> str:
    return error.code if isinstance(error, AwsError) else type(error).__name__
