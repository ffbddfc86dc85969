"""EventBridge Scheduler in memory, for messages with `not_before`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from lanes.message import RUN, Message
from lanes.producer.outgoing import SendEntry
from lanes.schedule_times import at_time

if TYPE_CHECKING:
    from lanes.testing.clock import FakeClock
    from lanes.testing.sender import MemorySender


class _Kept(NamedTuple):
    """A message, and the expression of its time."""

    expression: str
    queue_url: str
    entry: SendEntry

    @property
    def due(self) -> float:
        """When it is due, in epoch seconds."""
        return at_time(self.expression).timestamp()


class MemoryLater:
    """
    Keeps messages until they are due on the clock, and then puts them into their lanes.

    Args:
        sender: puts them into their lanes.
        clock: the time.

    """

    def __init__(self, sender: MemorySender, clock: FakeClock) -> None:
        self._sender = sender
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    def create(self, name: str, *, expression: str, target: str) -> str:
        """Keep a message; a second one of its name changes nothing."""
        call = json.loads(target)
        entry = SendEntry(
            entry_id="0",
            body=call["MessageBody"],
            message_group_id=call["MessageGroupId"],
            message_deduplication_id=call["MessageDeduplicationId"],
            run=call.get("MessageAttributes", {}).get(RUN, {}).get("StringValue", ""),
        )
        return self._kept.setdefault(name, _Kept(expression, call["QueueUrl"], entry)).expression

    def send_due(self) -> bool:
        """Put the messages that are due into their lanes; return whether there were any."""
        due = [name for name, one in self._kept.items() if one.due <= self._clock()]
        for name in sorted(due, key=lambda name: self._kept[name].due):
            kept = self._kept.pop(name)
            self._sender.send_batch(kept.queue_url, [kept.entry])
        return bool(due)

    def next_due(self) -> float | None:
        """Return when the next message is due, in epoch seconds; None if there is none."""
        return min((one.due for one in self._kept.values()), default=None)

    def messages(self) -> list[Message]:
        """Return the messages that are not due yet, the next one first."""
        kept = sorted(self._kept.values(), key=lambda one: one.due)
        return [Message.from_body(one.entry.body, group=one.entry.message_group_id) for one in kept]
