"""What becomes of a record that is not handled: cancelled, sent on to another lane, or held behind a dead letter."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Protocol

from lanes.consumer.forwarding import with_priority
from lanes.consumer.holds import Hold, copy_id, is_copy
from lanes.consumer.overrides import BOARD_AGE, KNOWN_AFTER, Action, Board, Cancelled, Follow
from lanes.consumer.reports import unopened
from lanes.consumer.telemetry import Metric
from lanes.errors import AwsError, MessageDecodeError
from lanes.message import LARGEST_BODY_BYTES, Message, size_bytes
from lanes.values import value_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.config import Lane, LanesConfig
    from lanes.consumer.holds import Holds
    from lanes.consumer.overrides import Override, Overrides
    from lanes.consumer.records import RawRecord
    from lanes.consumer.telemetry import Telemetry

NOTHING = Board()

AGAIN = 1
"""Seconds until a record is looked at again whose group was let go, or held, while it was on its way."""


class Forwarding(Protocol):
    """Sends records on."""

    def forward(self, lane: str, record: RawRecord, *, body: str, deduplication_id: str) -> None:
        """Send a record's body, as given, with its group and attributes to a lane; raises `AwsError`."""


@value_type
class View:
    """What concerns the records of one invocation; `follows` and `holds` are by group."""

    board: Board = NOTHING
    follows: dict[str, Follow] = dataclasses.field(default_factory=dict)
    holds: dict[str, Hold] = dataclasses.field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing can concern any of them."""
        return not self.board.overrides and not self.holds


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """The record is finished with."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """It can't be said now; it goes back for so many seconds."""

    delay: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettered:
    """It goes into the dead-letter queue, for this reason."""

    reason: str
    error: str = ""


Diverted = Gone | Later | DeadLettered


