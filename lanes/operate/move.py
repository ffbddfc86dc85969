"""
Change waiting messages: one change for the entries of an outbox and the messages in queues.

Entries change at once; messages in queues change when they are next received, by an override. The override is written
first, so it also applies to the entries that a relay publishes in the meantime.
"""

from __future__ import annotations

import dataclasses
import itertools
import uuid
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from lanes.config.table import nearest
from lanes.errors import AwsError, ConfigurationError, LanesError
from lanes.events import Event
from lanes.operate.audit import audited
from lanes.operate.log import read_event
from lanes.operate.runs import check_waiting
from lanes.outbox.entry import WAITING
from lanes.outbox.operations import EVERY_STATE, EntryFilter, cancelled_by
from lanes.overrides import KNOWN_AFTER, OVERRIDES_AGE, Action, Override

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.config import LanesConfig
    from lanes.message_filter import MessageFilter
    from lanes.operate.audit import AuditTrail
    from lanes.operate.log import Logs
    from lanes.operate.status import Depths
    from lanes.outbox.operations import Operator, Preview
    from lanes.overrides import ActiveOverrides, Cancelled
    from lanes.runs import RunTable

LIFETIME = timedelta(days=14)
"""AWS: a message stays at most 14 days in a queue, so none outlives an override (SQS quotas)."""
# Ten calls of DynamoDB, or one of CloudWatch Logs.
MOST = 10_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """
    A change of waiting messages, by an operator.

    Attributes:
        action: the action.
        wanted: selects the messages.
        priority: the new priority, if the action is to prioritize.
        why: the operator's reason.
        lifetime: how long the change applies to messages in queues.

    """

    action: Action
    wanted: MessageFilter
    priority: int = 0
    why: str = ""
    lifetime: timedelta = LIFETIME


class Overrides(Protocol):
    """The active overrides; every method raises `AwsError`."""

    def now(self) -> float:
        """Return the time by the clock of AWS, in epoch seconds."""

    def active(self) -> ActiveOverrides:
        """Read the active overrides."""

    def add(self, override: Override) -> None:
        """Add an override, and remove the expired ones."""

    def withdraw(self, override_id: str) -> None:
        """Remove an override."""

    def cancellations(self, *, since: float, limit: int) -> Sequence[Cancelled]:
        """Return messages that were cancelled in queues, the latest first."""


def waiting(config: LanesConfig, depths: Depths, change: Change) -> Mapping[str, int]:
    """
    Return roughly how many messages wait in the lanes that the change may apply to, by lane.

    A queue can't be searched: only when a message is received does it turn out whether it matches.
    """
    # Messages in the lane of the new priority stay where they are.
    target = config.lane_for(change.priority).name if change.action is Action.PRIORITIZE else None
    counted = {lane.name: depths.depth(lane.name) for lane in config.lanes if lane.name != target}
    return {lane: depth.messages for lane, depth in counted.items()}


def override_for(change: Change, *, who: str, now: float) -> Override:
    """Return the override that carries a change to the consumer."""
    return Override(
        # Short, since operators type it to withdraw the override.
        id=uuid.uuid4().hex[:12],
        action=change.action,
        wanted=change.wanted,
        created_at=now,
        expires_at=now + change.lifetime.total_seconds(),
        who=who,
        why=change.why,
        priority=change.priority,
    )


def override_named(overrides: Overrides, override_id: str) -> Override | None:
    """
    Return an active override; None for one of a later release, which can be withdrawn all the same.

    Raises:
        ConfigurationError: no override with this id is active.
    """
    active = overrides.active()
    for override in active.overrides:
        if override.id == override_id:
            return override
    if override_id in active.unread:
        return None
    known = nearest(override_id, [override.id for override in active.overrides])
    problem = f"no override {override_id!r} is active{known}; it may have been withdrawn already"
    raise ConfigurationError([problem], source="overrides")


def withdraw_override(queues: Queues, override_id: str) -> None:
    """
    Withdraw an override, and write it to the audit trail.

    Raises:
        ConfigurationError: no override with this id is active.
        AwsError: a call failed.
    """
    found = override_named(queues.overrides, override_id)
    details = {"override": override_id, "filter": found.wanted.to_dict() if found else None}
    with audited(queues.audit, "overrides withdraw", override_id, details=details):
        queues.overrides.withdraw(override_id)


def count_met(
    overrides: Sequence[Override],
    *,
    cancellations: Callable[[float, int], Sequence[Cancelled]],
    logs: Callable[[], Logs],
    note: Callable[[str], None],
) -> Mapping[str, int | None]:
    """
    Return the number of messages that each override has met, by its id; None if it can't be read.

    Cancelled messages are items of the table. Moved ones are events of the log, which must not be counted twice: a
    moved message that returns before its deletion is moved again.

    Args:
        overrides: the active overrides.
        cancellations: returns the cancelled messages since a time, at most a number of them.
        logs: returns the log of the function; called only if an override moves messages.
        note: receives a note about a count that is unknown or incomplete.
    """
    counts: dict[str, int | None] = dict.fromkeys((one.id for one in overrides), 0)
    if cancels := [one for one in overrides if one.action is Action.CANCEL]:
        found = cancellations(min(one.created_at for one in cancels), MOST)
        counts |= Counter(one.override for one in found if one.override in counts)
        if len(found) == MOST:
            note(f"only the last {MOST:,} cancelled messages are counted")
    if moves := [one for one in overrides if one.action is Action.PRIORITIZE]:
        try:
            counts |= _moved(moves, logs(), note)
        except LanesError as error:
            note(f"moved messages unknown: {' '.join(str(error).split())}")
            counts |= dict.fromkeys(one.id for one in moves)
    return counts


