"""Ids of messages that were sent before, on disk, so that any number of them takes constant memory."""

from __future__ import annotations

import hashlib
import sqlite3
import weakref
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

CACHE_KIB = 16 * 1024


class SentBefore:
    """A set of ids in a temporary file; the file is deleted with the object, and an empty set has none."""

    def __init__(self) -> None:
        self._table: sqlite3.Connection | None = None

    def add_all(self, lists: Iterable[Iterable[str]]) -> None:
        """Add lists of ids."""
        rows = ((_digest(identity),) for identity in chain.from_iterable(lists))
        first = next(rows, None)
        if first is None:
            return
        if self._table is None:
            self._table = new_table("sent (id BLOB PRIMARY KEY)")
            weakref.finalize(self, self._table.close)
        self._table.executemany("INSERT OR IGNORE INTO sent VALUES (?)", chain([first], rows))
        self._table.commit()

    def has(self, identity: str) -> bool:
        """Whether the set contains an id."""
        if self._table is None:
            return False
        found = self._table.execute("SELECT 1 FROM sent WHERE id = ?", (_digest(identity),))
        return found.fetchone() is not None


def new_table(definition: str) -> sqlite3.Connection:
    """Make a table in a temporary file, which goes with its connection; any thread may use it, one at a time."""
    # An empty name makes SQLite use a temporary file, and none at all while the cache is large enough.
    table = sqlite3.connect("", isolation_level="DEFERRED", check_same_thread=False)
    table.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    table.execute("PRAGMA journal_mode = OFF")
    table.execute("PRAGMA temp_store = FILE")
    table.execute(f"CREATE TABLE {definition} WITHOUT ROWID")
    return table


def _digest(identity: str) -> bytes:
    return hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=16).digest()
