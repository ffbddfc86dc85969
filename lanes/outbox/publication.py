"""
The sends of a relay's round: publish the claimed entries, and decide the mark of each.

Only a refusal of the entry itself is an attempt. If a lane accepts nothing, its entries are returned and it pauses.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from lanes.errors import MessageError
from lanes.fault_codes import Cause, cause_of
from lanes.outbox.rules import abandoned, parked, published, refused, retry_delay, returned
from lanes.producer.outgoing import BLOCKED, INTERRUPTED, LANE_FAILED, PartialSendError, RefusedMessagesError
from lanes.retries import LanePauses, OutageLog

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lanes.config import OutboxSettings
    from lanes.outbox.entry import Entry
    from lanes.outbox.rules import Mark
    from lanes.outbox.telemetry import RelayTelemetry
    from lanes.producer import Producer
    from lanes.producer.outgoing import SentMessage, UnsentMessage

UNTRIED = frozenset({BLOCKED, INTERRUPTED, LANE_FAILED})
# After so many failures in a row of the same first entry, that entry may be the reason: others are tried before it.
SUSPECTED_AFTER = 3
SUSPECTED_FOR = timedelta(minutes=1)
STORE = "outbox"
"""The name of the database in reports; lanes have upper case."""


class Publication:
    """
    Publishes claimed entries.

    Args:
        producer: sends to the lanes, each message once.
        settings: of the outbox.
        telemetry: receives reports.
        clock: epoch seconds.
        chance: returns numbers from 0 to 1 for the jitter of retries.
        outages: decides which failures to report.
    """

    def __init__(
        self,
        producer: Producer,
        *,
        settings: OutboxSettings,
        telemetry: RelayTelemetry,
        clock: Callable[[], float],
        chance: Callable[[], float],
        outages: OutageLog,
    ) -> None:
        self._producer = producer
        self._settings = settings
        self._telemetry = telemetry
        self._clock = clock
        self._chance = chance
        self._outages = outages
        self.pauses = LanePauses(chance)

    def publish(
        self, entries: Sequence[Entry], *, claimed_at: float, should_stop: Callable[[], bool]
    ) -> list[Mark]:
        """Send the entries, which were claimed at an epoch time, and return the mark of each."""
        return self._publish(entries, {}, claimed_at=claimed_at, should_stop=should_stop)

    def _publish(
        self,
        entries: Sequence[Entry],
        ahead: dict[str, Mark],
        *,
        claimed_at: float,
        should_stop: Callable[[], bool],
    ) -> list[Mark]:
        """Send entries, except for those behind an entry that keeps its group waiting (`ahead`, by chain)."""
        messages, marks, by_id = [], [], {}
        for entry in entries:
            mark = self._behind(entry, ahead)
            if mark is None:
                try:
                    messages.append(entry.message())
                    by_id[entry.id] = entry
                except MessageError as error:
                    mark = self._unreadable(entry, error, ahead)
            marks += [] if mark is None else [mark]
        sent: Sequence[SentMessage] = ()
        failed: Sequence[UnsentMessage] = ()
        cause: BaseException | None = None

        try:
            if messages:
                sent = self._producer.send_many(messages, should_stop=should_stop, claimed_at=claimed_at)
        except PartialSendError as error:
            # Every message is in one of the lists, so every entry of the claim gets a mark.
            sent, failed, cause = error.sent, error.failed, error.__cause__
        except RefusedMessagesError as refusal:
            # A producer refuses the whole call for one message that breaks a rule: the others are sent without it.
            marks += [
                self._unreadable(by_id.pop(message.id), error, ahead)
                for _, message, error in refusal.refusals
            ]
            rest = list(by_id.values())
            return marks + self._publish(rest, ahead, claimed_at=claimed_at, should_stop=should_stop)
        accepting = {one.lane for one in sent} | {one.lane for one in failed if one.is_own_fault}
        self._accepted(accepting)
        return [*marks, *self._published(by_id, sent), *self._unsent(by_id, failed, accepting, cause, ahead)]

    def _accepted(self, lanes: Collection[str]) -> None:
        for lane in lanes:
            self.pauses.accepted(lane)
            if (outage := self._outages.ended(lane)) is not None:
                self._telemetry.recovered(outage, now=self._clock())

    def _published(self, entries: Mapping[str, Entry], sent: Sequence[SentMessage]) -> list[Mark]:
        now = self._clock()
        return [
            published(entries[one.id], self._settings, now=now, sequence_number=one.sequence_number)
            for one in sent
        ]

    def _unsent(
        self,
        entries: Mapping[str, Entry],
        failed: Sequence[UnsentMessage],
        accepting: Collection[str],
        cause: BaseException | None,
        ahead: dict[str, Mark],
    ) -> list[Mark]:
        lanes: dict[str, list[UnsentMessage]] = defaultdict(list)
        for unsent in failed:
            if not unsent.is_own_fault and unsent.code not in UNTRIED:
                lanes[unsent.lane].append(unsent)
        delays = {
            name: self._lane_failed(several, cause, accepts=name in accepting)
            for name, several in lanes.items()
        }
        return [
            self._mark_of(entries[one.message.id], one, delays.get(one.lane, 0.0), ahead) for one in failed
        ]

    def _mark_of(self, entry: Entry, unsent: UnsentMessage, delay: float, ahead: dict[str, Mark]) -> Mark:
        now = self._clock()
        if unsent.is_own_fault:
            mark = refused(entry, self._settings, now=now, reason=unsent.reason, chance=self._chance())
            self._telemetry.not_sent(entry, mark, reason=unsent.reason)
        elif (waiting := self._behind(entry, ahead)) is not None:
            return waiting
        else:
            is_untried = unsent.code in UNTRIED
            mark = returned(entry, due_at=None if is_untried or not delay else now + delay)
        _keep_ahead(ahead, mark)
        return replace(mark, maybe_sent=unsent.maybe_sent)

    def _behind(self, entry: Entry, ahead: Mapping[str, Mark]) -> Mark | None:
        """Return the mark of an entry if an earlier one of its group, however it ended, keeps the group waiting."""
        first = None if entry.chain is None else ahead.get(entry.chain)
        if first is None or first.entry.position >= entry.position:
            return None
        keeps_waiting = first.due_at is not None or first.holds_group
        return parked(entry, self._settings, now=self._clock()) if keeps_waiting else None

    def _lane_failed(
        self, failed: Sequence[UnsentMessage], cause: BaseException | None, *, accepts: bool
    ) -> float:
        """Pause a lane that did not accept messages; return the seconds for which these wait themselves."""
        now, first = self._clock(), failed[0]
        found = cause_of(first.code)
        if accepts and found is not Cause.THROTTLED:
            # The lane is not away, so these alone wait.
            return retry_delay(self._settings, 1, self._chance()).total_seconds()
        failures = self.pauses.failed(first.lane, now)
        if accepts:
            return 0.0
        self._telemetry.lane_failed(first.lane, found)
        reported = self._outages.failed(
            first.lane, cause=found.value, reason=first.reason, now=now, error=cause
        )
        if reported is not None:
            self._telemetry.outage(reported, now=now)
        return SUSPECTED_FOR.total_seconds() if is_suspect(found, failures) else 0.0

    def _unreadable(self, entry: Entry, error: MessageError, ahead: dict[str, Mark]) -> Mark:
        """Abandon an entry that no attempt can send."""
        attempts = entry.attempts + 1
        mark = abandoned(entry, self._settings, now=self._clock(), attempts=attempts, reason=str(error))
        self._telemetry.not_sent(entry, mark, reason=str(error))
        _keep_ahead(ahead, mark)
        return mark


def _keep_ahead(ahead: dict[str, Mark], mark: Mark) -> None:
    """Note the first entry of a group that was not sent and keeps its place."""
    chain = mark.entry.chain
    if chain is not None and not mark.leaves_chain:
        ahead.setdefault(chain, mark)


def is_suspect(cause: Cause, failures: int) -> bool:
    """Whether the entry that was tried alone may be the reason why its lane fails."""
    # All other causes are about everybody: throttling, credentials, permission, a missing queue.
    return cause in {Cause.SERVER_FAULT, Cause.UNREACHABLE} and failures >= SUSPECTED_AFTER
