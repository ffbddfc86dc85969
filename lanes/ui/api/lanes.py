"""Routes about lanes: their state and history, events, traces, audit and check."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes.errors import AwsError, ConfigurationError
from lanes.operate.cached import Cached
from lanes.operate.lanes.check import Check
from lanes.ui.api.fields import ago
from lanes.ui.feed import CHOICES, Feed
from lanes.ui.protection import CURRENT
from lanes.ui.readings import RunReadings
from lanes.ui.session import SessionLog
from lanes.ui.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.ui.api.fields import Fields
    from lanes.ui.readings import LaneReadings
    from lanes.ui.session import Session

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
