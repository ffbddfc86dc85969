"""Moving what waits from the page: in the outbox and in queues alike, and letting overrides and holds end."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from lanes.consumer.overrides import Action
from lanes.errors import ConfigurationError
from lanes.operate.audit import audited
from lanes.operate.moving import QUEUED, Move
from lanes.ui.changes import Preview
from lanes.ui.outbox_documents import row_of

if TYPE_CHECKING:
    from lanes.consumer.holds import Hold
    from lanes.consumer.overrides import Override
    from lanes.operate.overrides import Change
    from lanes.ui.changes import Course
    from lanes.ui.desk import Desk

AT_ONCE = "Entries of the outbox are changed at once, those that a relay sends at this moment excepted."
LATER = (
    "Nobody can look into a queue: messages there are found when they are next received, for "
    "{days:g} days. The counts are of all that waits."
)
FOLLOW = "Later messages of a group follow those that are sent on, so that the group keeps its order."
FOR_GOOD = "What is cancelled is recorded and never handled."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Moving:
    """What waits, to be prioritised or cancelled; `states` says where to look."""

    desk: Desk
    change: Change
    states: frozenset[str]

    def preview(self) -> Preview:
        """Count what may be concerned."""
        found = self._move().look()
        entries, counts = found.preview, dict[str, dict[str, Any]]()
        if entries is not None:
            counts["kind in the outbox"] = {"entries": entries.count, **entries.kinds}
        if found.queued is not None:
            counts["lane, of all kinds, in queues"] = dict(found.queued)
        return Preview(
            title=self._title(),
            verb=self.change.action.capitalize(),
            points=self._points(),
            counts=counts,
            sample=[row_of(entry) for entry in entries.sample] if entries else (),
            is_empty=found.is_nothing,
            is_final=self.change.action is Action.CANCEL,
        )

    def make(self, course: Course) -> dict[str, Any]:
        """Change entries and put up an override."""
        move = self._move()
        moved = move.make(move.look(), progress=course.report)
        override = {} if moved.override is None else {"override": moved.override.id}
        return {"entries changed": moved.entries, **override}

    def _move(self) -> Move:
        operations = self.desk.operations
        operator = None
        if self.states != {QUEUED} and self.desk.has_outbox:
            operator = self.desk.outbox.operator()
        return Move(
            self.change,
            states=self.states,
            config=operations.deployment.config,
            operator=operator,
            surroundings=operations,
        )

    def _title(self) -> str:
        if self.change.action is Action.CANCEL:
            return "Cancel what waits"
        lane = self.desk.operations.deployment.config.lane_for(self.change.priority).name
        return f"Give what waits priority {self.change.priority} (lane {lane})"

    def _points(self) -> list[str]:
        points = [f"Meant is: {self.change.wanted.words()}."]
        if self.states != {QUEUED} and self.desk.has_outbox:
            points.append(AT_ONCE)
        if QUEUED in self.states:
            points.append(LATER.format(days=self.change.lasts.total_seconds() / 86_400))
        return [*points, FOR_GOOD if self.change.action is Action.CANCEL else FOLLOW]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """An override to be taken off the board."""

    desk: Desk
    override_id: str

    def preview(self) -> Preview:
        """Tell what it means."""
        found = self._override()
        return Preview(
            title=f"Withdraw override {self.override_id}",
            verb="Withdraw",
            points=("What it has not met yet stays as it is. What it did is not undone.",),
            counts={
                "now": {
                    "action": found.action.value,
                    "filter": found.wanted.words(),
                    "who": found.who,
                    "why": found.why or None,
                }
            },
        )

    def make(self, course: Course) -> dict[str, Any]:
        """Take it off."""
        operations = self.desk.operations
        course.say("writing")
        details = {"override": self.override_id, "filter": self._override().wanted.to_dict()}
        with audited(operations.audit, "overrides withdraw", self.override_id, details=details):
            operations.overrides.withdraw(self.override_id)
        return {"withdrawn": self.override_id}

    def _override(self) -> Override:
        for override in self.desk.operations.overrides.board().overrides:
            if override.id == self.override_id:
                return override
        raise ConfigurationError([f"no override {self.override_id!r} stands"], source="overrides")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A held group to be let go without its dead letters."""

    desk: Desk
    lane: str
    group: str

    def preview(self) -> Preview:
        """Tell what holds it."""
        hold = self._hold()
        return Preview(
            title=f"Release group {self.group} of {self.lane}",
            verb="Release",
            points=(
                "What comes later is handled again, before its dead letters.",
                "A redrive instead brings them back first and releases the group by itself.",
            ),
            counts={"now": {"behind": hold.id, "reason": hold.reason, "followed": hold.behind}},
        )

    def make(self, course: Course) -> dict[str, Any]:
        """End the hold."""
        operations = self.desk.operations
        course.say("writing")
        self._hold()
        details = {"group": self.group}
        with audited(operations.audit, "dead-letters release", self.lane, details=details) as noted:
            noted["released"] = released = operations.holds.end(self.lane, self.group)
        return {"released": released}

    def _hold(self) -> Hold:
        hold = self.desk.operations.holds.read(self.lane, [self.group]).get(self.group)
        if hold is None:
            raise ConfigurationError(
                [f"group {self.group!r} of {self.lane} is not held"], source="dead letters"
            )
        return hold
