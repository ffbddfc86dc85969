"""
The changes of the page; each has a preview that changes nothing.

Owns the word change (an action of an operator).
"""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from lanes.operate.dead_letters import list_dead_letters, row_of
from lanes.operate.move import Move, override_named, withdraw_override
from lanes.operate.pause import DISABLED, ENABLED, others_stay, switch, the_mapping
from lanes.operate.redrive import DeadLetterRun, Task
from lanes.outbox.operations import retried_by
from lanes.overrides import Action
from lanes.ui.fields import entry_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.operate.move import Change as Request
    from lanes.operate.move import Found
    from lanes.operate.redrive import RunProgress
    from lanes.outbox.operations import EntryFilter
    from lanes.ui.session import Session


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """
    The preview of a change.

    Attributes:
        title: the change in a few words, as a command.
        verb: text of the button that makes the change.
        dismiss: text of the button that does not.
        points: effects of the change, and advice.
        counts: tables of counts, by their criterion.
        sample: the first selected records; all have the same keys.
        is_empty: whether the change has no effect.
        is_final: whether it can't be undone.
    """

    title: str
    verb: str
    points: Sequence[str]
    counts: Mapping[str, Mapping[str, Any]]
    dismiss: str = "Cancel"
    sample: Sequence[Mapping[str, Any]] = ()
    is_empty: bool = False
    is_final: bool = False


class Stopped(KeyboardInterrupt):
    """The operator has stopped a change; as after Ctrl-C in a verb, the audit trail says interrupted."""


class Progress:
    """
    How far a change is; its thread reports, and others read it or stop it.

    Attributes:
        done: number of finished items.
        expected: number of items; None for unknown.
        said: the current step.
    """

    def __init__(self) -> None:
        self.done = 0
        self.expected: int | None = None
        self.said = ""
        self._stop = threading.Event()

    def report(self, done: int, expected: int | None = None) -> None:
        """Report the number of finished items; raises `Stopped` on request."""
        self.done, self.expected = done, expected if expected is not None else self.expected
        self._check()

    def say(self, text: str) -> None:
        """Report the current step."""
        self.said = text

    def pause(self, seconds: float) -> None:
        """Wait; raises `Stopped` on request."""
        self._stop.wait(seconds)
        self._check()

    def stop(self) -> None:
        """Request the end of the change; finished items stay."""
        self._stop.set()

    def _check(self) -> None:
        if self._stop.is_set():
            raise Stopped


class Change(Protocol):
    """An action of an operator; both methods raise `LanesError`."""

    def preview(self) -> Preview:
        """Preview the change without changing anything."""

    def make(self, progress: Progress) -> Mapping[str, Any]:
        """Make the change, with an entry in the audit trail, and return its results by name."""


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
        after = switch(
            operations.mappings,
            self.lane,
            enabled=self.enabled,
            audit=operations.audit,
            report=lambda state: progress.say(f"{self.lane} is {state}"),
            pause=progress.pause,
        )
        return {"lane": self.lane, "mapping": after.state, "before": before.state}


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
    task: Task

    def preview(self) -> Preview:
        """Count the dead letters; they are received and returned."""
        task = self.task
        found = list_dead_letters(
            self.session.operations.dead_letters, task.lane, task.wanted, limit=PREVIEWED
        )
        count, verb = len(found.letters), task.verb.capitalize()
        kinds = Counter(f"{letter.kind or 'no event'} · {letter.reason}" for letter in found.letters)
        behind = (
            f"About {found.beyond} more are not counted: they are behind the first ten of their group or hidden by "
            f"another reader. Those that match are included."
        )
        return Preview(
            title=f"{verb} {count} dead letter{'' if count == 1 else 's'} of {task.lane}",
            verb=verb,
            points=(*(COPIED if task.copies else DELETED), *((behind,) if found.beyond else ())),
            counts={"kind and reason": dict(kinds.most_common())},
            sample=[row_of(letter) for letter in found.letters[:SAMPLE]],
            is_empty=not found.letters,
            is_final=not task.copies,
        )

    def make(self, progress: Progress) -> dict[str, Any]:
        """Process the dead letters."""
        operations = self.session.operations
        run = DeadLetterRun(
            self.task,
            queues=operations.dead_letters,
            audit=operations.audit,
            report=lambda run: progress.report(run.done, run.expected),
            pause=progress.pause,
        )
        return _outcome(run.run(), "redriven" if self.task.copies else "deleted")


def _outcome(progress: RunProgress, done: str) -> dict[str, Any]:
    stay = [f"{letter}: {why}" for letter, why in list(progress.failed.items())[:MAX_LISTED]]
    return {
        done: progress.done,
        "kept": progress.kept,
        "left": progress.left,
        **({"came back": progress.returned} if progress.returned else {}),
        **({"failed": len(progress.failed), "why": "; ".join(stay)} if stay else {}),
    }


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
    change: Request
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
            sample=[entry_row(entry) for entry in entries.sample] if entries else (),
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
        found = override_named(self.session.operations.overrides, self.override_id)
        known = (
            {}
            if found is None
            else {
                "action": found.action.value,
                "filter": found.wanted.describe(),
                "who": found.who,
                "why": found.why or None,
            }
        )
        return Preview(
            title=f"Withdraw override {self.override_id}",
            verb="Withdraw",
            points=("It changes no further messages. Changes already made stay.",),
            counts={"now": known},
        )

    def make(self, progress: Progress) -> dict[str, Any]:
        """Remove the override."""
        progress.say("writing")
        withdraw_override(self.session.operations, self.override_id)
        return {"withdrawn": self.override_id}


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
            sample=[entry_row(entry) for entry in found.sample],
            is_empty=not found.count,
        )

    def make(self, progress: Progress) -> dict[str, Any]:
        """Retry the entries; the operator writes the audit entry of the outbox."""
        operator = self.session.outbox.operator()
        return {"changed": operator.retry(retried_by(self.wanted), progress=progress.report)}
