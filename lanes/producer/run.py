"""A run from its sender's side: messages with its mark, and the seal at the end of a `with` block."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self

from lanes.errors import RunError
from lanes.message import Message, kind_problem
from lanes.producer.report import PartialSendError, SentMessage
from lanes.runs import MOST_IN_CHUNK, NAME, Ends, Head, Mark, State, place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from lanes.runs import RunTable

SEALING = 8
"""Chunks that are sealed at the same time: 5 ms each, one after the other a million members would take two minutes."""


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
        if not NAME.fullmatch(head.name):
            raise RunError(
                f"the name of the run is {head.name!r}; it must have 1 to 100 letters, digits and ._:- and begin with "
                "a letter or digit"
            )
        if head.on_complete and (problem := kind_problem(head.on_complete)):
            raise RunError(f"on_complete of the run {head.name!r}: {problem}")
        self.name = head.name
        self._producer = producer
        self._table = table
        self._wanted = head
        self._concurrency = concurrency
        self._mark: Mark | None = None
        self._members: dict[int, set[bytes]] = defaultdict(set)
        self._count = 0

    def __enter__(self) -> Self:
        head = self._table.open_run(self._wanted)
        if head.state not in (State.OPEN, State.SEALING):
            raise RunError(
                f"the run {self.name!r} is {head.state.value}; give another name for other messages"
            )
        # Of the first session, whatever this one expects: both must agree on the place of a member.
        self._mark = head.mark
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._seal()
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
        given = list(messages)
        self._check_room(len(given), self._mark)
        marked = [self._marked(message) for message in given]
        try:
            sent = self._producer.send_many(marked, run=self._mark.text, **options)
        except PartialSendError as error:
            failed = Counter(unsent.message.identity for unsent in error.failed)
            self._add(one for one, count in Counter(m.identity for m in given).items() if count > failed[one])
            raise
        self._add(message.identity for message in given)
        return sent

    def _check_room(self, more: int, mark: Mark) -> None:
        most = mark.chunks * MOST_IN_CHUNK
        if self._count + more > most:
            raise RunError(
                f"the run {self.name!r} would have {self._count + more:,} members, and with its `expected` it takes "
                f"{most:,}; expect more under another name"
            )

    def _marked(self, message: Message) -> Message:
        if not isinstance(message, Message):
            raise TypeError(f"send_many accepts Message(kind=..., data=...), not {type(message).__name__}")
        if message.deduplication_id is not None:
            raise RunError(
                f"message {message.id!r} has the deduplication_id {message.deduplication_id!r}: SQS might drop a "
                "member for it, and the run never end; leave it out"
            )
        # With the run's name: what another run, or no run, sent within five minutes must not drop a member.
        once = hashlib.sha256(f"{self.name}\0{message.identity}".encode("utf-8", "surrogatepass"))
        return dataclasses.replace(message, deduplication_id=once.hexdigest())

    def _add(self, identities: Iterable[str]) -> None:
        assert self._mark is not None  # noqa: S101 - checked before the messages were sent
        for identity in identities:
            index, fingerprint = place(identity, self._mark.chunks)
            found = self._members[index]
            self._count += fingerprint not in found
            found.add(fingerprint)

    def _seal(self) -> None:
        """Fix the members, then write them into each chunk. A seal that was cut short is finished by the next one."""
        mark = self._mark
        assert mark is not None  # noqa: S101 - the block has begun
        if not self._table.fix_members(self.name, total=self._count, members=self._digest()):
            head = self._table.head(self.name)
            state = f"{head.state.value}, with {head.total} members" if head else "gone"
            raise RunError(f"the run {self.name!r} can't be sealed with {self._count} members: it is {state}")
        ends = Ends(table=self._table, announce=lambda message: self._producer.send_many([message]))
        seal = partial(self._seal_chunk, mark, ends)
        if self._concurrency == 1:
            list(map(seal, range(mark.chunks)))
        else:
            with ThreadPoolExecutor(self._concurrency, thread_name_prefix="lanes-seal") as executor:
                list(executor.map(seal, range(mark.chunks)))
        self._table.sealed(self.name)

    def _seal_chunk(self, mark: Mark, ends: Ends, index: int) -> None:
        chunk = self._table.seal_chunk(mark, index, frozenset(self._members.get(index, ())))
        if chunk is None:
            raise RunError(f"the run {self.name!r} was sealed with other members in chunk {index}")
        ends.climb(mark, index, chunk)

    def _digest(self) -> str:
        """Return a digest of all members, whatever the order in which they were sent."""
        total = hashlib.sha256()
        for index in sorted(self._members):
            total.update(index.to_bytes(8, "big"))
            for fingerprint in sorted(self._members[index]):
                total.update(fingerprint)
        return total.hexdigest()
