"""Redriving and deleting dead letters from the page."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, Any

from lanes.operate.audit import audited
from lanes.operate.dead_letter_records import row_of
from lanes.operate.dead_letters import look
from lanes.operate.redrive import DeadLetterRun
from lanes.ui.changes import Preview

if TYPE_CHECKING:
    from lanes.operate.dead_letters import DeadLetterFilter
    from lanes.operate.redrive_progress import RunProgress
    from lanes.ui.changes import Course
    from lanes.ui.desk import Desk

PREVIEWED = 1_000
SAMPLE = 10
MOST_LISTED = 20
REDRIVEN = (
    "They are sent to the lane again, each group in its order, behind what was sent meanwhile.",
    "Copies first and deletes afterwards: what is stopped loses nothing, and goes on when it is done again.",
)
DELETED = ("They are deleted for good.",)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterWork:
    """Dead letters of one lane to be sent again, or deleted."""

    desk: Desk
    lane: str
    wanted: DeadLetterFilter
    redrives: bool

    @property
    def verb(self) -> str:
        """The verb of the command."""
        return "redrive" if self.redrives else "delete"

    def preview(self) -> Preview:
        """Look at what is meant, and give it back."""
        found = look(self.desk.operations.dead_letters, self.lane, self.wanted, limit=PREVIEWED)
        count = len(found.letters)
        kinds = Counter(f"{letter.kind or 'no event'} · {letter.reason}" for letter in found.letters)
        behind = (
            f"About {found.beyond} more were not looked at, being behind the first ten of their group or held by "
            f"someone else; those of them that are meant are worked on too."
        )
        return Preview(
            title=f"{self.verb.capitalize()} {count} dead letter{'' if count == 1 else 's'} of {self.lane}",
            verb=self.verb.capitalize(),
            points=(*(REDRIVEN if self.redrives else DELETED), *((behind,) if found.beyond else ())),
            counts={"kind and reason": dict(kinds.most_common())},
            sample=[row_of(letter) for letter in found.letters[:SAMPLE]],
            is_empty=not found.letters,
            is_final=not self.redrives,
        )

    def make(self, course: Course) -> dict[str, Any]:
        """Work through the queue."""
        operations = self.desk.operations
        asked = {"filter": self.wanted.describe()}
        with audited(operations.audit, f"dead-letters {self.verb}", self.lane, details=asked) as noted:

            def report(progress: RunProgress) -> None:
                course.report(progress.done, progress.expected)

            run = DeadLetterRun(
                queues=operations.dead_letters,
                lane=self.lane,
                wanted=self.wanted,
                copies=self.redrives,
                holds=operations.holds,
                report=report,
                pause=course.pause,
            )
            try:
                run.run()
            finally:
                noted |= {"done": run.progress.done, "failed": len(run.progress.failed)}
        return _outcome(run.progress, "redriven" if self.redrives else "deleted")


def _outcome(progress: RunProgress, done: str) -> dict[str, Any]:
    stay = [f"{letter}: {why}" for letter, why in list(progress.failed.items())[:MOST_LISTED]]
    return {
        done: progress.done,
        "kept": progress.kept,
        "left": progress.left,
        **({"came back": progress.returned} if progress.returned else {}),
        **({"failed": len(progress.failed), "why": "; ".join(stay)} if stay else {}),
    }
