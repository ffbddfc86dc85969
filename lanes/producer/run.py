"""A run from its sender's side: messages with its mark, and the seal at the end of a `with` block."""

from __future__ import annotations

import dataclasses
import hashlib
import random
import secrets
import threading
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import count, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from lanes.errors import AwsError, RunError
from lanes.message import Message, kind_problem
from lanes.producer.outgoing import PartialSendError, SentMessage, check_messages
from lanes.retries import RetryPolicy
from lanes.runs import KEY_BYTES, NAME, Ends, place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from lanes.runs import Head, Mark, RunTable

T = TypeVar("T")

SEALING = 8
"""Chunks that are sealed at the same time: 5 ms each, one after the other a million members would take two minutes."""

DIGESTS = 1 << 256
"""Number of digests of members."""


class Members(Protocol):
    """The members of a run."""

    def __len__(self) -> int:
        """Return their number."""

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Return chunk and fingerprint of each, in this order."""


class MemberSet:
    """Members in memory."""

    def __init__(self, chunks: int) -> None:
        self._chunks = chunks
        self._found: dict[int, set[bytes]] = defaultdict(set)
        self._count = 0

    def add(self, identities: Iterable[str]) -> None:
        """Add members by their identities; one that is added twice is one."""
        for identity in identities:
            index, fingerprint = place(identity, self._chunks)
            known = self._found[index]
            self._count += fingerprint not in known
            known.add(fingerprint)

    def __len__(self) -> int:
        """Return their number."""
        return self._count

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Return chunk and fingerprint of each, in this order."""
        return ((index, one) for index in sorted(self._found) for one in sorted(self._found[index]))


def check_head(head: Head) -> None:
    """
    Check the name of a run and the kind of the message of its end.

    Raises:
        RunError: one of them is wrong.
    """
    if not isinstance(head.name, str) or not NAME.fullmatch(head.name):
        raise RunError(
            f"the name of the run is {head.name!r}; it must have 1 to 100 letters, digits and ._:- and begin with "
            "a letter or digit"
        )
    if head.on_complete and (problem := kind_problem(head.on_complete)):
        raise RunError(f"on_complete of the run {head.name!r}: {problem}")


def open_run(table: RunTable, wanted: Head) -> Mark:
    """
    Open a run, or find it open, and return the mark of its messages: that of its first session.

    Raises:
        RunError: it is sealed or closed.
        AwsError: a call failed.
    """
    head = table.open_run(dataclasses.replace(wanted, key=secrets.token_hex(KEY_BYTES)))
    # A run may end while it is sealed: its sender finishes the seal.
    if head.sealed_at or head.closed_at:
        raise RunError(f"the run {head.name!r} is {head.state.value}; give another name for other messages")
    return head.mark


def seal(
    table: RunTable,
    mark: Mark,
    members: Members,
    *,
    announce: Callable[[Message], object],
    concurrency: int = SEALING,
    pause: Callable[[float], object] | None = None,
) -> None:
    """
    Fix the members, then write them into each chunk. A seal that was cut short is finished by the next one.

    Args:
        table: the items of runs.
        mark: the mark of the run.
        members: its members.
        announce: sends the message of its end, if all members have ended.
        concurrency: maximum number of chunks that are written at the same time.
        pause: waits so many seconds between the tries of a call that may succeed later; None for one try.

    Raises:
        RunError: the run has other members, too many, or was closed.
        AwsError: a call failed.
    """
    total = len(members)
    mark.check_room(total)
    text = f"{digest(members):064x}"
    if not _tried(pause, lambda: table.fix_members(mark.name, total=total, members=text)):
        head = _tried(pause, lambda: table.head(mark.name))
        state = f"{head.state.value}, with {head.total} members" if head else "gone"
        raise RunError(f"the run {mark.name!r} can't be sealed with {total} members: it is {state}")
    chunks = chunks_of(members, range(mark.chunks))
    seal_chunks(table, mark, chunks, announce=announce, concurrency=concurrency, pause=pause)
    _tried(pause, lambda: table.sealed(mark.name))


