"""The requests that the page's scripts send, by name, and their answers."""

from __future__ import annotations

import itertools
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lanes.errors import AwsError, ConfigurationError
from lanes.operate.check import Check
from lanes.operate.dead_letters import DeadLetterFilter, details_of, list_dead_letters, row_of
from lanes.operate.schedules import later_rows, read
from lanes.operate.status import Cached, blocked_groups
from lanes.outbox.entry import WAITING
from lanes.schedules import PERIODIC
from lanes.ui.fields import (
    ago,
    dead_letters_of,
    entry_counts,
    entry_details,
    entry_filter,
    entry_row,
)
from lanes.ui.jobs import ChangeRoutes
from lanes.ui.protection import CURRENT
from lanes.ui.readings import CHOICES, Feed, LaneReadings, RunReadings, Watch
from lanes.ui.session import SessionLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.ui.fields import Fields
    from lanes.ui.jobs import Jobs
    from lanes.ui.session import Session

    Asks = Mapping[str, Callable[[Fields], Any]]

# The longest window of the timeline.
HISTORY_MINUTES = 180
# CloudWatch has a new minute once a minute; reading it costs money.
HISTORY_LASTS = timedelta(seconds=50)
# Three to twelve calls of FilterLogEvents, which an account has 5 to 25 of a second.
WORK_LASTS = timedelta(seconds=10)
TRACED = timedelta(days=1)
# A few screens of the audit trail.
LISTED = 200


class LaneRoutes:
    """
    Routes about lanes; all raise `LanesError`.

    Args:
        session: the connection to the lanes.
        readings: reads the lanes.
        every: minimum time between two readings.
        target: description of the target: stack, region, endpoint.
    """

    def __init__(
        self,
        session: Session,
        *,
        readings: LaneReadings,
        every: timedelta,
        target: Mapping[str, Any],
    ) -> None:
        self._session = session
        self._target = target
        self._watch = Watch(read=readings.read, every=every)
        self._history = Cached(
            lambda: session.operations.figures.minutes(HISTORY_MINUTES), lasts=HISTORY_LASTS
        )
        self._work = Cached(lambda: session.operations.recent_work(self._log.calls).read(), lasts=WORK_LASTS)
        self._runs = RunReadings(session)
        self._working = threading.Lock()
        self._tracing = threading.Lock()
        self._log = SessionLog(session)
        self._feeds = {choice: Feed(self._log, choice) for choice in CHOICES}

    @property
    def routes(self) -> dict[str, Callable[[Fields], Any]]:
        """The routes by name."""
        return {
            "target": self.target,
            "lanes": self.lanes,
            "history": self.history,
            "work": self.work,
            "runs": self.runs,
            "audit": self.audit,
            "trace": self.trace,
            "events": self.events,
            "check": self.check,
        }

    def target(self, _fields: Fields) -> dict[str, Any]:
        """Return the target, the signed-in operator, the lanes, and whether changes are allowed."""
        config = self._session.operations.deployment.config
        try:
            who: str | None = self._session.who()
        # The page works without the name; every change asks for it again.
        except AwsError:
            who = None
        return {
            **self._target,
            "who": who,
            "writes": CURRENT.get().may_write,
            "outbox": self._outbox_name(),
            "schedules": self._session.operations.deployment.scheduler is not None,
            "engine": config.consumer.engine,
            "lanes": [{"name": lane.name, "threshold": lane.threshold} for lane in config.lanes],
        }

    def lanes(self, fields: Fields) -> object:
        """Return the state of the lanes, and the samples after number `since`."""
        return self._watch.look(since=fields.integer("since") or 0)

    def history(self, _fields: Fields) -> dict[str, Any]:
        """Return the last hours of each lane, minute by minute."""
        return {"lanes": self._history.get()}

    def work(self, _fields: Fields) -> object:
        """Return waits by lane and kind, failures by error, running invocations and resources away."""
        with self._working:
            return self._work.get()

    def runs(self, _fields: Fields) -> dict[str, Any]:
        """Return the runs of the last days, the latest first, with the ends of their messages and their rates."""
        return {"runs": self._runs.read()}

    def audit(self, fields: Fields) -> dict[str, Any]:
        """Return the changes of lanes and outbox that operators made, the latest first."""
        since = ago(fields, "since") or 0.0
        limit = fields.integer("limit", min_=1) or LISTED
        changes: list[object] = list(self._session.operations.audit.entries(since=since, limit=limit))
        outbox = [] if self._outbox_name() is None else self._session.outbox.operations.audits()
        return {"changes": changes, "outbox": [one for one in outbox if one.at >= since][:limit]}

    def trace(self, fields: Fields) -> dict[str, Any]:
        """Return the history of the message `id` from log, ledger, outbox and audit trail."""
        wanted = fields.required("id")
        since = ago(fields, "since") or time.time() - TRACED.total_seconds()
        notes: list[str] = []
        operations = self._session.operations
        # One search at a time: CloudWatch Logs allows few calls a second.
        with self._tracing:
            found = operations.tracer(self._log.calls, note=notes.append).trace(wanted, since=since)
        return {"trace": found, "is_known": found.is_known, "notes": notes, "since": since}

    def events(self, fields: Fields) -> dict[str, Any]:
        """Return the events of a `choice` after number `since`; the first call returns those of the last minutes."""
        choice = fields.choice("choice", tuple(CHOICES))
        return {"events": self._feeds[choice].events(since=fields.integer("since") or 0)}

    def check(self, _fields: Fields) -> dict[str, Any]:
        """Return the findings about the deployment."""
        operations = self._session.operations
        return {"findings": Check(deployment=operations.deployment, state=operations.state).run()}

    def _outbox_name(self) -> str | None:
        try:
            return self._session.outbox.name
        except ConfigurationError:
            return None


