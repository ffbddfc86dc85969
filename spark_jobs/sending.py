"""What one task does: rows in, messages sent, counts out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from lanes.errors import RefusedMessagesError

from .rows import RowReader, RowRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lanes.message import Message
    from lanes.producer import SentMessage

    from .pace import SendPace

    Row = Mapping[str, Any]

# Enough to keep several calls of ten messages in flight, few enough to fit in memory at 1 MiB each.
MOST_AT_ONCE = 200


class Sender(Protocol):
    """The part of a producer that a task uses."""

    def send_many(self, messages: Iterable[Message]) -> list[SentMessage]:
        """Send messages, keeping the order of every group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingTask:
    """
    Sends the rows of one partition in their order.

    Attributes:
        partition: its number, for errors.
        reader: makes messages of rows.
        producer: sends them.
        pace: keeps to the rate.
    """

    partition: int
    reader: RowReader
    producer: Sender
    pace: SendPace

    def send(self, rows: Iterable[Row]) -> Counter[str]:
        """
        Send all rows.

        Returns:
            messages by lane.

        Raises:
            RowRefusedError: a row can't be a message; rows before it may have been sent.
            PartialSendError: messages could not be sent.
        """
        lanes: Counter[str] = Counter()
        started = self.pace.clock()
        source = iter(rows)
        while chunk := list(islice(source, self.pace.chunk(MOST_AT_ONCE))):
            lanes.update(sent.lane for sent in self._send_chunk(chunk, after=lanes.total()))
            self.pace.keep(started=started, sent=lanes.total())
        return lanes

    def _send_chunk(self, rows: list[Row], *, after: int) -> list[SentMessage]:
        try:
            return self.producer.send_many(list(self._messages(rows, after=after)))
        except RefusedMessagesError as error:
            index, _, reason = error.refusals[0]
            raise self._refused(rows[index], after + index + 1, reason) from error

    def _messages(self, rows: list[Row], *, after: int) -> Iterator[Message]:
        for position, row in enumerate(rows, start=after + 1):
            try:
                yield self.reader.message(row)
            except ValueError as error:
                raise self._refused(row, position, error) from error

    def _refused(self, row: Row, position: int, reason: Exception) -> RowRefusedError:
        return RowRefusedError(partition=self.partition, position=position, row=row, reason=str(reason))
