"""Prioritising, cancelling and retrying entries of an outbox from the page."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from lanes.outbox.entry import WAITING, EntryState
from lanes.ui.changes import Preview
from lanes.ui.outbox_documents import row_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.outbox.filter import EntryFilter
    from lanes.ui.changes import Course
    from lanes.ui.desk import Desk

PRIORITIZE, CANCEL, RETRY = "prioritize", "cancel", "retry"
POINTS = {
    PRIORITIZE: "Entries that a relay sends at this moment stay as they are.",
    CANCEL: "They become ABANDONED and are never sent; `retry` brings them back while they are kept.",
    RETRY: "Abandoned and failed entries become PENDING at once, with all their attempts.",
}
STATES = {
    PRIORITIZE: WAITING,
    CANCEL: WAITING,
    RETRY: frozenset({EntryState.ABANDONED, EntryState.FAILED}),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EntryChange:
    """Entries to be changed; `priority` is the new one where they are prioritised."""

    desk: Desk
    action: str
    wanted: EntryFilter
    priority: int = 0

    @property
    def meant(self) -> EntryFilter:
        """The filter for the states in which this can be done."""
        return self.wanted.only(STATES[self.action])

    def preview(self) -> Preview:
        """Count what is meant."""
        outbox = self.desk.outbox
        found = outbox.operator().preview(self.meant)
        lane = outbox.config.lane_for(self.priority).name
        to = f" to {self.priority} (lane {lane})" if self.action == PRIORITIZE else ""
        what = f"{found.count} entr{'y' if found.count == 1 else 'ies'}"
        spread = {"lowest": found.lowest, "highest": found.highest}
        return Preview(
            title=f"{self.action.capitalize()} {what}{to}",
            verb=self.action.capitalize(),
            points=(f"Meant are: {self.meant.words()}.", POINTS[self.action]),
            counts={"kind": found.kinds, "lane": found.lanes, "priority": spread},
            sample=[row_of(entry) for entry in found.sample],
            is_empty=not found.count,
        )

    def make(self, course: Course) -> dict[str, Any]:
        """Change the entries; the operator writes the outbox's audit entry."""
        operator = self.desk.outbox.operator()
        progress: Callable[[int], None] = course.report
        if self.action == PRIORITIZE:
            changed = operator.prioritize(self.meant, self.priority, progress=progress)
        elif self.action == CANCEL:
            changed = operator.cancel(self.meant, progress=progress)
        else:
            changed = operator.retry(self.meant, progress=progress)
        return {"changed": changed}
