"""The journal of a test: everything that was sent and what became of it, told by the producer and the consumer."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from lanes.testing.happenings import DeadLettered, Failed, Handled, Sent, message_of

if TYPE_CHECKING:
    from lanes.message import Message
    from lanes.testing.clock import FakeClock


class Journal:
    """
    Remembers messages in the order in which things happened to them; it serves as the consumer's telemetry.

    `waiting` holds what was sent and is neither done nor given up, by the message id of SQS.
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
        """Remember a message that a lane took in, unless it is known."""
        if message_id in self._messages:
            return
        message = message_of(body, group=group, message_id=message_id)
        self._messages[message_id] = message
        sent = Sent(message=message, lane=lane, at=self._clock.time, message_id=message_id)
        self.sent.append(sent)
        self.waiting[message_id] = sent

    def note_failed(self, message_id: str, *, lane: str, attempt: int, error: BaseException) -> None:
        """Remember what a handler raised."""
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
        """Forget that a message waits."""
        self.waiting.pop(message_id, None)

    def begin(self, lane: str, context: Any) -> None:
        """Do nothing."""

    def event(self, name: str, /, **fields: Any) -> None:
        """Remember what became of a message."""
        if name == "message_handled":
            self.handled.append(
                Handled(
                    message=self._messages[fields["message_id"]],
                    lane=fields["lane"],
                    at=self._clock.time,
                    attempt=fields["attempt"],
                    receive_count=fields["receive_count"],
                )
            )
        elif name == "message_dead_lettered":
            self._note_dead_lettered(fields)
        elif name == "batch_yielded":
            self.yields[fields["lane"]] += 1

    def problem(self, name: str, /, **fields: Any) -> None:  # noqa: ARG002
        """Remember what the consumer met and lived with; failures of handlers stand under `failed`."""
        if name != "handler_failed":
            self.problems.append(name)

    def count(self, metric: str, value: float = 1) -> None:
        """Do nothing."""

    def milliseconds(self, metric: str, value: float) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""

    def _note_dead_lettered(self, fields: dict[str, Any]) -> None:
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
