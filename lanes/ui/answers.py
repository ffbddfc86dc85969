"""What the page's scripts can ask: each answer is a document made of what the operators' parts return."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes.errors import AwsError, ConfigurationError
from lanes.operate.check import Check
from lanes.operate.dead_letters import DeadLetterFilter, look
from lanes.outbox.entry import WAITING
from lanes.ui import dead_letter_documents, outbox_documents
from lanes.ui.changes import Plans
from lanes.ui.dead_letter_changes import DeadLetterWork
from lanes.ui.jobs import Jobs
from lanes.ui.lane_changes import Switch
from lanes.ui.outbox_changes import EntryChange
from lanes.ui.readings import Kept, LaneReadings
from lanes.ui.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.operate.history import LaneMinute
    from lanes.ui.changes import Change
    from lanes.ui.desk import Desk
    from lanes.ui.fields import Fields

HISTORY_MINUTES = 180
HISTORY_LASTS = timedelta(seconds=50)
LISTED = 200
COUNTED = 100_000
CHANGES = ("pause", "resume", "redrive", "delete", "prioritize", "cancel", "retry")


class Answers:
    """
    Everything that can be asked; all methods take fields, raise `LanesError` and may run at the same time.

    Args:
        desk: what to work with.
        every: the least time between two readings of the lanes.
        writes: whether changes are allowed.
        place: words about where this is: stack, region, endpoint.
    """

    def __init__(self, desk: Desk, *, every: timedelta, writes: bool, place: Mapping[str, Any]) -> None:
        self._desk = desk
        self._writes = writes
        self._place = place
        self._readings = LaneReadings(desk)
        self._watch = Watch(read=self._readings.read, every=every)
        self._history = Kept(self._read_history, lasts=HISTORY_LASTS)
        self._plans = Plans()
        self.jobs = Jobs(after=self._readings.forget)

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

    def dead_letters(self, fields: Fields) -> dict[str, Any]:
        """Look through the dead-letter queue of `lane`, or of all lanes."""
        wanted = dead_letter_documents.filter_of(fields)
        lane = fields.text("lane")
        lanes = self._desk.lanes if lane is None else [self._desk.lane(lane)]
        limit = fields.integer("limit", least=1) or LISTED
        rows: list[dict[str, Any]] = []
        beyond: dict[str, int] = {}
        for name in lanes:
            found = look(self._desk.operations.dead_letters, name, wanted, limit=limit)
            rows += [dead_letter_documents.row_of(letter) for letter in found.letters]
            beyond[name] = found.beyond
        return {"letters": rows, "beyond": beyond}

    def dead_letter(self, fields: Fields) -> dict[str, Any]:
        """Show one dead letter of `lane`, by `id`."""
        wanted = DeadLetterFilter(ids=(fields.required("id"),))
        lane = self._desk.lane(fields.required("lane"))
        found = look(self._desk.operations.dead_letters, lane, wanted, limit=1)
        if not found.letters:
            problem = "it is gone, behind the first ten of its group, or held by someone else; look again"
            raise ConfigurationError([problem], source="dead letter")
        return dead_letter_documents.details_of(found.letters[0])

    def outbox(self, _fields: Fields) -> dict[str, Any]:
        """Count the outbox's entries by state."""
        standing = self._desk.outbox.store.standing(limit=COUNTED)
        return {
            "name": self._desk.outbox.name,
            "counts": standing.counts,
            "oldest_at": standing.oldest_at,
            "is_complete": standing.is_complete,
        }

    def outbox_spread(self, _fields: Fields) -> dict[str, Any]:
        """Count what waits in the outbox by lane, kind and group; reads every waiting entry."""
        return outbox_documents.counts_of(self._desk.outbox.operations.entries(WAITING))

    def entries(self, fields: Fields) -> dict[str, Any]:
        """List entries of the outbox."""
        wanted = outbox_documents.filter_of(fields)
        limit = fields.integer("limit", least=1) or LISTED
        found = list(itertools.islice(self._desk.outbox.operator().find(wanted), limit + 1))
        rows = [outbox_documents.row_of(entry) for entry in found[:limit]]
        return {"entries": rows, "has_more": len(found) > limit, "meant": wanted.words()}

    def entry(self, fields: Fields) -> dict[str, Any]:
        """Show one entry of the outbox, by `id`."""
        entry_id = fields.required("id")
        entry = self._desk.outbox.operations.entry(entry_id)
        if entry is None:
            raise ConfigurationError([f"there is no entry {entry_id!r}"], source="outbox")
        return outbox_documents.details_of(entry)

    def history(self, _fields: Fields) -> dict[str, Any]:
        """Tell the last hours of each lane, minute by minute."""
        return {"lanes": self._history.get()}

    def audit(self, fields: Fields) -> dict[str, Any]:
        """Tell who changed what, of lanes and outbox, the latest first."""
        since = dead_letter_documents.ago(fields, "since") or 0.0
        limit = fields.integer("limit", least=1) or LISTED
        changes: list[object] = list(self._desk.operations.audit.entries(since=since, limit=limit))
        outbox = [] if self._outbox_name() is None else self._desk.outbox.operations.audits()
        return {"changes": changes, "outbox": [one for one in outbox if one.at >= since][:limit]}

    def check(self, _fields: Fields) -> dict[str, Any]:
        """Check what is deployed."""
        operations = self._desk.operations
        return {"findings": Check(deployment=operations.deployment, state=operations.state).run()}

    def plan(self, fields: Fields) -> dict[str, Any]:
        """Preview the change that `change` names."""
        plan = self._plans.keep(self._change(fields))
        return {"plan": plan.id, "preview": plan.preview}

    def start(self, fields: Fields) -> dict[str, Any]:
        """Make the change whose plan is `plan`."""
        return self.jobs.start(self._plans.take(fields.required("plan"))).document()

    def job(self, fields: Fields) -> dict[str, Any]:
        """Tell how a job stands."""
        return self.jobs.get(fields.required("id")).document()

    def stop(self, fields: Fields) -> dict[str, Any]:
        """Ask a job to stop."""
        job = self.jobs.get(fields.required("id"))
        job.stop()
        return job.document()

    def _change(self, fields: Fields) -> Change:
        change = fields.choice("change", CHANGES)
        if change in ("prioritize", "cancel", "retry"):
            wanted = outbox_documents.filter_of(fields)
            priority = fields.integer("priority")
            if change == "prioritize" and priority is None:
                raise ConfigurationError(["priority is missing"], source="request")
            return EntryChange(desk=self._desk, action=change, wanted=wanted, priority=priority or 0)
        lane = self._desk.lane(fields.required("lane"))
        if change in ("pause", "resume"):
            return Switch(desk=self._desk, lane=lane, enabled=change == "resume")
        wanted_letters = dead_letter_documents.filter_of(fields)
        if change == "delete" and wanted_letters.chooses_all and not fields.flag("all"):
            raise ConfigurationError(["say which: choose some, or filter them"], source="delete")
        return DeadLetterWork(desk=self._desk, lane=lane, wanted=wanted_letters, redrives=change == "redrive")

    def _read_history(self) -> Mapping[str, Sequence[LaneMinute]]:
        return self._desk.operations.history.read(minutes=HISTORY_MINUTES)

    def _outbox_name(self) -> str | None:
        try:
            return self._desk.outbox.name
        except ConfigurationError:
            return None
