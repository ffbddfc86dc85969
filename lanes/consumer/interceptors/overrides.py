"""Overrides: cancel messages that an operator cancelled, and move those that an operator gave another priority."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from lanes.consumer.interceptors import Interception, decoded
from lanes.consumer.ledger import Entry, twice
from lanes.consumer.outcome import CANCELLED, SENT_ON, Outcome, Reason
from lanes.encoding import with_priority
from lanes.errors import AwsError
from lanes.events import Event
from lanes.message import LARGEST_BODY_BYTES, Message, sqs_id
from lanes.metrics import Metric
from lanes.overrides import (
    OVERRIDES_AGE,
    Action,
    ActiveOverrides,
    Cancelled,
    GroupRedirect,
    Override,
    Overrides,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.config import Lane, LanesConfig
    from lanes.consumer.records import Batch, RawRecord
    from lanes.consumer.settlement import Settlement


@dataclasses.dataclass(slots=True, kw_only=True)
class OverrideFilter:
    """
    The overrides of a batch; the table is read every `OVERRIDES_AGE` seconds.

    Attributes:
        moving: called before a message is sent on, with its record, its new lane and its new deduplication id; it may
            raise `AwsError`.
    """

    overrides: Overrides
    settlement: Settlement
    config: LanesConfig
    moving: Callable[[RawRecord, Message, Lane, str], object] = lambda *_: None
    _active: ActiveOverrides = dataclasses.field(default_factory=ActiveOverrides)
    _read_at: float = float("-inf")

    def begin(self, batch: Batch) -> Sequence[Interception]:
        """Read the active overrides, and which of the batch's groups follow one."""
        active, lane = self._read(), batch.lane.name
        # Cancelled records first: a cancellation wins.
        parts: list[Interception] = []
        if cancels := active.overrides and active.of(Action.CANCEL):
            parts.append(_Cancels(self, batch, active, cancels))
        if moves := active.overrides and active.of(Action.PRIORITIZE):
            groups = sorted({record.group for record in batch.records})
            follows = dict(self.overrides.redirects(lane, groups)) if active.may_redirect else {}
            parts.append(_Moves(self, batch, active, moves, follows))
        return parts

    def _read(self) -> ActiveOverrides:
        now = self.settlement.clock()
        # A reading with a time in the future has no known age: the clock was set back.
        if not 0 <= now - self._read_at <= OVERRIDES_AGE:
            self._active = twice(self.overrides.active)
            self._read_at = now
            for override in self._active.unread:
                self.settlement.telemetry.event(Event.OVERRIDE_UNREADABLE, {"override": override})
        return self._active


@dataclasses.dataclass(frozen=True, slots=True)
class _Cancels(Interception):
    feature: OverrideFilter
    batch: Batch
    active: ActiveOverrides
    cancels: Sequence[Override]

    def admit(self, record: RawRecord, entry: Entry) -> Outcome | None:
        if entry.given_up:
            return None
        message = decoded(record)
        since = self.active.waiting_since(record)
        override = next((one for one in self.cancels if one.means(record, message, since=since)), None)
        if override is None:
            return None
        settlement, source = self.feature.settlement, message.source if message else ""
        fields = _fields(self.batch, record, message, override)
        by = {"cancelled_at": settlement.clock(), "who": override.who, "why": override.why}
        try:
            self.feature.overrides.cancelled(Cancelled(**fields | by, source=source))
        except AwsError:
            return settlement.deferred(self.batch.lane, record, entry, Reason.DIVERTED)
        settlement.telemetry.count(Metric.CANCELLED)
        settlement.telemetry.event(Event.MESSAGE_CANCELLED, fields)
        return CANCELLED


@dataclasses.dataclass(frozen=True, slots=True)
class _Moves(Interception):
    """The overrides that move messages, the latest first, and the groups that follow by group."""

    feature: OverrideFilter
    batch: Batch
    active: ActiveOverrides
    moves: Sequence[Override]
    follows: dict[str, GroupRedirect]
    too_large: set[str] = dataclasses.field(default_factory=set)

    def admit(self, record: RawRecord, entry: Entry) -> Outcome | None:
        message = decoded(record)
        override = self._override_of(record, message)
        if override is None or entry.given_up:
            return None
        target, settlement = self.feature.config.lane_for(override.priority), self.feature.settlement
        body = record.body if message is None else with_priority(record.body, override.priority)
        fields = _fields(self.batch, record, message, override) | {"to_lane": target.name}
        if self._is_too_large(record, body, fields):
            return None
        try:
            self._let_follow(record, message, override)
            moved_id = override.moved_id(record, since=self.active.waiting_since(record))
            if message is not None:
                self.feature.moving(record, message, target, moved_id)
            settlement.queues.forward(target.name, record, body=body, deduplication_id=moved_id)
        except AwsError:
            return settlement.deferred(self.batch.lane, record, entry, Reason.DIVERTED)
        settlement.telemetry.count(Metric.MOVED)
        settlement.telemetry.event(Event.MESSAGE_MOVED, {"priority": override.priority, **fields})
        return SENT_ON

    def _override_of(self, record: RawRecord, message: Message | None) -> Override | None:
        """
        Return the override that moves a record from this lane, so that its whole group goes the same way.

        That is the first one made of those that its group follows here, or else of those that mean it: what a later one
        changes as well goes by way of the first one's lane, behind the messages that are there.
        """
        follow, now = self.follows.get(record.group), self.feature.settlement.clock()
        since = self.active.waiting_since(record)
        followed = meaning = None
        for override in self.moves:
            # Nothing that an older one says concerns a record that a later one has moved.
            if override.has_moved(record):
                break
            target = self.feature.config.lane_for(override.priority)
            if target.name == self.batch.lane.name or not override.is_known(now=now):
                continue
            if follow is not None and override.id in follow.overrides:
                followed = override
            elif override.means(record, message, since=since):
                meaning = override
        return followed or meaning

    def _is_too_large(self, record: RawRecord, body: str, fields: dict[str, Any]) -> bool:
        """Whether SQS would refuse the record with its new priority; report it once a receive."""
        size = record.size_with(body)
        if size > LARGEST_BODY_BYTES and record.message_id not in self.too_large:
            self.too_large.add(record.message_id)
            self.feature.settlement.telemetry.event(Event.MESSAGE_NOT_MOVED, {"size_bytes": size, **fields})
        return size > LARGEST_BODY_BYTES

    def _let_follow(self, record: RawRecord, message: Message | None, override: Override) -> None:
        """Before the first of a group is sent on, record that the later ones follow."""
        lane, group, known = self.batch.lane.name, record.group, self.follows.get(record.group)
        alone = message is not None and group == sqs_id(message.identity)
        if alone or not self.active.may_redirect or (known and override.id in known.overrides):
            return
        # Beside those of before: messages behind this one may have to go by way of their lanes.
        ids = {override.id, *(known.overrides if known else ())}
        expires_at = max(override.expires_at, known.expires_at if known else 0.0)
        follow = GroupRedirect(lane=lane, group=group, overrides=tuple(sorted(ids)), expires_at=expires_at)
        self.feature.overrides.redirect(follow)
        self.follows[group] = follow


def _fields(batch: Batch, record: RawRecord, message: Message | None, override: Override) -> dict[str, Any]:
    """Return the fields that all events have, and the record of a cancelled message."""
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
