"""A standard queue with the features that the first experiments need: no order, no groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.testing.fifo.message import QueueCounts
from lanes.testing.fifo.queue import FifoQueue

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from random import Random

    from lanes.testing.fifo.message import ReceivedMessage, SentMessage
    from lanes.testing.fifo.settings import FifoSettings

SERVERS = 8


class StandardQueue(FifoQueue):
    """
    Messages spread over servers, which are read in random order.

    AWS: a standard queue keeps messages on several servers and delivers them in "best-effort ordering" (SQS developer
    guide, "Standard queues"). Here each server is a queue in which each message is its own group.
    """

    def __init__(
        self, clock: Callable[[], float], *, name: str, settings: FifoSettings, chance: Random
    ) -> None:
        super().__init__(clock, name=name, settings=settings)
        self._chance = chance
        self._servers = [
            FifoQueue(clock, name=name, settings=settings, handle_prefix=f"{name}.{place}.")
            for place in range(SERVERS)
        ]

    def send(
        self,
        body: str,
        *,
        group: str,
        deduplication_id: str | None = None,
        attributes: object = None,  # noqa: ARG002
    ) -> SentMessage:
        """Accept a message on one of the servers; other messages of its group do not block it."""
        server = self._chance.choice(self._servers)
        return server.send(
            body, group=str(deduplication_id), deduplication_id=deduplication_id, attributes=group
        )

    def receive(
        self, maximum: int = 1, *, visibility_timeout: timedelta | None = None
    ) -> list[ReceivedMessage]:
        """Take messages from the servers in random order."""
        received: list[ReceivedMessage] = []
        for server in self._chance.sample(self._servers, SERVERS):
            if len(received) < maximum:
                received += server.receive(maximum - len(received), visibility_timeout=visibility_timeout)
        return [message._replace(group=str(message.attributes)) for message in received]

    def delete(self, receipt_handle: str) -> None:
        """Delete a received message."""
        self._server(receipt_handle).delete(receipt_handle)

    def change_visibility(self, receipt_handle: str, visibility_timeout: timedelta) -> None:
        """Set the time until a message becomes visible."""
        self._server(receipt_handle).change_visibility(receipt_handle, visibility_timeout)

    def counts(self) -> QueueCounts:
        """Return the exact numbers of messages."""
        return QueueCounts(*map(sum, zip(*(server.counts() for server in self._servers), strict=True)))

    def blocked(self) -> int:
        """Return 0: no message blocks another."""
        return 0

    def bodies(self) -> list[str]:
        """Return the bodies of all messages."""
        return [body for server in self._servers for body in server.bodies()]

    def is_receivable(self) -> bool:
        """Whether any server has a visible message."""
        return any(server.is_receivable() for server in self._servers)

    def next_event_at(self) -> float | None:
        """Return when a message becomes visible by itself."""
        moments = [server.next_event_at() for server in self._servers]
        return min((at for at in moments if at is not None), default=None)

    def _server(self, receipt_handle: str) -> FifoQueue:
        return self._servers[int(receipt_handle.split(".")[1])]