def _moved(moves: Sequence[Override], logs: Logs, note: Callable[[str], None]) -> dict[str, int]:
    since = min(one.created_at for one in moves)
    lines = list(itertools.islice(logs.lines(since=since, containing=(Event.MESSAGE_MOVED,)), MOST))
    if len(lines) == MOST:
        note(f"only the first {MOST:,} moved messages are counted")
    events = (read_event(line) for line in lines)
    moved = {
        (str(event.fields.get("override")), str(event.fields.get("message_id")))
        for event in events
        if event is not None and event.name == Event.MESSAGE_MOVED
    }
    counted = Counter(override for override, _ in moved)
    return {one.id: counted[one.id] for one in moves}


TRIES = 3


class Queues(Protocol):
    """The queues of the lanes, with the overrides of their messages."""

    @property
    def depths(self) -> Depths:
        """The counts of the queues."""

    @property
    def overrides(self) -> Overrides:
        """The active overrides."""

    @property
    def audit(self) -> AuditTrail:
        """The audit trail."""

    @property
    def runs(self) -> RunTable:
        """The runs of messages."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """
    The messages that a move may change.

    Attributes:
        entries: the filter of entries.
        preview: the matching entries; None without an outbox.
        queued: waiting messages by lane, of all kinds, since a queue can't be searched; None without queues.
    """

    entries: EntryFilter
    preview: Preview | None
    queued: Mapping[str, int] | None

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to change."""
        return not (self.preview and self.preview.count) and self.queued is None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """
    The result of a move.

    Attributes:
        entries: number of entries that changed.
        override: the override for messages in queues; None without queues.
    """

    entries: int
    override: Override | None

    @property
    def applies_from(self) -> float | None:
        """When every consumer knows the override, in epoch seconds."""
        return None if self.override is None else self.override.created_at + KNOWN_AFTER


class Move:
    """
    A change of waiting messages.

    Args:
        change: the change.
        config: the lanes.
        outbox: changes entries; None leaves the outbox alone.
        queues: the queues; None leaves them alone, and the outbox keeps the only audit.
    """

    def __init__(
        self,
        change: Change,
        *,
        config: LanesConfig,
        outbox: Operator | None,
        queues: Queues | None,
    ) -> None:
        self._change = change
        every = EntryFilter.of(change.wanted, EVERY_STATE)
        self._entries = cancelled_by(every) if change.action is Action.CANCEL else every.only(WAITING)
        self._config = config
        # No entry belongs to a run, and its filter has none.
        self._outbox = None if change.wanted.run is not None else outbox
        self._queues = queues

    def find(self) -> Found:
        """
        Count the messages that may change, and change nothing.

        Raises:
            ConfigurationError: the run that the filter names does not exist, or it has ended.
            LanesError: the outbox or a queue could not be read.
        """
        queues, run = self._queues, self._change.wanted.run
        if queues is not None and run is not None:
            check_waiting(queues.runs, run)
        return Found(
            entries=self._entries,
            preview=None if self._outbox is None else self._outbox.preview(self._entries),
            queued=None if queues is None else waiting(self._config, queues.depths, self._change),
        )

    def make(self, found: Found, *, progress: Callable[[int], None]) -> Moved:
        """
        Make the change, and write it to the audit trail.

        Args:
            found: the result of `find`; the outbox is left alone if it has no matching entry.
            progress: receives the number of entries changed so far.

        Raises:
            LanesError: a call failed; the audit trail says how far the change came.
        """
        queues, change = self._queues, self._change
        if queues is None:
            return Moved(entries=self._change_entries(found, progress), override=None)
        asked: dict[str, Any] = {"filter": change.wanted.to_dict(), "why": change.why}
        if change.action is Action.PRIORITIZE:
            asked["to_priority"] = change.priority
        with audited(queues.audit, change.action, change.wanted.describe(), details=asked) as details:
            override = self._add_override(queues)
            details["override"] = override.id
            details["entries"] = changed = self._change_entries(found, progress)
        return Moved(entries=changed, override=override)

    def _add_override(self, queues: Queues) -> Override:
        who = queues.audit.who()
        for _ in range(TRIES):
            # The clock of AWS, not of this machine: `sent_at` of the messages is compared with it.
            override = override_for(self._change, who=who, now=queues.overrides.now())
            queues.overrides.add(override)
            # A cancelled message is in no other lane, so no environment has to wait for the others.
            if self._change.action is Action.CANCEL:
                return override
            # A repeated call may land seconds later than its first try, and every environment has to know the override
            # before one of them moves a message.
            if queues.overrides.now() <= override.created_at + KNOWN_AFTER - OVERRIDES_AGE:
                return override
            queues.overrides.withdraw(override.id)
        raise AwsError(
            operation="UpdateItem",
            code="OverrideTooSlow",
            message=f"{TRIES} writes took over a second each, so the override was withdrawn; try again later",
            retryable=True,
        )

    def _change_entries(self, found: Found, progress: Callable[[int], None]) -> int:
        if self._outbox is None or found.preview is None or not found.preview.count:
            return 0
        if self._change.action is Action.CANCEL:
            return self._outbox.cancel(self._entries, progress=progress)
        return self._outbox.prioritize(self._entries, self._change.priority, progress=progress)
