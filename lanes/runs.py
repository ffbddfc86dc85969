"""
Runs: messages followed to their end, without a count that a crash or a repeated delivery could make wrong.

A run has one head and a number of chunks in the consumer's table. A member belongs to one chunk and has one fingerprint
there, both from a hash of its identity, so every process agrees on them. Chunks hold sets only: each write may be
repeated. The sender writes the members of each chunk when it seals the run; a consumer adds the end of a member before
it deletes the message. A complete chunk reports to its node in a tree, and the process that completes the root
announces the end of the run.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from lanes.errors import MessageDecodeError, RunError
from lanes.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lanes.consumer.records import RawRecord

# An item of DynamoDB is written in units of 1 KB. Members and ends are 8 bytes each, so forty members fit with room for
# the spread of a hash: 1.07 units a message with the seal and the tree (docs/decisions.md#runs).
MEMBERS_PER_CHUNK = 40
FAN = 64
"""Children of a node of the tree: their counts fit into 1 KB as well."""

MOST_CHUNKS = 100_000_000
# AWS: an item has at most 400 KB (DynamoDB developer guide, "Constraints"); 16 bytes a member.
MOST_IN_CHUNK = 10_000
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")
MARK = re.compile(rf"([1-9][0-9]{{0,8}})-([0-9a-f]{{16}})/({NAME.pattern})")
KEY_BYTES = 8


class End(enum.StrEnum):
    """How a member ends. Where several are recorded, the first of this list counts."""

    DONE = "done"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    DEAD_LETTERED = "dead_lettered"


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """
    What a message carries: the name of its run, the number of its chunks, and its key.

    Other senders can't guess the key, and it is part of the items' own: what they write under another one counts for no
    run.
    """

    name: str
    chunks: int
    key: str = ""

    @property
    def text(self) -> str:
        """The value of the message attribute."""
        return f"{self.chunks}-{self.key}/{self.name}"

    def once(self, identity: str) -> str:
        """Return the deduplication id of a member: SQS must not drop it for a message of another run, or of none."""
        return hashlib.sha256(f"{self.name}\0{identity}".encode("utf-8", "surrogatepass")).hexdigest()

    def check_room(self, members: int) -> None:
        """
        Check that so many members fit into its chunks.

        Raises:
            RunError: they do not.
        """
        most = self.chunks * MOST_IN_CHUNK
        if members > most:
            raise RunError(
                f"the run {self.name!r} would have {members:,} members, and with its `expected` it takes {most:,}; "
                "expect more under another name"
            )

    @classmethod
    def parse(cls, text: str) -> Mark | None:
        """Read the value of the message attribute; None for any other text, which every sender can write."""
        found = MARK.fullmatch(text)
        return cls(found[3], int(found[1]), found[2]) if found and int(found[1]) <= MOST_CHUNKS else None


def chunks_for(expected: int) -> int:
    """Return the number of chunks of a run; raises `RunError` for a number of messages that none can have."""
    most = MOST_CHUNKS * MEMBERS_PER_CHUNK
    if isinstance(expected, bool) or not isinstance(expected, int) or not 0 <= expected <= most:
        raise RunError(f"expected is {expected!r}; it must be a number of messages from 0 to {most:,}")
    return max(1, -(-expected // MEMBERS_PER_CHUNK))


def place(identity: str, chunks: int) -> tuple[int, bytes]:
    """Return the chunk of a member and its fingerprint there."""
    digest = hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big") % chunks, digest[8:]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """
    Numbers of messages.

    Attributes:
        left: members without a recorded end.
        strangers: ends of messages that carry the run's mark and are not members.
        unassigned: ends in chunks that are not sealed, of members or strangers.
    """

    done: int = 0
    dead_lettered: int = 0
    cancelled: int = 0
    expired: int = 0
    left: int = 0
    strangers: int = 0
    unassigned: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in COUNTS})

    @property
    def members(self) -> int:
        """Number of members in the sealed chunks."""
        return self.done + self.dead_lettered + self.cancelled + self.expired + self.left

    @property
    def ended(self) -> int:
        """Number of members with an end."""
        return self.members - self.left

    @property
    def text(self) -> str:
        """The counts as an attribute of a node."""
        return ",".join(str(getattr(self, name)) for name in COUNTS)

    @classmethod
    def parse(cls, text: str) -> Counts:
        """Read such an attribute."""
        return cls(**dict(zip(COUNTS, map(int, text.split(",")), strict=False)))


COUNTS = tuple(field.name for field in dataclasses.fields(Counts))


@dataclasses.dataclass(frozen=True, slots=True)
class Chunk:
    """The fingerprints of one chunk; `members` is None before it is sealed."""

    ends: Mapping[End, frozenset[bytes]]
    members: frozenset[bytes] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether it is sealed and every member has an end."""
        return self.members is not None and self.members <= self._ended

    @property
    def _ended(self) -> frozenset[bytes]:
        return frozenset().union(*self.ends.values())

    def counts(self) -> Counts:
        """Count each member once."""
        if self.members is None:
            return Counts(unassigned=len(self._ended))
        left, found = self.members, {}
        for end in End:
            ended = left & self.ends.get(end, frozenset())
            found[end.value] = len(ended)
            left -= ended
        return Counts(**found, left=len(left), strangers=len(self._ended - self.members))


