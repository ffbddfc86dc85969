"""Retry entries of the outbox from the page."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from lanes.outbox.operations import retried_by
from lanes.ui.api.entries import row_of
from lanes.ui.changes.plans import Preview

if TYPE_CHECKING:
    from lanes.outbox.filter import EntryFilter
    from lanes.ui.changes.plans import Progress
    from lanes.ui.session import Session


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
