"""Routes of changes: a plan with a preview, then a job that carries it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.errors import ConfigurationError
from lanes.message_filter import MessageFilter
from lanes.operate.overrides.change import Change as Request
from lanes.outbox.operations import RETRIED
from lanes.overrides import Action
from lanes.ui.api import entries
from lanes.ui.api.fields import dead_letters_of
from lanes.ui.changes.dead_letters import DeadLetterWork
from lanes.ui.changes.jobs import Jobs
from lanes.ui.changes.mapping import Switch
from lanes.ui.changes.move import Moving, Retry, Withdrawal
from lanes.ui.changes.plans import Plans

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.ui.api.fields import Fields
    from lanes.ui.changes.plans import Change
    from lanes.ui.session import Session

PLACES = ("lanes", "outbox", "both")


class ChangeRoutes:
    """
    Routes of plans and jobs; all raise `LanesError`.

    Args:
        session: the connection to the lanes.
        after: called at the end of each job.
    """

    def __init__(self, session: Session, *, after: Callable[[], None]) -> None:
        self._session = session
        self._plans = Plans()
        self.jobs = Jobs(after=after)
        self._changes: Mapping[str, Callable[[Fields], Change]] = {
            "pause": lambda fields: self._switch(fields, enabled=False),
            "resume": lambda fields: self._switch(fields, enabled=True),
            "redrive": lambda fields: self._dead_letters(fields, redrives=True),
            "delete": lambda fields: self._dead_letters(fields, redrives=False),
            "withdraw": self._withdrawal,
            "prioritize": lambda fields: self._moving(fields, Action.PRIORITIZE),
            "cancel": lambda fields: self._moving(fields, Action.CANCEL),
            "retry": lambda fields: Retry(
                session=self._session, wanted=entries.filter_of(fields, default=RETRIED)
            ),
        }

    @property
    def routes(self) -> dict[str, Callable[[Fields], Any]]:
        """The routes by name."""
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
        """Start the change of the plan with the id `plan`."""
        return self.jobs.start(self._plans.take(fields.required("plan"))).document()

    def job(self, fields: Fields) -> dict[str, Any]:
        """Return the state of a job."""
        return self.jobs.get(fields.required("id")).document()

    def running(self, _fields: Fields) -> dict[str, Any]:
        """Return the running jobs of all tabs."""
        return {"jobs": [job.document() for job in self.jobs.running()]}

    def stop(self, fields: Fields) -> dict[str, Any]:
        """Ask a job to stop."""
        job = self.jobs.get(fields.required("id"))
        job.stop()
        return job.document()

    def _lane(self, fields: Fields) -> str:
        return self._session.lane(fields.required("lane"))

    def _switch(self, fields: Fields, *, enabled: bool) -> Change:
        return Switch(session=self._session, lane=self._lane(fields), enabled=enabled)

    def _dead_letters(self, fields: Fields, *, redrives: bool) -> Change:
        wanted = dead_letters_of(fields)
        # The same rule as for the verb: nothing brings deleted messages back.
        if not redrives and wanted.chooses_all and not fields.flag("all"):
            raise ConfigurationError(
                ["no dead letters are selected; select some, or set a filter"], source="delete"
            )
        return DeadLetterWork(
            session=self._session, lane=self._lane(fields), wanted=wanted, redrives=redrives
        )

    def _withdrawal(self, fields: Fields) -> Change:
        return Withdrawal(session=self._session, override_id=fields.required("override"))

    def _moving(self, fields: Fields, action: Action) -> Change:
        run, place = fields.text("run"), fields.choice("in", PLACES)
        wanted = MessageFilter(ids=tuple(fields.texts("ids")), run=run, **entries.conditions_of(fields))
        if wanted.chooses_all and not fields.flag("all"):
            raise ConfigurationError(
                ["no filter is set; give an id, a kind, a group, a source, a run or priorities"],
                source="move",
            )
        if run is not None and place == "outbox":
            raise ConfigurationError(
                ["entries of an outbox belong to no run; choose lanes, or leave out the run"], source="move"
            )
        priority = _priority(fields) if action is Action.PRIORITIZE else 0
        request = Request(action=action, wanted=wanted, priority=priority, why=fields.text("why") or "")
        return Moving(session=self._session, change=request, lanes=place != "outbox", outbox=place != "lanes")


def _priority(fields: Fields) -> int:
    priority = fields.integer("priority")
    if priority is None:
        raise ConfigurationError(["priority is missing; give a whole number"], source="request")
    return priority
