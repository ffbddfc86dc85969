"""Pause and resume a lane from the page."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from lanes.operate.history.audit import audited
from lanes.operate.lanes.mappings import DISABLED, ENABLED, others_stay, switch, the_mapping
from lanes.ui.changes.plans import Preview

if TYPE_CHECKING:
    from lanes.ui.changes.plans import Progress
    from lanes.ui.session import Session

PAUSED = (
    "The lane is no longer processed. Its messages stay in the queue, and new ones are accepted.",
    "Running batches finish. Lower lanes continue after about a second.",
    "A later deploy leaves the lane paused.",
)
PAUSED_IN_PULL = (
    "The lane is no longer processed. Its messages stay in the queue, and new ones are accepted.",
    "Slots stop receiving from it within about five seconds, and handle the messages that they have.",
    "A later deploy leaves the lane paused.",
)
RESUMED = ("The lane is processed again, the oldest message of each group first.",)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """Pause or resume a lane."""

    session: Session
    lane: str
    enabled: bool

    @property
    def verb(self) -> str:
        """The verb of the command."""
        return "resume" if self.enabled else "pause"

    def preview(self) -> Preview:
        """Show the backlog of the lane and whether it is processed."""
        operations = self.session.operations
        mapping = the_mapping(operations.mappings, self.lane)
        depth = operations.depths.depth(self.lane)
        # Another operator may have switched it since the page was read.
        is_there = mapping.state == (ENABLED if self.enabled else DISABLED)
        pulls = operations.deployment.bell is not None
        points = RESUMED if self.enabled else PAUSED_IN_PULL if pulls else PAUSED
        points = (f"{self.lane} is {mapping.state} already.",) if is_there else points
        return Preview(
            title=f"{self.verb.capitalize()} {self.lane}",
            verb=self.verb.capitalize(),
            points=(*points, *others_stay(operations.mappings, self.lane)),
            counts={
                "now": {"mapping": mapping.state, "waiting": depth.backlog, "in flight": depth.in_flight}
            },
            is_empty=is_there,
        )

    def make(self, progress: Progress) -> dict[str, Any]:
        """Switch the mapping and wait until it has switched."""
        operations = self.session.operations
        before = the_mapping(operations.mappings, self.lane)
        details = {"mapping": before.uuid, "before": before.state}
        with audited(operations.audit, self.verb, self.lane, details=details):
            after = switch(
                operations.mappings,
                self.lane,
                enabled=self.enabled,
                report=lambda state: progress.say(f"{self.lane} is {state}"),
                pause=progress.pause,
            )
        return {"lane": self.lane, "mapping": after.state, "before": before.state}
