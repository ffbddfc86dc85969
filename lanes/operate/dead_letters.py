"""
Dead letters as an operator sees them: reading, choosing and listing them.

Owns the words dead letter (one message in a dead-letter queue) and filter. Looking at a queue means receiving from it:
SQS has no other way. A listing hides what it looks at for seconds and gives it back, which leaves order and number as
they are and raises receive counts, that mean nothing in a dead-letter queue.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lanes.consumer.yielding import LaneDepth

LARGEST_RECEIVE = 10
HOLD = timedelta(seconds=60)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetteredMessage:
    """
    One message in a dead-letter queue. Times are epoch seconds.

    Attributes:
        lane: whose dead-letter queue holds it.
        message_id: id of the dead letter; the original had another one.
        attributes: message attributes as SQS gave them, the note left out.
        note: what the consumer noted; empty where SQS moved the message by itself.

    """

    lane: str
    message_id: str
    receipt_handle: str
    body: str
    group: str
    sent_at: float
    receive_count: int
    attributes: Mapping[str, Any]
    note: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """The kind, empty where the body is no CloudEvent."""
        return self._event("type")

    @property
    def event_id(self) -> str:
        """The id of the message, empty where the body is no CloudEvent."""
        return self._event("id")

    @property
    def reason(self) -> str:
        """Why it was given up."""
        return str(self.note.get("reason", "")) if self.note else "moved by SQS after too many receives"

    @property
    def error(self) -> str:
        """What the last attempt raised."""
        return str(self.note.get("error", ""))

    @property
    def dead_at(self) -> float:
        """When it was dead-lettered, as far as that is known: SQS keeps the time of sending where it moves itself."""
        return float(self.note.get("dead_lettered_at", self.sent_at))

    @property
    def sent_as(self) -> str:
        """The deduplication id with which it was sent to its lane, empty where that was not noted."""
        return str(self.note.get("deduplication_id") or "")

    def is_called(self, name: str) -> bool:
        """Whether a name is the dead letter's id, the original's, or the message's own."""
        return name in (self.message_id, self.note.get("message_id"), self.event_id)

    def _event(self, key: str) -> str:
        try:
            event = json.loads(self.body)
        except (ValueError, RecursionError):
            return ""
        value = event.get(key) if isinstance(event, dict) else None
        return value if isinstance(value, str) else ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """
    Which dead letters are meant; what is not set chooses all.

    Attributes:
        kind: of the message; `*` and `?` stand for any characters.
        group: of the message, exactly.
        reason: text within reason or error, in small or capital letters.
        since: dead-lettered at this time or later, epoch seconds.
        until: dead-lettered before this time.
        ids: ids of dead letters, originals or messages.

    """

    kind: str | None = None
    group: str | None = None
    reason: str | None = None
    since: float | None = None
    until: float | None = None
    ids: Sequence[str] = ()

    @property
    def chooses_all(self) -> bool:
        """Whether nothing is left out."""
        return not self.describe()

    def matches(self, letter: DeadLetteredMessage) -> bool:
        """Tell whether a dead letter is meant."""
        return (
            (self.kind is None or fnmatch.fnmatchcase(letter.kind, self.kind))
            and (self.group is None or letter.group == self.group)
            and (self.reason is None or self._gives_reason(letter, self.reason))
            and (self.since is None or letter.dead_at >= self.since)
            and (self.until is None or letter.dead_at < self.until)
            and (not self.ids or any(letter.is_called(name) for name in self.ids))
        )

    def describe(self) -> dict[str, Any]:
        """Give what is set, for people and the audit trail."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value not in (None, ())}

    @staticmethod
    def _gives_reason(letter: DeadLetteredMessage, text: str) -> bool:
        return text.casefold() in f"{letter.reason}\n{letter.error}".casefold()


class DeadLetterQueues(Protocol):
    """The dead-letter queues of the lanes; every method raises `AwsError`."""

    def dead_letters(self, lane: str) -> LaneDepth:
        """Return the counts of a lane's dead-letter queue."""

    def receive(self, lane: str, *, limit: int, hold: timedelta) -> list[DeadLetteredMessage]:
        """Receive up to ten, hidden for a time; nothing of a group of which something is hidden."""

    def give_back(self, letters: Sequence[DeadLetteredMessage]) -> None:
        """Make dead letters visible; those that are so already are left alone."""

    def copy(self, letters: Sequence[DeadLetteredMessage]) -> Mapping[str, str]:
        """
        Send copies to the lane, at most one of a group, with a deduplication id made from the dead letter's id.

        Returns:
            Why some could not be sent, by the dead letter's id.
        """

    def delete(self, letters: Sequence[DeadLetteredMessage]) -> Mapping[str, str]:
        """Delete dead letters; return why some could not be, by their ids."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Listing:
    """
    What a look at a dead-letter queue found.

    Attributes:
        letters: those that were meant, in the order in which SQS gave them: each group in its own order.
        looked_at: how many were received.
        beyond: about how many were not: behind ten of their group, held by someone else, or beyond the limit.

    """

    letters: list[DeadLetteredMessage]
    looked_at: int
    beyond: int


def look(
    queues: DeadLetterQueues,
    lane: str,
    wanted: DeadLetterFilter,
    *,
    limit: int,
    hold: timedelta = HOLD,
) -> Listing:
    """
    Look through a lane's dead-letter queue, until so many of those that are meant were found, and give all back.

    AWS: no message of a group is delivered while another of it is in flight (SQS developer guide, FIFO delivery
    logic), so that at most ten of a group can be seen at once.
    """
    seen: dict[str, DeadLetteredMessage] = {}
    found: list[DeadLetteredMessage] = []
    try:
        for letters in _rounds(queues, lane, hold, seen):
            found += [letter for letter in letters if wanted.matches(letter)]
            if len(found) >= limit:
                break
        depth = queues.dead_letters(lane)
    finally:
        queues.give_back(list(seen.values()))
    return Listing(
        letters=found[:limit],
        looked_at=len(seen),
        beyond=max(0, depth.backlog + depth.in_flight - len(seen)),
    )


def _rounds(
    queues: DeadLetterQueues, lane: str, hold: timedelta, seen: dict[str, DeadLetteredMessage]
) -> Iterator[list[DeadLetteredMessage]]:
    """Receive until nothing new comes, then once more each group that the end of a receive may have cut."""
    cut: list[str] = []
    while True:
        letters = queues.receive(lane, limit=LARGEST_RECEIVE, hold=hold)
        new = [letter for letter in letters if letter.message_id not in seen]
        seen.update({letter.message_id: letter for letter in letters})
        if new:
            cut += [letters[-1].group] if len(letters) == LARGEST_RECEIVE else []
            yield new
        elif cut:
            group = cut.pop()
            queues.give_back([letter for letter in seen.values() if letter.group == group])
        else:
            return