class Diversions:
    """Applies overrides and holds; one for each environment, which remembers the board for `BOARD_AGE` seconds."""

    def __init__(
        self,
        *,
        config: LanesConfig,
        overrides: Overrides,
        holds: Holds,
        queues: Forwarding,
        telemetry: Telemetry,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._overrides = overrides
        self._holds = holds
        self._queues = queues
        self._telemetry = telemetry
        self._clock = clock
        self._board = Board()
        self._read_at = float("-inf")

    def look(self, lane: Lane, records: Sequence[RawRecord]) -> View:
        """
        Return what concerns these records: without a call, but for the board every few seconds, while there is nothing.

        Raises:
            AwsError: it can't be known.

        """
        board = self._fresh_board()
        if not board.overrides and lane.name not in board.held:
            return View(board=board)
        groups = sorted({record.group for record in records})
        return View(
            board=board,
            follows=dict(self._overrides.follows(lane.name, groups)) if board.may_follow else {},
            holds=dict(self._holds.read(lane.name, groups)) if lane.name in board.held else {},
        )

    def _fresh_board(self) -> Board:
        now = self._clock()
        if not 0 <= now - self._read_at <= BOARD_AGE:
            try:
                self._board = self._overrides.board()
            except AwsError:
                self._board = self._overrides.board()
            self._read_at = now
            for override in self._board.unread:
                self._telemetry.event("override_unreadable", override=override)
        return self._board

    def divert(self, lane: Lane, record: RawRecord, view: View) -> Diverted | None:
        """
        Do what is wanted with a record; None where it is to be handled.

        Raises:
            AwsError: a call failed; the record has to stay, and whatever was done is done again without harm.

        """
        if view.is_empty:
            return None
        hold = view.holds.get(record.group)
        if hold is not None and hold.leader == record.message_id:
            wait = self._wait_of(hold)
            return Later(delay=wait) if wait else DeadLettered(reason=hold.reason, error=hold.error)
        message = _decoded(record)
        if (override := self._first(Action.CANCEL, record, message, view)) is not None:
            return self._cancel(lane, record, message, override)
        if hold is not None:
            return self._divert_held(lane, record, hold)
        return self._move(lane, record, message, view)

    def holds_group(self, record: RawRecord, view: View) -> bool:
        """Whether the group of a record that is given up is to be held: its kind asks for it, or it was held before."""
        settings = self._config.consumer
        if not settings.on_dead_letter or record.group in view.holds:
            return record.group in view.holds
        message = _decoded(record)
        return settings.holds_group_of(message.kind if message else "")

    def hold(self, lane: Lane, record: RawRecord, view: View, *, reason: str, error: str) -> int:
        """
        Hold the group of a record that is given up; return for how many seconds it goes back before it may go.

        Raises:
            AwsError: the hold could not be written down; the record has to stay.

        """
        known = view.holds.get(record.group)
        message = _decoded(record)
        hold = Hold(
            lane=lane.name,
            group=record.group,
            leader=record.message_id,
            id=message.id if message else record.message_id,
            reason=reason,
            error=error,
            since=known.since if known else self._clock(),
        )
        self._holds.begin(hold)
        view.holds[record.group] = hold
        self._telemetry.event(
            "group_held", lane=lane.name, group=record.group, message_id=record.message_id, id=hold.id
        )
        return self._wait_of(hold)

    def done(self, lane: Lane, record: RawRecord, view: View) -> None:
        """
        Tell a hold that one of its copies is done.

        Raises:
            AwsError: it could not be told.

        """
        if record.group in view.holds and is_copy(record):
            self._holds.copy_done(lane.name, record.group, copy=record.deduplication_id)

    def _wait_of(self, hold: Hold) -> int:
        """Return the seconds until every environment knows of a hold."""
        return max(0, math.ceil(hold.since + KNOWN_AFTER - self._clock()))

    def _divert_held(self, lane: Lane, record: RawRecord, hold: Hold) -> Diverted | None:
        if hold.open and is_copy(record):
            return None
        if not hold.releasing:
            follows = self._holds.behind(lane.name, record.group)
            return DeadLettered(reason=f"held behind {hold.id}") if follows else Later(delay=AGAIN)
        copy = copy_id(record.message_id)
        if not self._holds.send_behind(lane.name, record.group, copy=copy):
            return Later(delay=AGAIN)
        self._queues.forward(lane.name, record, body=record.body, deduplication_id=copy)
        named = unopened(record)
        self._telemetry.event(
            "message_sent_behind",
            lane=lane.name,
            message_id=record.message_id,
            id=named["id"],
            kind=named["kind"],
            group=record.group,
            receive_count=record.receive_count,
        )
        return Gone()

    def _first(
        self, action: Action, record: RawRecord, message: Message | None, view: View
    ) -> Override | None:
        """Return the latest override of an action that means a record."""
        return next((one for one in view.board.of(action) if one.means(record, message)), None)

    def _cancel(self, lane: Lane, record: RawRecord, message: Message | None, override: Override) -> Diverted:
        cancelled = Cancelled(
            lane=lane.name,
            message_id=record.message_id,
            id=message.id if message else "",
            kind=message.kind if message else "",
            group=record.group,
            source=message.source if message else "",
            sent_at=record.sent_at,
            receive_count=record.receive_count,
            cancelled_at=self._clock(),
            override=override.id,
            who=override.who,
            why=override.why,
        )
        self._overrides.cancelled(cancelled)
        self._telemetry.count(Metric.CANCELLED)
        self._telemetry.event(
            "message_cancelled",
            lane=lane.name,
            message_id=record.message_id,
            group=record.group,
            id=cancelled.id,
            kind=cancelled.kind,
            receive_count=record.receive_count,
            sent_at=record.sent_at,
            override=override.id,
        )
        return Gone()

    def _move(self, lane: Lane, record: RawRecord, message: Message | None, view: View) -> Diverted | None:
        override = self._moving(record, message, view)
        if override is None:
            return None
        target = self._config.lane_for(override.priority)
        body = record.body if message is None else with_priority(record.body, override.priority)
        if target.name == lane.name or size_bytes(body) > LARGEST_BODY_BYTES:
            return None
        self._let_follow(lane, record, message, override, view)
        self._queues.forward(target.name, record, body=body, deduplication_id=override.moved_id(record))
        self._telemetry.count(Metric.MOVED)
        self._telemetry.event(
            "message_moved",
            lane=lane.name,
            to_lane=target.name,
            message_id=record.message_id,
            group=record.group,
            id=message.id if message else "",
            kind=message.kind if message else "",
            priority=override.priority,
            receive_count=record.receive_count,
            sent_at=record.sent_at,
            override=override.id,
        )
        return Gone()

    def _moving(self, record: RawRecord, message: Message | None, view: View) -> Override | None:
        """Return the latest override that moves a record: it means it, or one before it in its group."""
        follow = view.follows.get(record.group)
        now = self._clock()
        for override in view.board.of(Action.PRIORITIZE):
            follows = follow is not None and follow.override == override.id
            if (follows or override.means(record, message)) and override.moves(record, now=now):
                return override
        return None

    def _let_follow(
        self, lane: Lane, record: RawRecord, message: Message | None, override: Override, view: View
    ) -> None:
        """Before the first of a group is sent on, write down that the later ones follow."""
        alone = (
            message is not None and dataclasses.replace(message, group=None).message_group_id == record.group
        )
        known = view.follows.get(record.group)
        if override.wanted.by_group_alone or alone or (known and known.override == override.id):
            return
        follow = Follow(
            lane=lane.name, group=record.group, override=override.id, expires_at=override.expires_at
        )
        self._overrides.follow(follow)
        view.follows[record.group] = follow


def _decoded(record: RawRecord) -> Message | None:
    try:
        return Message.from_body(record.body, group=record.group)
    except MessageDecodeError:
        return None
