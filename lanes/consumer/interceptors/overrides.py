"""Overrides: cancel messages that an operator cancelled, and move those that an operator gave another priority."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from lanes.body import with_priority
from lanes.consumer.interceptors import Interception, decoded
from lanes.consumer.ledger import Ending
from lanes.consumer.outcome import Outcome
from lanes.errors import AwsError
from lanes.events import Event
from lanes.message import LARGEST_BODY_BYTES, Message
from lanes.metrics import Metric
from lanes.overrides import OVERRIDES_AGE, Action, ActiveOverrides, Cancelled, GroupRedirect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.config import LanesConfig
    from lanes.consumer.interceptors import Reach
    from lanes.consumer.interceptors.group_hold import GroupHold, Holding
    from lanes.consumer.ledger import Entry
    from lanes.consumer.records import Batch, RawRecord
    from lanes.overrides import Override, Overrides


class OverrideFilter:
    """
    The overrides and held groups that concern a batch, in the order in which they judge a record.

    The table is read every `OVERRIDES_AGE` seconds: that is the only cost while there are none.
    """

    def __init__(
        self, overrides: Overrides, *, hold: GroupHold | None, reach: Reach, config: LanesConfig
    ) -> None:
        self._overrides = overrides
        self._hold = hold
        self._reach = reach
        self._config = config
        self._board = ActiveOverrides()
        self._read_at = float("-inf")

    def begin(self, batch: Batch) -> Sequence[Interception]:
        """Read the active overrides, and what else concerns the batch's groups: its holds and followed groups."""
        board, lane = self._read(), batch.lane.name
        # Cancelled records first, moved ones last: a record of a held group follows its dead letter, not an override.
        parts: list[Interception] = []
        holding = None
        if self._hold is not None and (lane in board.held or self._config.consumer.on_dead_letter):
            holding = self._hold.begin(batch, is_held=lane in board.held)
        if cancels := board.overrides and board.of(Action.CANCEL):
            parts.append(_Cancels(self._overrides, self._reach, batch, cancels, holding))
        if holding is not None:
            parts.append(holding)
        if moves := board.overrides and board.of(Action.PRIORITIZE):
            groups = sorted({record.group for record in batch.records})
            follows = dict(self._overrides.redirects(lane, groups)) if board.may_redirect else {}
            parts.append(_Moves(self._overrides, self._reach, batch, _Moving(self._config, moves, follows)))
        return parts

    def _read(self) -> ActiveOverrides:
        now = self._reach.clock()
        # A reading from a moment to come is of unknown age: the clock was set back since.
        if not 0 <= now - self._read_at <= OVERRIDES_AGE:
            try:
                self._board = self._overrides.active()
            except AwsError:
                self._board = self._overrides.active()
            self._read_at = now
            for override in self._board.unread:
                self._reach.telemetry.event(Event.OVERRIDE_UNREADABLE, override=override)
        return self._board


class _Cancels(Interception):
    def __init__(
        self,
        overrides: Overrides,
        reach: Reach,
        batch: Batch,
        cancels: Sequence[Override],
        holding: Holding | None,
    ) -> None:
        self._overrides = overrides
        self._reach = reach
        self._batch = batch
        self._cancels = cancels
        self._holding = holding

    def admit(self, record: RawRecord, entry: Entry) -> Outcome | None:
        if entry.given_up or (self._holding is not None and self._holding.leads(record)):
            return None
        message = decoded(record)
        override = next((one for one in self._cancels if one.means(record, message)), None)
        if override is None:
            return None
        try:
            self._record(record, message, override)
        except AwsError:
            return self._reach.deferred(self._batch, record, entry)
        return Outcome(ending=Ending.CONSUMED, entry=entry)

    def _record(self, record: RawRecord, message: Message | None, override: Override) -> None:
        cancelled = Cancelled(
            lane=self._batch.lane.name,
            message_id=record.message_id,
            id=message.id if message else "",
            kind=message.kind if message else "",
            group=record.group,
            source=message.source if message else "",
            sent_at=record.sent_at,
            receive_count=record.receive_count,
            cancelled_at=self._reach.clock(),
            override=override.id,
            who=override.who,
            why=override.why,
        )
        self._overrides.cancelled(cancelled)
        self._reach.telemetry.count(Metric.CANCELLED)
        fields = _fields(self._batch, record, message, override)
        self._reach.telemetry.event(Event.MESSAGE_CANCELLED, **fields)