# Twenty receives of ten messages, about a second.
# Counting reads index pages; beyond this the page shows a plus sign.
COUNTED = 100_000


class MessageRoutes:
    """
    Routes about messages; all raise `LanesError`.

    Args:
        session: the connection to the lanes.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def routes(self) -> dict[str, Callable[[Fields], Any]]:
        """The routes by name."""
        return {
            "dead_letters": self.dead_letters,
            "dead_letter": self.dead_letter,
            "outbox": self.outbox,
            "outbox_spread": self.outbox_spread,
            "entries": self.entries,
            "entry": self.entry,
            "overrides": self.overrides,
            "overrides_met": self.overrides_met,
            "schedules": self.schedules,
        }

    def dead_letters(self, fields: Fields) -> dict[str, Any]:
        """List dead letters of `lane`."""
        wanted = dead_letters_of(fields)
        lane = self._session.lane(fields.required("lane"))
        limit = fields.integer("limit", min_=1) or LISTED
        found = list_dead_letters(self._session.operations.dead_letters, lane, wanted, limit=limit)
        rows = [row_of(letter) for letter in found.letters]
        return {"letters": rows, "beyond": found.beyond}

    def dead_letter(self, fields: Fields) -> dict[str, Any]:
        """Return the dead letter of `lane` with the id `id`."""
        wanted = DeadLetterFilter(ids=(fields.required("id"),))
        lane = self._session.lane(fields.required("lane"))
        found = list_dead_letters(self._session.operations.dead_letters, lane, wanted, limit=1)
        if not found.letters:
            problem = "the dead letter is gone, hidden by another reader, or behind ten of its group; list them again"
            raise ConfigurationError([problem], source="dead letter")
        return details_of(found.letters[0])

    def outbox(self, _fields: Fields) -> dict[str, Any]:
        """Count the outbox's entries by state."""
        status = self._session.outbox.store.status(limit=COUNTED)
        return {
            "name": self._session.outbox.name,
            "counts": status.counts,
            "held_groups": status.held_groups,
            "scheduled": status.scheduled,
            "relays": [
                {"relay": one.relay, "entries": one.entries, "locked_until": one.locked_until}
                for one in self._session.outbox.operator().relays()
            ],
            "oldest_at": status.oldest_at,
            "is_complete": status.is_complete,
        }

    def outbox_spread(self, _fields: Fields) -> dict[str, Any]:
        """Count the waiting entries of the outbox by lane, kind and group; reads all of them."""
        return entry_counts(self._session.outbox.operations.entries(WAITING))

    def entries(self, fields: Fields) -> dict[str, Any]:
        """List entries of the outbox."""
        wanted = entry_filter(fields)
        limit = fields.integer("limit", min_=1) or LISTED
        # One more than shown, to know whether there are more without counting them.
        found = list(itertools.islice(self._session.outbox.operator().find(wanted), limit + 1))
        rows = [entry_row(entry) for entry in found[:limit]]
        return {"entries": rows, "has_more": len(found) > limit, "meant": wanted.describe()}

    def entry(self, fields: Fields) -> dict[str, Any]:
        """Return the entry of the outbox with the id `id`."""
        entry_id = fields.required("id")
        entry = self._session.outbox.operations.entry(entry_id)
        if entry is None:
            raise ConfigurationError(
                [f"there is no entry {entry_id!r}; it may have been removed"], source="outbox"
            )
        return entry_details(entry)

    def overrides(self, fields: Fields) -> dict[str, Any]:
        """Return the active overrides, the messages cancelled since the age `since`, and the blocked groups."""
        operations = self._session.operations
        config = operations.deployment.config
        active = operations.overrides.active()
        since = ago(fields, "since") or 0.0
        return {
            "overrides": [
                {
                    "id": one.id,
                    "action": one.action,
                    "filter": one.wanted.describe(),
                    "priority": one.priority,
                    "who": one.who,
                    "why": one.why,
                    "created_at": one.created_at,
                    "expires_at": one.expires_at,
                }
                for one in active.overrides
            ],
            "unread": active.unread,
            "cancelled": operations.overrides.cancellations(since=since, limit=LISTED),
            "blocked": [
                one for lane in config.lanes for one in blocked_groups(config, operations.depths, lane.name)
            ],
        }

    def overrides_met(self, _fields: Fields) -> dict[str, Any]:
        """Count the messages that each active override has met; reads the log of the function."""
        notes: list[str] = []
        return {"met": self._session.operations.overrides_met(note=notes.append), "notes": notes}

    def schedules(self, _fields: Fields) -> dict[str, Any]:
        """Return the periodic messages, the messages for later, and whether there are more of those."""
        calls, now = self._session.operations.schedules, datetime.now(UTC)
        later, has_more = later_rows(calls, limit=LISTED)
        return {
            "periodic": [one.row(now) for one in read(calls, PERIODIC)],
            "later": later,
            "has_more": has_more,
        }


class Routes:
    """
    All routes; each takes fields, raises `LanesError` and may run concurrently.

    Args:
        session: the connection to the lanes.
        every: minimum time between two readings of the lanes.
        target: description of the target: stack, region, endpoint.

    Attributes:
        reads: routes that change nothing, by name.
        changes: routes that make changes, by name.
        jobs: running changes.
    """

    def __init__(self, session: Session, *, every: timedelta, target: Mapping[str, Any]) -> None:
        readings = LaneReadings(session)
        lanes = LaneRoutes(session, readings=readings, every=every, target=target)
        changing = ChangeRoutes(session, after=readings.forget)
        self.session = session
        self.reads: Asks = {**lanes.routes, **MessageRoutes(session).routes}
        self.changes: Asks = changing.routes
        self.jobs: Jobs = changing.jobs