def seal_chunks(
    table: RunTable,
    mark: Mark,
    chunks: Iterable[tuple[int, frozenset[bytes]]],
    *,
    announce: Callable[[Message], object],
    concurrency: int = SEALING,
    pause: Callable[[float], object] | None = None,
) -> None:
    """
    Write the members into chunks of a run whose members are fixed; repeat it as you like, and with other chunks beside.

    Args:
        table: the items of runs.
        mark: the mark of the run.
        chunks: index and members of each; they are taken one after the other, by several threads.
        announce: as in `seal`.
        concurrency: as in `seal`.
        pause: as in `seal`.

    Raises:
        RunError: a chunk has other members.
        AwsError: a call failed.
    """
    ends = Ends(table=table, announce=announce)

    def seal_chunk(index: int, members: frozenset[bytes]) -> None:
        _tried(pause, lambda: _seal_chunk(table, mark, ends, index, members))

    if concurrency == 1:
        for chunk in chunks:
            seal_chunk(*chunk)
    else:
        _in_threads(seal_chunk, chunks, concurrency)


def chunks_of(members: Iterable[tuple[int, bytes]], indexes: range) -> Iterator[tuple[int, frozenset[bytes]]]:
    """Return the members of each of the chunks, from all of theirs in this order; one without any has none."""
    found = groupby(members, key=itemgetter(0))
    index, mine = next(found, (None, ()))
    for chunk in indexes:
        if chunk == index:
            yield chunk, frozenset(fingerprint for _, fingerprint in mine)
            index, mine = next(found, (None, ()))
        else:
            yield chunk, frozenset()


def digest(members: Iterable[tuple[int, bytes]]) -> int:
    """
    Return a digest of members in the order of chunk and fingerprint.

    That of all chunks is the sum of those of its parts modulo `DIGESTS`, whoever has computed them.
    """
    total = 0
    for index, mine in groupby(members, key=itemgetter(0)):
        text = index.to_bytes(8, "big") + b"".join(fingerprint for _, fingerprint in mine)
        total += int.from_bytes(hashlib.sha256(text).digest(), "big")
    return total % DIGESTS


def _in_threads(
    seal_chunk: Callable[[int, frozenset[bytes]], None],
    chunks: Iterable[tuple[int, frozenset[bytes]]],
    concurrency: int,
) -> None:
    """Seal chunks in threads, which take one after the other: a run may have a hundred million."""
    left, lock, failed = iter(chunks), threading.Lock(), threading.Event()

    def work() -> None:
        while not failed.is_set():
            try:
                with lock:
                    chunk = next(left, None)
                if chunk is None:
                    return
                seal_chunk(*chunk)
            except BaseException:
                failed.set()
                raise

    with ThreadPoolExecutor(concurrency, thread_name_prefix="lanes-seal") as executor:
        for done in [executor.submit(work) for _ in range(concurrency)]:
            done.result()


def _seal_chunk(table: RunTable, mark: Mark, ends: Ends, index: int, members: frozenset[bytes]) -> None:
    chunk = table.seal_chunk(mark, index, members)
    if chunk is None:
        raise RunError(f"the run {mark.name!r} was sealed with other members in chunk {index}")
    ends.climb(mark, index, chunk)


def _tried(pause: Callable[[float], object] | None, call: Callable[[], T]) -> T:
    """Make a call, which may be repeated, until it succeeds, or its tries are spent."""
    policy = RetryPolicy()
    for tries in count(1):
        try:
            return call()
        except AwsError as error:
            if pause is None or not error.retryable or tries == policy.max_attempts:
                raise
            pause(policy.delay(tries, random.random()))  # noqa: S311 - a delay
    raise AssertionError("unreachable")


class Run:
    """
    Sends the members of one run; use it in a `with` block of `Producer.run`.

    Args:
        send: sends messages, with the mark of a `run`.
        table: the runs.
        head: the run.
        concurrency: chunks that are sealed at the same time.

    Attributes:
        name: its name.
    """

    def __init__(
        self,
        *,
        send: Callable[..., list[SentMessage]],
        table: RunTable,
        head: Head,
        concurrency: int = SEALING,
    ) -> None:
        check_head(head)
        self.name = head.name
        self._send = send
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
                announce=lambda message: self._send([message]),
                concurrency=self._concurrency,
            )
        self._mark = None

    def send(self, kind: str, data: Any, *, id: str, **fields: Any) -> SentMessage:  # noqa: A002 - as in `Producer.send`
        """Send one member; `fields` are those of `Message`, such as its group."""
        given = {"source": self._wanted.source, **fields}
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
            sent = self._send(marked, run=mark.text, **options)
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
