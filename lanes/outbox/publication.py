"""
The sends of a relay's round: publish the claimed entries, and decide the mark of each.

Only a refusal of the entry itself is an attempt. If a lane accepts nothing, its entries are returned and it pauses.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from lanes.errors import MessageError
from lanes.fault_codes import Cause, cause_of
from lanes.outbox.rules import abandoned, parked, published, refused, retry_delay, returned
from lanes.producer.report import BLOCKED, INTERRUPTED, LANE_FAILED, PartialSendError, RefusedMessagesError
from lanes.retries import LanePauses, OutageLog

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lanes.config import OutboxSettings
    from lanes.message import Message
    from lanes.outbox.context import RelayContext
    from lanes.outbox.entry import Entry
    from lanes.outbox.rules import Mark
    from lanes.producer.report import SentMessage, UnsentMessage

UNTRIED = frozenset({BLOCKED, INTERRUPTED, LANE_FAILED})
# After so many failures in a row of the same first entry, that entry may be the reason: others are tried before it.
SUSPECTED_AFTER = 3
SUSPECTED_FOR = timedelta(minutes=1)
STORE = "outbox"
"""The name of the database in reports; lanes have upper case."""


class Publisher(Protocol):
    """Sends messages; a producer with the policy `ONE_TRY`, as a relay uses it."""

    def send_many(
        self,
        messages: Sequence[Message],
        *,
        should_stop: Callable[[], bool] = ...,
        claimed_at: float | None = ...,
    ) -> list[SentMessage]:
        """Send messages in batches, in order within each group of a lane, until `should_stop`."""


class Publication:
    """
    Publishes claimed entries.

    Args:
        producer: sends to the lanes, each message once.
        settings: of the outbox.
        context: reports, time and chance.
        outages: decides which failures to report.
    """

    def __init__(
        self, producer: Publisher, *, settings: OutboxSettings, context: RelayContext, outages: OutageLog
    ) -> None:
        self._producer = producer
        self._settings = settings
        self._telemetry = context.telemetry
        self._clock = context.clock
        self._chance = context.chance
        self._outages = outages
        self.pauses = LanePauses(context.chance)

    def publish(
        self, entries: Sequence[Entry], *, claimed_at: float, should_stop: Callable[[], bool]
    ) -> list[Mark]:
        """Send the entries, which were claimed at an epoch time, and return the mark of each."""
        messages, marks = [], []
        for entry in entries:
            try:
                messages.append(entry.message())
            except MessageError as error:
                marks.append(self._unreadable(entry, error))
        by_id = {entry.id: entry for entry in entries}
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
                self._unreadable(by_id.pop(message.id), error) for _, message, error in refusal.refusals
            ]
            rest = [by_id[one.id] for one in messages if one.id in by_id]
            return marks + self.publish(rest, claimed_at=claimed_at, should_stop=should_stop)
        accepting = {one.lane for one in sent} | {one.lane for one in failed if one.is_own_fault}
        self._accepted(accepting)
        return [*marks, *self._published(by_id, sent), *self._unsent(by_id, failed, accepting, cause)]

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
    ) -> list[Mark]:
        lanes: dict[str, list[UnsentMessage]] = defaultdict(list)
        for unsent in failed:
            if not unsent.is_own_fault and unsent.code not in UNTRIED:
                lanes[unsent.lane].append(unsent)
        delays = {
            name: self._lane_failed(several, cause, accepts=name in accepting)
            for name, several in lanes.items()
        }
        marks = []
        # By chain: what becomes of the first one decides about the later ones.
        ahead: dict[str, Mark] = {}
        for unsent in failed:
            entry = entries[unsent.message.id]
            mark = self._mark_of(entry, unsent, delays.get(unsent.lane, 0.0), ahead)
            if entry.chain is not None:
                ahead.setdefault(entry.chain, mark)
            marks.append(mark)
        return marks

    def _mark_of(self, entry: Entry, unsent: UnsentMessage, delay: float, ahead: Mapping[str, Mark]) -> Mark:
        now = self._clock()
        if unsent.is_own_fault:
            mark = refused(entry, self._settings, now=now, reason=unsent.reason, chance=self._chance())
            self._telemetry.not_sent(entry, mark, reason=unsent.reason)
            return mark
        first = None if entry.chain is None else ahead.get(entry.chain)
        if first is not None and (first.due_at is not None or first.holds_group):
            return parked(entry, self._settings, now=now)
        is_untried = unsent.code in UNTRIED
        return returned(entry, due_at=None if is_untried or not delay else now + delay)

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

    def _unreadable(self, entry: Entry, error: MessageError) -> Mark:
        """Abandon an entry that no attempt can send."""
        attempts = entry.attempts + 1
        mark = abandoned(entry, self._settings, now=self._clock(), attempts=attempts, reason=str(error))
        self._telemetry.not_sent(entry, mark, reason=str(error))
        return mark


def is_suspect(cause: Cause, failures: int) -> bool:
    """Whether the entry that was tried alone may be the reason why its lane fails."""
    # All other causes are about everybody: throttling, credentials, permission, a missing queue.
    return cause in {Cause.SERVER_FAULT, Cause.UNREACHABLE} and failures >= SUSPECTED_AFTER
