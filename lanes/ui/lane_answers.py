"""What the page's scripts can ask about lanes: how they stand, how that came about, and who changed what."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes.errors import AwsError, ConfigurationError
from lanes.operate.check import Check
from lanes.ui.dead_letter_fields import ago
from lanes.ui.feed import CHOICES, Feed
from lanes.ui.log import DeskLog
from lanes.ui.readings import Kept
from lanes.ui.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.operate.history import LaneMinute
    from lanes.ui.desk import Desk
    from lanes.ui.fields import Fields
    from lanes.ui.readings import LaneReadings

HISTORY_MINUTES = 180
HISTORY_LASTS = timedelta(seconds=50)
TRACED = timedelta(days=1)
LISTED = 200


class LaneAnswers:
    """
    Answers about lanes; all raise `LanesError`.

    Args:
        desk: what to work with.
        readings: reads the lanes.
        every: the least time between two readings.
        writes: whether changes are allowed.
        place: words about where this is: stack, region, endpoint.
    """

    def __init__(
        self, desk: Desk, *, readings: LaneReadings, every: timedelta, writes: bool, place: Mapping[str, Any]
    ) -> None:
        self._desk = desk
        self._writes = writes
        self._place = place
        self._watch = Watch(read=readings.read, every=every)
        self._history = Kept(self._read_history, lasts=HISTORY_LASTS)
        self._tracing = threading.Lock()
        self._log = DeskLog(desk)
        self._feeds = {choice: Feed(self._log, choice) for choice in CHOICES}

    @property
    def routes(self) -> dict[str, Callable[[Fields], Any]]:
        """What can be asked, by name."""
        return {
            "place": self.place,
            "lanes": self.lanes,
            "history": self.history,
            "audit": self.audit,
            "trace": self.trace,
            "events": self.events,
            "check": self.check,
        }

    def place(self, _fields: Fields) -> dict[str, Any]:
        """Tell where this is, who is signed in, what the lanes are and what may be done."""
        config = self._desk.operations.deployment.config
        try:
            who: str | None = self._desk.who()
        except AwsError:
            who = None
        return {
            **self._place,
            "who": who,
            "writes": self._writes,
            "outbox": self._outbox_name(),
            "lanes": [{"name": lane.name, "threshold": lane.threshold} for lane in config.lanes],
        }

    def lanes(self, fields: Fields) -> object:
        """Tell the state of the lanes, and the samples after `since`."""
        return self._watch.look(since=fields.integer("since") or 0)

    def history(self, _fields: Fields) -> dict[str, Any]:
        """Tell the last hours of each lane, minute by minute."""
        return {"lanes": self._history.get()}

    def audit(self, fields: Fields) -> dict[str, Any]:
        """Tell who changed what, of lanes and outbox, the latest first."""
        since = ago(fields, "since") or 0.0
        limit = fields.integer("limit", least=1) or LISTED
        changes: list[object] = list(self._desk.operations.audit.entries(since=since, limit=limit))
        outbox = [] if self._outbox_name() is None else self._desk.outbox.operations.audits()
        return {"changes": changes, "outbox": [one for one in outbox if one.at >= since][:limit]}

    def trace(self, fields: Fields) -> dict[str, Any]:
        """Tell what became of the message `id`, as far as log, ledger, outbox and audit trail know."""
        wanted = fields.required("id")
        since = ago(fields, "since") or time.time() - TRACED.total_seconds()
        notes: list[str] = []
        operations = self._desk.operations
        # One search at a time: CloudWatch Logs allows few calls a second.
        with self._tracing:
            found = operations.tracer(self._log.calls, note=notes.append).trace(wanted, since=since)
        return {"trace": found, "is_known": found.is_known, "notes": notes, "since": since}

    def events(self, fields: Fields) -> dict[str, Any]:
        """Tell the events of a `choice` after the number `since`, those of the last minutes to begin with."""
        choice = fields.choice("choice", tuple(CHOICES))
        return {"events": self._feeds[choice].events(since=fields.integer("since") or 0)}

    def check(self, _fields: Fields) -> dict[str, Any]:
        """Check what is deployed."""
        operations = self._desk.operations
        return {"findings": Check(deployment=operations.deployment, state=operations.state).run()}

    def _read_history(self) -> Mapping[str, Sequence[LaneMinute]]:
        return self._desk.operations.history.read(minutes=HISTORY_MINUTES)

    def _outbox_name(self) -> str | None:
        try:
            return self._desk.outbox.name
        except ConfigurationError:
            return None
