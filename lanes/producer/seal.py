"""The seal of a run: its head is opened, its members are fixed, and each chunk gets the set of its own."""

from __future__ import annotations

import hashlib
import random
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Protocol, TypeVar

from lanes.errors import AwsError, RunError
from lanes.message import kind_problem
from lanes.retries import RetryPolicy
from lanes.runs import NAME, Ends, place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lanes.message import Message
    from lanes.runs import Head, Mark, RunTable

T = TypeVar("T")

SEALING = 8
"""Chunks that are sealed at the same time: 5 ms each, one after the other a million members would take two minutes."""


class Members(Protocol):
    """The members of a run."""

    def __len__(self) -> int:
        """Return their number."""

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Return chunk and fingerprint of each, in this order."""

    def of(self, chunk: int) -> frozenset[bytes]:
        """Return the fingerprints of a chunk; called by several threads."""


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

    def of(self, chunk: int) -> frozenset[bytes]:
        """Return the fingerprints of a chunk."""
        return frozenset(self._found.get(chunk, ()))


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
    head = table.open_run(wanted)
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
    mark.check_room(len(members))
    patiently = partial(_tried, pause)
    if not patiently(lambda: table.fix_members(mark.name, total=len(members), members=_digest(members))):
        head = table.head(mark.name)
        state = f"{head.state.value}, with {head.total} members" if head else "gone"
        raise RunError(f"the run {mark.name!r} can't be sealed with {len(members)} members: it is {state}")
    ends = Ends(table=table, announce=announce)

    def seal_chunk(index: int) -> None:
        mine = members.of(index)
        patiently(lambda: _seal_chunk(table, mark, ends, index, mine))

    if concurrency == 1:
        for index in range(mark.chunks):
            seal_chunk(index)
    else:
        _in_threads(seal_chunk, range(mark.chunks), concurrency)
    patiently(lambda: table.sealed(mark.name))


def _in_threads(seal_chunk: Callable[[int], None], chunks: Iterable[int], concurrency: int) -> None:
    """Seal chunks in threads, which take one after the other: a run may have a hundred million."""
    left, lock, failed = iter(chunks), threading.Lock(), threading.Event()

    def work() -> None:
        while not failed.is_set():
            with lock:
                index = next(left, None)
            if index is None:
                return
            try:
                seal_chunk(index)
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


def _digest(members: Members) -> str:
    """Return a digest of all members, whatever the order in which they were sent."""
    total, last = hashlib.sha256(), -1
    for index, fingerprint in members:
        if index != last:
            total.update(index.to_bytes(8, "big"))
            last = index
        total.update(fingerprint)
    return total.hexdigest()
