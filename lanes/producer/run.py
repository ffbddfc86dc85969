"""A run from its sender's side: messages with its mark, and the seal at the end of a `with` block."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol, Self

from lanes.errors import RunError
from lanes.message import Message
from lanes.producer.outgoing import check_messages
from lanes.producer.report import PartialSendError, SentMessage
from lanes.producer.seal import SEALING, MemberSet, check_head, open_run, seal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from lanes.runs import Head, Mark, RunTable


class Sender(Protocol):
    """A producer."""

    source: str

    @property
    def send_many(self) -> Callable[..., list[SentMessage]]:
        """Sends messages, with the mark of a `run`."""


class Run:
    """
    Sends the members of one run; use it in a `with` block of `Producer.run`.

    Attributes:
        name: its name.
    """

    def __init__(self, *, producer: Sender, table: RunTable, head: Head, concurrency: int = SEALING) -> None:
        check_head(head)
        self.name = head.name
        self._producer = producer
        self._table = table
        self._wanted = head
        self._concurrency = concurrency
        self._mark: Mark | None = None
        self._members = MemberSet(head.chunks)

    def __enter__(self) -> Self:
        # Of the first session, whatever this one expects: both must agree on the place of a member.
        self._mark = open_run(self._table, self._wanted)
        self._members = MemberSet(self._mark.chunks)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._mark is not None:
            seal(
                self._table,
                self._mark,
                self._members,
                announce=lambda message: self._producer.send_many([message]),
                concurrency=self._concurrency,
            )
        self._mark = None

    def send(self, kind: str, data: Any, *, id: str, **fields: Any) -> SentMessage:  # noqa: A002 - as in `Producer.send`
        """Send one member; `fields` are those of `Message`, such as its group."""
        given = {"source": self._producer.source, **fields}
        return self.send_many([Message(kind=kind, data=data, id=id, **given)])[0]

    def send_many(self, messages: Iterable[Message], **options: Any) -> list[SentMessage]:
        """
        Send members as `Producer.send_many` does. A message that is sent twice is one member.

        Give each message an id that you can derive again, so that a block that is run again names the same members.

        Raises:
            RunError: it is not in a `with` block, or the run would have far more members than expected.
            PartialSendError: as of `Producer.send_many`; the messages that were not sent are no members yet.
        """
        if self._mark is None:
            raise RunError(
                f"the run {self.name!r} is not open; send in the block of `with producer.run(...) as run`"
            )
        check_messages(messages)
        given, mark = list(messages), self._mark
        mark.check_room(len(self._members) + len(given))
        marked = [_marked(message, mark) for message in given]
        try:
            sent = self._producer.send_many(marked, run=mark.text, **options)
        except PartialSendError as error:
            failed = Counter(unsent.message.identity for unsent in error.failed)
            counts = Counter(m.identity for m in given).items()
            self._members.add(one for one, count in counts if count > failed[one])
            raise
        self._members.add(message.identity for message in given)
        return sent


def _marked(message: Message, mark: Mark) -> Message:
    if not isinstance(message, Message):
        raise TypeError(f"send_many accepts Message(kind=..., data=...), not {type(message).__name__}")
    if message.deduplication_id is not None:
        raise RunError(
            f"message {message.id!r} has the deduplication_id {message.deduplication_id!r}: SQS might drop a "
            "member for it, and the run never end; leave it out"
        )
    return dataclasses.replace(message, deduplication_id=mark.once(message.identity))
