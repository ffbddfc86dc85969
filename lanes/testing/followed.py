"""Runs in memory: the items of `lanes.aws.table.runs`, with the same conditions."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from lanes.runs import Chunk, Counts, End, Head, Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lanes.testing.calls import Calls


class MemoryRuns:
    """The runs; `within` other calls it shows the same ones, as to another process."""

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self.calls = calls
        self._clock = clock
        self._heads: dict[str, Head] = {}
        self._chunks: dict[tuple[Mark, int], Chunk] = {}
        self._nodes: dict[tuple[Mark, int, int], dict[int, Counts]] = {}

    def within(self, calls: Calls) -> MemoryRuns:
        """Return the same runs, with calls of their own."""
        found = MemoryRuns(calls, self._clock)
        found._heads, found._chunks, found._nodes = self._heads, self._chunks, self._nodes
        return found

    def open_run(self, head: Head) -> Head:
        """Write a head unless there is one; return the stored one."""
        with self.calls.make("UpdateItem"):
            opened = dataclasses.replace(head, opened_at=self._clock())
            return self._heads.setdefault(head.name, opened)

    def head(self, name: str) -> Head | None:
        """Return a head."""
        with self.calls.make("GetItem"):
            return self._heads.get(name)

    def fix_members(self, name: str, *, total: int, members: str) -> bool:
        """Fix the members of an open run; False if others are fixed, or the run was closed."""
        with self.calls.make("UpdateItem"):
            head = self._heads.get(name)
            known = head and (head.total, head.members)
            if head is None or head.closed_at or known not in ((None, ""), (total, members)):
                return False
            self._heads[name] = dataclasses.replace(head, total=total, members=members)
            return True

    def seal_chunk(self, mark: Mark, index: int, members: frozenset[bytes]) -> Chunk | None:
        """Write the members of a chunk, and return it; None if it has others."""
        with self.calls.make("UpdateItem"):
            chunk = self._chunks.get((mark, index), Chunk({}))
            if chunk.members not in (None, members):
                return None
            return self._put(mark, index, dataclasses.replace(chunk, members=members))

    def sealed(self, name: str) -> None:
        """Note that every chunk is sealed."""
        self._set_once(name, "sealed_at")

    def add_end(self, mark: Mark, index: int, end: End, fingerprint: bytes) -> Chunk:
        """Add an end to a chunk, and return it."""
        with self.calls.make("UpdateItem"):
            chunk = self._chunks.get((mark, index), Chunk({}))
            ends = {**chunk.ends, end: chunk.ends.get(end, frozenset()) | {fingerprint}}
            return self._put(mark, index, dataclasses.replace(chunk, ends=ends))

    def add_child(self, mark: Mark, level: int, index: int, child: int, counts: Counts) -> list[Counts]:
        """Write the counts of a complete child to a node of the tree, and return those of all its children."""
        with self.calls.make("UpdateItem"):
            node = self._nodes.setdefault((mark, level, index), {})
            node[child] = counts
            return list(node.values())

    def end_run(self, mark: Mark, counts: Counts) -> Head | None:
        """Note that every member has an end, and return the head; None if there is no such run, or it is open."""
        with self.calls.make("UpdateItem"):
            head = self._heads.get(mark.name)
            if head is None or head.mark != mark or head.total is None:
                return None
            if not head.ended_at:
                head = dataclasses.replace(head, ended_at=self._clock(), final=counts)
                self._heads[mark.name] = head
            return head

    def announced(self, name: str) -> None:
        """Note that the end was announced."""
        self._set_once(name, "announced_at")

    def close(self, name: str, *, who: str, why: str) -> bool:
        """Close a run; False if it has ended or was closed before."""
        with self.calls.make("UpdateItem"):
            head = self._heads.get(name)
            if head is None or head.ended_at or head.closed_at:
                return False
            self._heads[name] = dataclasses.replace(head, closed_at=self._clock(), who=who, why=why)
            return True

    def chunks(self, mark: Mark, indexes: Iterable[int]) -> list[Chunk]:
        """Return those of the chunks that exist."""
        with self.calls.make("BatchGetItem"):
            return [self._chunks[mark, index] for index in indexes if (mark, index) in self._chunks]

    def heads(self, *, since: float, limit: int) -> list[Head]:
        """Return the runs opened since a time, the latest first."""
        with self.calls.make("Query"):
            found = sorted(self._heads.values(), key=lambda head: -head.opened_at)
            return [head for head in found if head.opened_at >= since][:limit]

    def _put(self, mark: Mark, index: int, chunk: Chunk) -> Chunk:
        self._chunks[mark, index] = chunk
        return chunk

    def _set_once(self, name: str, attribute: str) -> None:
        with self.calls.make("UpdateItem"):
            head = self._heads.get(name)
            if head is not None and not getattr(head, attribute):
                changes: Any = {attribute: self._clock()}
                self._heads[name] = dataclasses.replace(head, **changes)