@dataclasses.dataclass(frozen=True, slots=True)
class _Moving:
    """The overrides that move messages, the latest first, and the groups that follow by group."""

    config: LanesConfig
    overrides: list[Override]
    follows: dict[str, GroupRedirect]

    def of(self, record: RawRecord, message: Message | None, *, now: float) -> Override | None:
        """Return the latest override that moves a record: it means the record, or one before it in its group."""
        follow = self.follows.get(record.group)
        for override in self.overrides:
            follows = follow is not None and follow.override == override.id
            if (follows or override.means(record, message)) and override.moves(record, now=now):
                return override
        return None


class _Moves(Interception):
    def __init__(self, overrides: Overrides, reach: Reach, batch: Batch, moving: _Moving) -> None:
        self._overrides = overrides
        self._reach = reach
        self._batch = batch
        self._moving = moving
        self._too_large: set[str] = set()

    def admit(self, record: RawRecord, entry: Entry) -> Outcome | None:
        message = decoded(record)
        override = self._moving.of(record, message, now=self._reach.clock())
        if override is None or entry.given_up:
            return None
        target = self._moving.config.lane_for(override.priority)
        body = record.body if message is None else with_priority(record.body, override.priority)
        if target.name == self._batch.lane.name or self._is_too_large(record, message, override, body):
            return None
        try:
            self._let_follow(record, message, override)
            self._reach.queues.forward(
                target.name, record, body=body, deduplication_id=override.moved_id(record)
            )
        except AwsError:
            return self._reach.deferred(self._batch, record, entry)
        self._reach.telemetry.count(Metric.MOVED)
        fields = _fields(self._batch, record, message, override)
        self._reach.telemetry.event(
            Event.MESSAGE_MOVED, to_lane=target.name, priority=override.priority, **fields
        )
        return Outcome(ending=Ending.CONSUMED, entry=entry)

    def _is_too_large(
        self, record: RawRecord, message: Message | None, override: Override, body: str
    ) -> bool:
        """Whether SQS would refuse the record with its new priority; report it once a receive."""
        size = record.size_with(body)
        if size > LARGEST_BODY_BYTES and record.message_id not in self._too_large:
            self._too_large.add(record.message_id)
            fields = _fields(self._batch, record, message, override)
            to_lane = self._moving.config.lane_for(override.priority).name
            self._reach.telemetry.event(Event.MESSAGE_NOT_MOVED, to_lane=to_lane, size_bytes=size, **fields)
        return size > LARGEST_BODY_BYTES

    def _let_follow(self, record: RawRecord, message: Message | None, override: Override) -> None:
        """Before the first of a group is sent on, record that the later ones follow."""
        alone = (
            message is not None and dataclasses.replace(message, group=None).message_group_id == record.group
        )
        known = self._moving.follows.get(record.group)
        if override.wanted.by_group_alone or alone or (known and known.override == override.id):
            return
        follow = GroupRedirect(
            lane=self._batch.lane.name,
            group=record.group,
            override=override.id,
            expires_at=override.expires_at,
        )
        self._overrides.redirect(follow)
        self._moving.follows[record.group] = follow


def _fields(batch: Batch, record: RawRecord, message: Message | None, override: Override) -> dict[str, Any]:
    """Return the fields that both events have."""
    return {
        "lane": batch.lane.name,
        "message_id": record.message_id,
        "group": record.group,
        "id": message.id if message else "",
        "kind": message.kind if message else "",
        "receive_count": record.receive_count,
        "sent_at": record.sent_at,
        "override": override.id,
    }