class State(enum.StrEnum):
    """The state of a run."""

    OPEN = "open"  # its sender is sending
    SEALING = "sealing"  # its members are fixed, and being written
    SEALED = "sealed"
    ENDED = "ended"  # every member has an end
    CLOSED = "closed"  # by an operator, before its end


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """
    What a run is about. Times are epoch seconds, 0 for never.

    Attributes:
        key: the key of its marks, set when it is opened.
        total: number of its members; None before it is sealed.
        members: a digest of all of them.
        on_complete: kind of the message that announces its end; empty for none. `source` and `priority` are its too.
        final: the counts at its end.
    """

    name: str
    chunks: int
    key: str = ""
    opened_at: float = 0.0
    on_complete: str = ""
    source: str = ""
    priority: int = 0
    total: int | None = None
    members: str = ""
    sealed_at: float = 0.0
    ended_at: float = 0.0
    announced_at: float = 0.0
    closed_at: float = 0.0
    who: str = ""
    why: str = ""
    final: Counts | None = None

    @property
    def mark(self) -> Mark:
        """The mark of its messages."""
        return Mark(self.name, self.chunks, self.key)

    @property
    def state(self) -> State:
        """Its state."""
        if self.ended_at:
            return State.ENDED
        if self.closed_at:
            return State.CLOSED
        if self.sealed_at:
            return State.SEALED
        return State.OPEN if self.total is None else State.SEALING

    def announcement(self) -> Message:
        """Return the message of its end, the same one at each call."""
        counts = self.final or Counts()
        return Message(
            kind=self.on_complete,
            data={"run": self.name, "total": self.total} | {one.value: getattr(counts, one) for one in End},
            id=f"run-ended-{self.name}",
            source=self.source,
            priority=self.priority,
            time=datetime.fromtimestamp(self.ended_at, UTC),
        )


class RunTable(Protocol):
    """The items of runs; it knows the time. Every method raises `AwsError`, and may be repeated."""

    def open_run(self, head: Head) -> Head:
        """Write a head unless there is one; return the stored one."""

    def head(self, name: str) -> Head | None:
        """Return a head."""

    def fix_members(self, name: str, *, total: int, members: str) -> bool:
        """Fix the members of an open run; False if others are fixed, or the run was closed."""

    def seal_chunk(self, mark: Mark, index: int, members: frozenset[bytes]) -> Chunk | None:
        """Write the members of a chunk, and return it; None if it has others."""

    def sealed(self, name: str) -> None:
        """Note that every chunk is sealed."""

    def add_end(self, mark: Mark, index: int, end: End, fingerprint: bytes) -> Chunk:
        """Add an end to a chunk, and return it."""

    def add_child(self, mark: Mark, level: int, index: int, child: int, counts: Counts) -> list[Counts]:
        """Write the counts of a complete child to a node of the tree, and return those of all its children."""

    def end_run(self, mark: Mark, counts: Counts) -> Head | None:
        """Note that every member has an end, and return the head; None if there is no such run, or it is open."""

    def announced(self, name: str) -> None:
        """Note that the end was announced."""

    def close(self, name: str, *, who: str, why: str) -> bool:
        """Close a run; False if it has ended or was closed before."""

    def chunks(self, mark: Mark, indexes: Iterable[int]) -> list[Chunk]:
        """Return those of the chunks that exist."""

    def heads(self, *, since: float, limit: int) -> list[Head]:
        """Return the runs opened since a time, the latest first."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """
    Records ends and announces the end of a run: the consumer's side, and the end of a seal.

    Attributes:
        table: the items.
        announce: sends the message of a run's end; it may raise, and be called again with the same message.
    """

    table: RunTable
    announce: Callable[[Message], object]

    def record_of(self, record: RawRecord, end: str) -> None:
        """Record the end of a record's message, if it can be a member of a run: `record` says more."""
        mark = Mark.parse(record.run)
        if mark is None:
            return
        try:
            identity = Message.from_body(record.body).identity
        except MessageDecodeError:
            return
        self.record(mark, identity, End(end))

    def record(self, mark: Mark, identity: str, end: End) -> None:
        """Record the end of a message. Its message may be deleted once this returns; raises `AwsError`."""
        index, fingerprint = place(identity, mark.chunks)
        self.climb(mark, index, self.table.add_end(mark, index, end, fingerprint))

    def climb(self, mark: Mark, index: int, chunk: Chunk) -> None:
        """Report a complete chunk to the tree, and a complete tree to the run."""
        if not chunk.is_complete:
            return
        counts, level, width = chunk.counts(), 0, mark.chunks
        while width > 1:
            level, parent = level + 1, index // FAN
            known = self.table.add_child(mark, level, parent, index, counts)
            if len(known) < min(FAN, width - parent * FAN):
                return
            counts = sum(known, Counts())
            index, width = parent, -(-width // FAN)
        self._end(mark, counts)

    def _end(self, mark: Mark, counts: Counts) -> None:
        head = self.table.end_run(mark, counts)
        if head is None or head.announced_at or not head.on_complete:
            return
        # Again after a crash, and with the same id: with idempotency it has one effect.
        self.announce(head.announcement())
        self.table.announced(mark.name)
