"""Pausing and resuming a lane from the page."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from lanes.operate.audit import audited
from lanes.operate.mappings import DISABLED, ENABLED, switch, the_mapping
from lanes.ui.changes import Preview

if TYPE_CHECKING:
    from lanes.ui.changes import Course
    from lanes.ui.desk import Desk

PAUSED = (
    "Nothing is taken out of the lane any more. Its messages stay in the queue, and new ones are accepted.",
    "Batches that run are finished. Lower lanes go on after about a second.",
    "A later deploy leaves the lane paused.",
)
RESUMED = ("Messages are taken out of the lane again, the oldest of each group first.",)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A lane to be paused or resumed."""

    desk: Desk
    lane: str
    enabled: bool

    @property
    def verb(self) -> str:
        """The verb of the command."""
        return "resume" if self.enabled else "pause"

    def preview(self) -> Preview:
        """Tell what waits in the lane and how its mapping stands."""
        operations = self.desk.operations
        mapping = the_mapping(operations.mappings, self.lane)
        depth = operations.depths.depth(self.lane)
        is_there = mapping.state == (ENABLED if self.enabled else DISABLED)
        points = RESUMED if self.enabled else PAUSED
        return Preview(
            title=f"{self.verb.capitalize()} {self.lane}",
            verb=self.verb.capitalize(),
            points=(f"{self.lane} is {mapping.state} already.",) if is_there else points,
            counts={
                "now": {"mapping": mapping.state, "waiting": depth.backlog, "in flight": depth.in_flight}
            },
            is_empty=is_there,
        )

    def make(self, course: Course) -> dict[str, Any]:
        """Switch the mapping and wait until that holds."""
        operations = self.desk.operations
        before = the_mapping(operations.mappings, self.lane)
        details = {"mapping": before.uuid, "before": before.state}
        with audited(operations.audit, self.verb, self.lane, details=details):
            after = switch(
                operations.mappings,
                self.lane,
                enabled=self.enabled,
                report=lambda state: course.say(f"{self.lane} is {state}"),
                pause=course.pause,
            )
        return {"lane": self.lane, "mapping": after.state, "before": before.state}
