"""What the page's scripts can change: a plan first, then a job that carries it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.consumer.overrides import Action
from lanes.errors import ConfigurationError
from lanes.message_filter import MessageFilter
from lanes.operate.moving import QUEUED, STATES
from lanes.operate.overrides import Change as Wish
from lanes.outbox.entry import WAITING
from lanes.ui import dead_letter_fields, outbox_documents
from lanes.ui.changes import Plans
from lanes.ui.dead_letter_changes import DeadLetterWork
from lanes.ui.jobs import Jobs
from lanes.ui.lane_changes import Switch
from lanes.ui.move_changes import Moving, Release, Withdrawal
from lanes.ui.outbox_changes import CANCEL, PRIORITIZE, RETRY, EntryChange

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.ui.changes import Change
    from lanes.ui.desk import Desk
    from lanes.ui.fields import Fields

PLACES = {
    "everywhere": STATES,
    "outbox": frozenset(state.value for state in WAITING),
    "queues": frozenset({QUEUED}),
}
"""Where a move looks, by the word of the page."""


class ChangeAnswers:
    """
    Plans, jobs and the changes that they are about; raises `LanesError`.

    Args:
        desk: what to work with.
        after: called at the end of each job.
    """

    def __init__(self, desk: Desk, *, after: Callable[[], None]) -> None:
        self._desk = desk
        self._plans = Plans()
        self.jobs = Jobs(after=after)
        self._changes: Mapping[str, Callable[[Fields], Change]] = {
            "pause": lambda fields: self._switch(fields, enabled=False),
            "resume": lambda fields: self._switch(fields, enabled=True),
            "redrive": lambda fields: self._dead_letters(fields, redrives=True),
            "delete": lambda fields: self._dead_letters(fields, redrives=False),
            "release": self._release,
            "withdraw": self._withdrawal,
            "move": lambda fields: self._moving(fields, Action.PRIORITIZE),
            "drop": lambda fields: self._moving(fields, Action.CANCEL),
            **{name: self._entry_change(name) for name in (PRIORITIZE, CANCEL, RETRY)},
        }

    @property
    def routes(self) -> dict[str, Callable[[Fields], Any]]:
        """What can be asked, by name."""
        return {
            "plan": self.plan,
            "start": self.start,
            "job": self.job,
            "jobs": self.running,
            "stop": self.stop,
        }

    def plan(self, fields: Fields) -> dict[str, Any]:
        """Preview the change that `change` names."""
        change = self._changes[fields.choice("change", list(self._changes))](fields)
        plan = self._plans.keep(change)
        return {"plan": plan.id, "preview": plan.preview}

    def start(self, fields: Fields) -> dict[str, Any]:
        """Make the change whose plan is `plan`."""
        return self.jobs.start(self._plans.take(fields.required("plan"))).document()

    def job(self, fields: Fields) -> dict[str, Any]:
        """Tell how a job stands."""
        return self.jobs.get(fields.required("id")).document()

    def running(self, _fields: Fields) -> dict[str, Any]:
        """Tell which jobs go on, whoever started them here."""
        return {"jobs": [job.document() for job in self.jobs.running()]}

    def stop(self, fields: Fields) -> dict[str, Any]:
        """Ask a job to stop."""
        job = self.jobs.get(fields.required("id"))
        job.stop()
        return job.document()

    def _lane(self, fields: Fields) -> str:
        return self._desk.lane(fields.required("lane"))

    def _switch(self, fields: Fields, *, enabled: bool) -> Change:
        return Switch(desk=self._desk, lane=self._lane(fields), enabled=enabled)

    def _dead_letters(self, fields: Fields, *, redrives: bool) -> Change:
        wanted = dead_letter_fields.filter_of(fields)
        if not redrives and wanted.chooses_all and not fields.flag("all"):
            raise ConfigurationError(["say which: choose some, or filter them"], source="delete")
        return DeadLetterWork(desk=self._desk, lane=self._lane(fields), wanted=wanted, redrives=redrives)

    def _release(self, fields: Fields) -> Change:
        return Release(desk=self._desk, lane=self._lane(fields), group=fields.required("group"))

    def _withdrawal(self, fields: Fields) -> Change:
        return Withdrawal(desk=self._desk, override_id=fields.required("override"))

    def _moving(self, fields: Fields, action: Action) -> Change:
        wanted = MessageFilter(ids=tuple(fields.texts("ids")), **outbox_documents.conditions_of(fields))
        if wanted.chooses_all and not fields.flag("all"):
            raise ConfigurationError(
                ["say which: an id, a kind, a group, a source or priorities"], source="move"
            )
        priority = _priority(fields) if action is Action.PRIORITIZE else 0
        wish = Wish(action=action, wanted=wanted, priority=priority, why=fields.text("why") or "")
        states = PLACES[fields.choice("where", list(PLACES))]
        return Moving(desk=self._desk, change=wish, states=states)

    def _entry_change(self, action: str) -> Callable[[Fields], Change]:
        def change(fields: Fields) -> Change:
            wanted = outbox_documents.filter_of(fields)
            priority = _priority(fields) if action == PRIORITIZE else 0
            return EntryChange(desk=self._desk, action=action, wanted=wanted, priority=priority)

        return change


def _priority(fields: Fields) -> int:
    priority = fields.integer("priority")
    if priority is None:
        raise ConfigurationError(["priority is missing"], source="request")
    return priority
