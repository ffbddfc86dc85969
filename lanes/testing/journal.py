"""The journal of a test: messages and attempts, as the producer and the consumer report them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from lanes.events import Count, Event
from lanes.testing.entries import DeadLettered, Failed, Handled, Sent, message_of
from lanes.testing.silence import Silence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lanes.consumer.records import RawRecord
    from lanes.message import Message
    from lanes.testing.clock import FakeClock


class Journal(Silence):
    """
    Lists messages in the order of their events; it serves as the consumer's telemetry.

    `waiting` has the messages that are neither handled nor dead-lettered, by the message id of SQS.
    """

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._messages: dict[str, Message] = {}
        self.sent: list[Sent] = []
        self.handled: list[Handled] = []
        self.failed: list[Failed] = []
        self.dead_lettered: list[DeadLettered] = []
        self.waiting: dict[str, Sent] = {}
        self.yields: Counter[str] = Counter()
        self.problems: list[str] = []

    def note_sent(self, lane: str, body: str, *, group: str, message_id: str) -> None:
        """Add a message that a lane accepted, unless it is known."""
        if message_id in self._messages:
            return
        message = message_of(body, group=group, message_id=message_id)
        self._messages[message_id] = message
        sent = Sent(message=message, lane=lane, at=self._clock.time, message_id=message_id)
        self.sent.append(sent)
        self.waiting[message_id] = sent

    def note_decoded(self, record: RawRecord) -> None:
        """From now on, take a message as its decoder made it."""
        message_id = record.message_id
        self._messages[message_id] = message_of(record.body, group=record.group, message_id=message_id)

    def note_failed(self, message_id: str, *, lane: str, attempt: int, error: BaseException) -> None:
        """Add a failed attempt."""
        self.failed.append(
            Failed(
                message=self._messages[message_id],
                lane=lane,
                at=self._clock.time,
                attempt=attempt,
                error=error,
            )
        )

    def note_deleted(self, message_id: str) -> None:
        """Remove a message from `waiting`."""
        self.waiting.pop(message_id, None)

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        """Add a handled or dead-lettered message, or count a yield."""
        if name == Event.MESSAGE_HANDLED:
            self.handled.append(
                Handled(
                    message=self._messages[fields["message_id"]],
                    lane=fields["lane"],
                    at=self._clock.time,
                    attempt=fields["attempt"],
                    receive_count=fields["receive_count"],
                )
            )
        elif name == Event.MESSAGE_DEAD_LETTERED:
            self._note_dead_lettered(fields)
        elif Event(name).counts is Count.YIELDED:
            self.yields[fields["lane"]] += 1

    def problem(self, name: str, /, **fields: Any) -> None:  # noqa: ARG002
        """Add an error that the consumer handled by itself; failures of handlers are in `failed`."""
        if name != Event.HANDLER_FAILED:
            self.problems.append(name)

    def _note_dead_lettered(self, fields: Mapping[str, Any]) -> None:
        # The consumer took it out of its lane, even if its process is killed before it answers.
        self.note_deleted(fields["message_id"])
        self.dead_lettered.append(
            DeadLettered(
                message=self._messages[fields["message_id"]],
                lane=fields["lane"],
                at=self._clock.time,
                reason=fields["reason"],
                error=fields["error"],
                attempts=fields["attempts"],
                yields=fields["yields"],
                receives=fields["receive_count"],
            )
        )
