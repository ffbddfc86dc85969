"""
Move the messages of an existing queue to a lane: a redrive from a queue that is not the lane's dead-letter queue.

A run copies first and deletes afterwards, as `lanes.operate.dead_letters.redrive` does, which also keeps the order of
each group. The copy's deduplication id is made from the id of the message in its queue.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lanes.body import path_problem, text_at
from lanes.errors import ConfigurationError, MessageError
from lanes.holds import Holds
from lanes.message import SQS_ID, JsonText, Message, kind_problem, sqs_id
from lanes.operate.dead_letters.listing import DeadLetteredMessage, DeadLetterFilter
from lanes.priority import Priority

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.config import Lane, LanesConfig
    from lanes.holds import Hold

SOURCE = "lanes adopt"
ADOPTED = "adopted-"
"""Beginning of a copy's deduplication id, before the message's id in its queue."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SourceQueue:
    """
    The queue from which messages are moved; the counts are approximate.

    Attributes:
        delayed: messages that no reader gets before their delay ends, within 15 minutes.
        max_receive_count: receives after which SQS moves a message to the queue's dead-letter queue; None without one.

    """

    name: str
    url: str
    arn: str
    is_fifo: bool
    waiting: int
    in_flight: int
    delayed: int = 0
    max_receive_count: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedMessage(DeadLetteredMessage):
    """
    A message of the queue, as the lane gets it; without a group it stays.

    Attributes:
        problem: why it can't be sent, or has no group; empty if it can.

    """

    problem: str = ""

    @property
    def letter_id(self) -> str:
        """The id by which it is copied once: that in its queue, whatever a note of other lanes says."""
        return self.message_id

    def copied_as(self, opening: str) -> str:  # noqa: ARG002 - no group is opened for it
        """Return the deduplication id of its copy."""
        return f"{ADOPTED}{self.message_id}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Grouped(DeadLetterFilter):
    """Selects the messages that have a group."""

    def matches(self, letter: DeadLetteredMessage) -> bool:
        """Whether a message has a group."""
        return letter.group != ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """
    How messages of a queue become messages of a lane.

    Attributes:
        group: the group of each message; None for that of the message in a FIFO queue.
        group_by: the place of the group in a JSON body, a path of `text_at`.
        kind: with it each body becomes the data of a message of this kind; without it bodies are sent as they are.
        priority: of such a message.

    """

    group: str | None = None
    group_by: str | None = None
    kind: str | None = None
    priority: int = Priority.NORMAL

    def checked(self, source: SourceQueue) -> Adoption:
        """
        Return this, if it fits the queue.

        Raises:
            ConfigurationError: it does not.
        """
        problems = []
        given = [
            name
            for name, value in (("--group", self.group), ("--group-by", self.group_by))
            if value is not None
        ]
        if source.is_fifo and given:
            problems.append(
                f"{source.name} is a FIFO queue: its messages keep their groups; leave out {given[0]}"
            )
        elif not source.is_fifo and len(given) != 1:
            problems.append(
                f"{source.name} is a standard queue, and a message of a lane needs a group: give --group-by PATH, such "
                "as customer.id in a JSON body, or one --group NAME for all"
            )
        if self.group is not None and not SQS_ID.fullmatch(self.group):
            problems.append(
                f"--group is {self.group!r}; it must have 1 to 128 letters, digits and ASCII punctuation marks"
            )
        if self.group_by is not None and (problem := path_problem(self.group_by)):
            problems.append(f"--group-by: {problem}")
        if self.kind is not None and (problem := kind_problem(self.kind)):
            problems.append(problem)
        if problems:
            raise ConfigurationError(problems, source="lanes adopt")
        return self

    def adopted(self, letter: DeadLetteredMessage) -> AdoptedMessage:
        """Return a message of the queue as the lane gets it."""
        group, problem = letter.group, ""
        body = letter.body
        try:
            if self.group is not None:
                group = self.group
            elif self.group_by is not None:
                found = text_at(body, self.group_by)
                group = "" if found is None else sqs_id(found)
                problem = "" if found else f"its body has no text and no whole number at {self.group_by}"
            if self.kind is not None:
                body = self._wrapped(letter)
        except MessageError as error:
            problem = str(error)
        fields = {field.name: getattr(letter, field.name) for field in dataclasses.fields(letter)}
        return AdoptedMessage(**fields | {"group": group, "body": body, "problem": problem})

    def _wrapped(self, letter: DeadLetteredMessage) -> str:
        try:
            data: str = JsonText(letter.body).checked()
        except ValueError:
            data = letter.body
        return Message(
            kind=self.kind or "",
            data=data,
            id=letter.message_id,
            source=SOURCE,
            priority=self.priority,
            time=datetime.fromtimestamp(letter.sent_at, UTC),
        ).to_body()


def priority_in(config: LanesConfig, lane: Lane) -> int:
    """Return the priority of a lane that is closest to NORMAL."""
    lowest = Priority.NORMAL if lane.threshold is None else max(lane.threshold, Priority.NORMAL)
    highest = config.highest_priority(lane)
    return int(lowest if highest is None else min(lowest, highest))


class NoHolds:
    """Holds of no group: a message that is new in its lane is behind no dead letter."""

    def read(self, lane: str, groups: Sequence[str]) -> Mapping[str, Hold]:  # noqa: ARG002
        """Return none."""
        return {}

    def held(self, lane: str | None = None) -> Sequence[Hold]:  # noqa: ARG002
        """Return none."""
        return ()

    def write(self, before: Hold | None, after: Hold) -> bool:  # noqa: ARG002
        """Refuse: there is nothing to change."""
        return False


NO_HOLDS = Holds(NoHolds())
