"""Prioritise and cancel waiting work, and withdraw overrides, from the page."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from lanes.errors import ConfigurationError
from lanes.operate.history.audit import audited
from lanes.operate.overrides.move import Move
from lanes.outbox.operations import retried_by
from lanes.overrides import Action
from lanes.ui.api.entries import row_of
from lanes.ui.changes.plans import Preview

if TYPE_CHECKING:
    from lanes.operate.overrides.change import Change
    from lanes.operate.overrides.move import Found
    from lanes.outbox.filter import EntryFilter
    from lanes.overrides import Override
    from lanes.ui.changes.plans import Progress
    from lanes.ui.session import Session

AT_ONCE = "Entries in the outbox change at once, except those that a relay is sending at this moment."
LATER = (
    "Messages in lanes are found when they are next received, for {days:g} days. SQS can't show them before, so "
    "the counts include all messages."
)
FOLLOW = "Later messages of a group follow the moved ones, so that the group keeps its order."
FOR_GOOD = "Cancelled work is recorded and never handled."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Moving:
    """Prioritise or cancel waiting work in the lanes, in the outbox, or in both."""

    session: Session
    change: Change
    lanes: bool
    outbox: bool

    def preview(self) -> Preview:
        """Count the waiting work."""
        found = self._move().find()
        entries, counts = found.preview, dict[str, dict[str, Any]]()
        if entries is not None:
            counts["kind in the outbox"] = {"entries": entries.count, **entries.kinds}
        if found.queued is not None:
            counts["lane, all messages"] = dict(found.queued)
        return Preview(
            title=self._title(),
            verb=self._verb(found),
            # Two buttons that say cancel would do opposite things.
            dismiss="Keep them" if self.change.action is Action.CANCEL else "Cancel",
            points=self._points(),
            counts=counts,
            sample=[row_of(entry) for entry in entries.sample] if entries else (),
            is_empty=found.is_nothing,
            is_final=self.change.action is Action.CANCEL,
        )

    def make(self, progress: Progress) -> dict[str, Any]:
        """Change entries and create an override."""
        move = self._move()
        # Counted again, since the preview may be fifteen minutes old.
        moved = move.make(move.find(), progress=progress.report)
        override = {} if moved.override is None else {"override": moved.override.id}
        return {"entries changed": moved.entries, **override}

    def _move(self) -> Move:
        operations = self.session.operations
        return Move(
            self.change,
            config=operations.deployment.config,
            outbox=self.session.outbox.operator() if self._has_entries else None,
            queues=operations if self.lanes else None,
        )

    @property
    def _has_entries(self) -> bool:
        # No entry belongs to a run.
        return self.outbox and self.change.wanted.run is None and self.session.has_outbox

    def _title(self) -> str:
        if self.change.action is Action.CANCEL:
            return "Cancel waiting work"
        lane = self.session.operations.deployment.config.lane_for(self.change.priority).name
        return f"Give waiting work priority {self.change.priority} (lane {lane})"

    def _verb(self, found: Found) -> str:
        if self.change.action is not Action.CANCEL:
            return "Prioritise"
        count = (found.preview.count if found.preview else 0) + sum((found.queued or {}).values())
        # A queue can't be searched, so its count is of all messages.
        at_most = "up to " if found.queued and not self.change.wanted.chooses_all else ""
        return f"Cancel {at_most}{count:,} message{'' if count == 1 else 's'}"

    def _points(self) -> list[str]:
        points = [f"Filter: {self.change.wanted.describe()}."]
        if self._has_entries:
            points.append(AT_ONCE)
        if self.lanes:
            points.append(LATER.format(days=self.change.lifetime.total_seconds() / 86_400))
        return [*points, FOR_GOOD if self.change.action is Action.CANCEL else FOLLOW]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """Withdraw an override."""

    session: Session
    override_id: str

    def preview(self) -> Preview:
        """Show the override."""
        found = self._override()
        return Preview(
            title=f"Withdraw override {self.override_id}",
            verb="Withdraw",
            points=("It changes no further messages. Changes already made stay.",),
            counts={
                "now": {
                    "action": found.action.value,
                    "filter": found.wanted.describe(),
                    "who": found.who,
                    "why": found.why or None,
                }
            },
        )

    def make(self, progress: Progress) -> dict[str, Any]:
        """Remove the override."""
        operations = self.session.operations
        progress.say("writing")
        details = {"override": self.override_id, "filter": self._override().wanted.to_dict()}
        with audited(operations.audit, "overrides withdraw", self.override_id, details=details):
            operations.overrides.withdraw(self.override_id)
        return {"withdrawn": self.override_id}

    def _override(self) -> Override:
        for override in self.session.operations.overrides.active().overrides:
            if override.id == self.override_id:
                return override
        raise ConfigurationError(
            [f"no override {self.override_id!r} is active; it may have been withdrawn already"],
            source="overrides",
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Retry abandoned and failed entries."""

    session: Session
    wanted: EntryFilter

    def preview(self) -> Preview:
        """Count the entries."""
        meant = retried_by(self.wanted)
        found = self.session.outbox.operator().preview(meant)
        return Preview(
            title=f"Retry {found.count} entr{'y' if found.count == 1 else 'ies'}",
            verb="Retry",
            points=(
                f"Filter: {meant.describe()}.",
                "Abandoned and failed entries become PENDING at once, with all their attempts. Cancelled ones stay so.",
            ),
            counts={"state": found.states, "kind": found.kinds, "lane": found.lanes},
            sample=[row_of(entry) for entry in found.sample],
            is_empty=not found.count,
        )

    def make(self, progress: Progress) -> dict[str, Any]:
        """Retry the entries; the operator writes the audit entry of the outbox."""
        operator = self.session.outbox.operator()
        return {"changed": operator.retry(retried_by(self.wanted), progress=progress.report)}
