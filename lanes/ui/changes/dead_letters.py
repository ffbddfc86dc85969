"""Redrive and delete dead letters from the page."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, Any

from lanes.operate.dead_letters.listing import list_dead_letters
from lanes.operate.dead_letters.redrive import DeadLetterRun, Task
from lanes.operate.dead_letters.rows import row_of
from lanes.operate.history.audit import audited
from lanes.ui.changes.plans import Preview

if TYPE_CHECKING:
    from lanes.operate.dead_letters.listing import DeadLetterFilter
    from lanes.operate.dead_letters.redrive import RunProgress
    from lanes.ui.changes.plans import Progress
    from lanes.ui.session import Session

# A preview receives: a thousand messages are a hundred calls, some seconds.
PREVIEWED = 1_000
# Ten rows fit the dialog.
SAMPLE = 10
MAX_LISTED = 20
COPIED = (
    "They are sent to the lane again, each group in its order, after newer messages of the group.",
    "Each one is copied, then deleted: a stopped redrive loses nothing, and a repeated one continues.",
)
DELETED = ("They are deleted for good.",)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterWork:
    """Redrive or delete dead letters of one lane."""

    session: Session
    lane: str
    wanted: DeadLetterFilter
    redrives: bool

    @property
    def verb(self) -> str:
        """The verb of the command."""
        return "redrive" if self.redrives else "delete"

    def preview(self) -> Preview:
        """Count the dead letters; they are received and returned."""
        found = list_dead_letters(
            self.session.operations.dead_letters, self.lane, self.wanted, limit=PREVIEWED
        )
        count = len(found.letters)
        kinds = Counter(f"{letter.kind or 'no event'} · {letter.reason}" for letter in found.letters)
        behind = (
            f"About {found.beyond} more are not counted: they are behind the first ten of their group or hidden by "
            f"another reader. Those that match are included."
        )
        return Preview(
            title=f"{self.verb.capitalize()} {count} dead letter{'' if count == 1 else 's'} of {self.lane}",
            verb=self.verb.capitalize(),
            points=(*(COPIED if self.redrives else DELETED), *((behind,) if found.beyond else ())),
            counts={"kind and reason": dict(kinds.most_common())},
            sample=[row_of(letter) for letter in found.letters[:SAMPLE]],
            is_empty=not found.letters,
            is_final=not self.redrives,
        )

    def make(self, progress: Progress) -> dict[str, Any]:
        """Process the dead letters."""
        operations = self.session.operations
        asked = {"filter": self.wanted.describe()}
        with audited(operations.audit, f"dead-letters {self.verb}", self.lane, details=asked) as entry:

            def report(run: RunProgress) -> None:
                progress.report(run.done, run.expected)

            run = DeadLetterRun(
                Task(lane=self.lane, wanted=self.wanted, copies=self.redrives),
                queues=operations.dead_letters,
                report=report,
                pause=progress.pause,
            )
            try:
                run.run()
            finally:
                # Also after a stop or an error: the audit trail counts the dead letters that are done.
                entry |= {"done": run.progress.done, "failed": len(run.progress.failed)}
        return _outcome(run.progress, "redriven" if self.redrives else "deleted")


def _outcome(progress: RunProgress, done: str) -> dict[str, Any]:
    stay = [f"{letter}: {why}" for letter, why in list(progress.failed.items())[:MAX_LISTED]]
    return {
        done: progress.done,
        "kept": progress.kept,
        "left": progress.left,
        **({"came back": progress.returned} if progress.returned else {}),
        **({"failed": len(progress.failed), "why": "; ".join(stay)} if stay else {}),
    }
