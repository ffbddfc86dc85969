"""Group holds: the later messages of a group follow a dead letter, until an operator releases the group."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import TYPE_CHECKING

from lanes.consumer import telemetry as report
from lanes.consumer.interceptors import Interception, decoded
from lanes.consumer.ledger import Ending, Entry
from lanes.consumer.outcome import SENT_ON, Outcome, Reason, soon
from lanes.consumer.settlement import Settlement, keep_dead_letter
from lanes.errors import AwsError
from lanes.events import Event
from lanes.holds import HELD_BEHIND, Hold, Holds, State, copy_id, is_copy, order_of
from lanes.overrides import KNOWN_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.config import ConsumerSettings
    from lanes.consumer.records import Batch, RawRecord
    from lanes.message import Message


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GroupHold:
    """Holds the groups of dead letters whose kind asks for it."""

    holds: Holds
    settlement: Settlement
    settings: ConsumerSettings

    def begin(self, batch: Batch, *, is_held: bool) -> Holding:
        """Take part in a batch; read which of its groups are held if any of its lane is; raises `AwsError`."""
        groups = sorted({record.group for record in batch.records})
        held = dict(self.holds.read(batch.lane.name, groups)) if is_held else {}
        return Holding(self, batch, held)


@dataclasses.dataclass(frozen=True, slots=True)
class Holding(Interception):
    """The held groups of one batch, and the records that go to the dead-letter queue without another decision."""

    _feature: GroupHold
    _batch: Batch
    _held: dict[str, Hold]
    _following: set[str] = dataclasses.field(default_factory=set)

    def leads(self, record: RawRecord) -> bool:
        """Whether a group is held behind a record: it becomes a dead letter, even if it was cancelled meanwhile."""
        hold = self._held.get(record.group)
        return hold is not None and hold.leader == record.message_id

    def admit(self, record: RawRecord, entry: Entry) -> Outcome | None:
        """Let a record of a held group follow, send it behind the copies, or return it until that is decided."""
        hold = self._held.get(record.group)
        if hold is None:
            return None
        try:
            return self._admit_held(record, entry, hold)
        except AwsError:
            return self._feature.settlement.deferred(self._batch.lane, record, entry, Reason.DIVERTED)

    def _admit_held(self, record: RawRecord, entry: Entry, hold: Hold) -> Outcome | None:
        lane, holds = self._batch.lane.name, self._feature.holds
        if hold.leader == record.message_id:
            return self._admit_leader(record, entry, hold)
        if hold.state is State.RELEASED:
            # Its leader was in front of this record, so it has left the lane.
            holds.forget(lane, record.group)
            del self._held[record.group]
            return None
        if hold.passes(record):
            return None
        # A copy of an earlier redrive; of those of a later one behind it, some may come after it in the group.
        closes = is_copy(record)
        if hold.state is State.RELEASING and not closes:
            return self._send_behind(record, entry, hold)
        if holds.behind(lane, record.group, closes=closes):
            if closes:
                self._held[record.group] = dataclasses.replace(hold, opening="", state=State.HELD)
            return self._follow(record, entry, f"{HELD_BEHIND}{hold.id}")
        return _later(entry, soon(record))

    def _send_behind(self, record: RawRecord, entry: Entry, hold: Hold) -> Outcome:
        lane, holds = self._batch.lane.name, self._feature.holds
        # Noted before it is sent: the hold must not end while the copy is on its way.
        copy = copy_id(record.message_id, opening=hold.opening, order=order_of(record))
        if not holds.send_behind(lane, record.group, copy=copy):
            return _later(entry, soon(record))
        self._feature.settlement.queues.forward(lane, record, body=record.body, deduplication_id=copy)
        self._feature.settlement.telemetry.event(
            Event.MESSAGE_SENT_BEHIND, {"lane": lane, **report.unopened(record)}
        )
        return SENT_ON

    def _admit_leader(self, record: RawRecord, entry: Entry, hold: Hold) -> Outcome:
        if hold.state is State.RELEASED:
            return self._follow(record, entry, hold.reason, error=hold.error)
        wait = self._wait_of(hold)
        given_up = Outcome(ending=Ending.DEAD_LETTERED, entry=entry, reason=hold.reason, error=hold.error)
        return _later(entry, wait) if wait else self._dead_letter(record, given_up)

    def _dead_letter(self, record: RawRecord, outcome: Outcome) -> Outcome:
        """Send the leader, and record that it has arrived: before that, no redrive may end the hold."""
        lane = self._batch.lane
        self._following.add(record.message_id)
        sent = self._feature.settlement.dead_letter(lane, record, outcome)
        if sent.ending is not Ending.DEAD_LETTERED:
            return sent
        # A redrive that finds the letter records it too.
        arrived = partial(self._feature.holds.arrived, lane.name, record.group, leader=record.message_id)
        self._try(Event.LEADER_NOT_NOTED, record, arrived)
        return dataclasses.replace(sent, ending=Ending.DONE)

    def _follow(self, record: RawRecord, entry: Entry, reason: str, *, error: str = "") -> Outcome:
        self._following.add(record.message_id)
        return Outcome(ending=Ending.DEAD_LETTERED, entry=entry, reason=reason, error=error)

    def after(self, record: RawRecord, outcome: Outcome) -> Outcome:
        """Hold the group of a dead letter before it is sent; record a copy that is done."""
        if record.message_id in self._following:
            return outcome
        if outcome.ending is Ending.DEAD_LETTERED:
            message = decoded(record)
            holds = self._feature.settings.holds_group_of(message.kind if message else "")
            is_asked = holds or record.group in self._held
            return self._hold(record, message, outcome) if is_asked else outcome
        if outcome.ending is Ending.DONE and record.group in self._held and is_copy(record):
            held, lane = self._feature.holds, self._batch.lane.name
            # If that fails, the hold goes on until the next message of the group has passed.
            is_done = partial(held.copy_done, lane, record.group, copy=record.deduplication_id)
            self._try(Event.COPY_NOT_NOTED, record, is_done)
        return outcome

    def _hold(self, record: RawRecord, message: Message | None, outcome: Outcome) -> Outcome:
        """Begin the hold; the dead letter is sent once every environment knows of it."""
        settlement, lane, known = self._feature.settlement, self._batch.lane, self._held.get(record.group)
        assert outcome.entry is not None  # noqa: S101 - attempted records have one
        hold = Hold(
            lane=lane.name,
            group=record.group,
            leader=record.message_id,
            id=message.id if message else record.message_id,
            reason=outcome.reason,
            error=outcome.error,
            since=known.since if known else settlement.clock(),
        )
        try:
            self._feature.holds.begin(hold)
        except AwsError:
            return settlement.resend(lane, record, outcome, Event.GROUP_NOT_HELD)
        if known is None:
            # The call may have taken seconds, and only from now on does every reading find the hold.
            hold = dataclasses.replace(hold, since=settlement.clock())
        self._held[record.group] = hold
        wait = self._wait_of(hold)
        fields = {
            "reason": hold.reason,
            "error": hold.error,
            "attempts": outcome.entry.attempts,
            "delay": wait,
        }
        settlement.telemetry.event(Event.GROUP_HELD, {"lane": lane.name, **report.unopened(record), **fields})
        return keep_dead_letter(outcome, delay=wait) if wait else self._dead_letter(record, outcome)

    def _wait_of(self, hold: Hold) -> int:
        """Return the seconds until every environment knows of a hold."""
        return max(0, math.ceil(hold.since + KNOWN_AFTER - self._feature.settlement.clock()))

    def _try(self, problem: Event, record: RawRecord, call: Callable[[], object]) -> None:
        ids = {"lane": self._batch.lane.name, "message_id": record.message_id}
        report.tried(self._feature.settlement.telemetry, problem, call, **ids)


def _later(entry: Entry, delay: int) -> Outcome:
    return Outcome(entry=entry, delay=delay, reason=Reason.DIVERTED)
