"""The manifest in one task: ids that were sent before, and files of ids that this task sends."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import weakref
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from itertools import chain, islice
from math import isfinite
from typing import TYPE_CHECKING, Any

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


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ..rows import OutgoingRow, RowRefusedError
    from .storage import Storage

    Row = Mapping[str, Any]

# A rerun after a crash sends the unwritten messages again, and SQS drops such repeats for five minutes only. Fewer rows
# make more files: a thousand take half a second at 2,000 rows a second.
SEGMENT_ROWS = 1_000
FLUSH_SECONDS = 2.0
QUARANTINE_BYTES = 4 * 1024 * 1024
# A speculative copy of a task may be ahead; this one must know its rows within the same five minutes.
REFRESH_SECONDS = 60.0
# A read from S3 takes some 20 ms, and ten million rows are 10,000 files.
READERS = 16


class TaskManifest:
    """Records the work of a task for other tasks and later runs; `RunManifest.task` makes it."""

    def __init__(
        self,
        storage: Storage,
        *,
        run_id: str,
        session: str,
        partition: int,
        attempt: int,
        before: SentBefore,
        now: SentBefore,
        clock: Callable[[], float],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._storage = storage
        self._run_id = run_id
        self._session = session
        self._partition = f"p{partition:05d}"
        self._name = f"{self._partition}-a{attempt}"
        self._before = before
        self._now = now
        self._clock = clock
        self._check = check
        self._segments = 0
        self._read: set[str] = set()
        self._refreshed_at = self._flushed_at = clock()
        self._ids: list[str] = []
        self._lanes: dict[str, int] = {}
        self._rows: list[str] = []
        self._rows_bytes = 0

    def has(self, identity: str) -> bool:
        """Whether an earlier session has sent the message with this identity."""
        return self._before.has(identity)

    def has_now(self, identity: str) -> bool:
        """Whether another attempt of this session has sent it."""
        return self._now.has(identity)

    def refresh(self) -> None:
        """Read the ids that other attempts at the same partition have sent since."""
        self._refreshed_at = self._clock()
        own = f"{self._run_id}/sent/{self._session}/{self._partition}-"
        names = [name for name in self._storage.names(own) if name not in self._read]
        self._read.update(names)
        others = (name for name in names if f"/{self._name}-" not in name)
        self._now.add_all(read_ids(self._storage, others))

    def sent(self, lane: str, items: Iterable[OutgoingRow]) -> None:
        """Record messages that are in the queue; they are written every `SEGMENT_ROWS` and every `FLUSH_SECONDS`."""
        before = len(self._ids)
        self._ids.extend([item.identity for item in items])
        self._lanes[lane] = self._lanes.get(lane, 0) + len(self._ids) - before
        if len(self._ids) >= SEGMENT_ROWS:
            self.flush()
        self.keep()

    def keep(self, *, idle: float = 0.0) -> None:
        """
        Write what is due; learn once a minute what others have sent, and whether the run is still this session's.

        Args:
            idle: Seconds until the next call.

        Raises:
            TakenOverError: Another session has taken it over.
        """
        now = self._clock()
        if now + idle - self._flushed_at >= FLUSH_SECONDS:
            self.flush()
        if now - self._refreshed_at >= REFRESH_SECONDS:
            self.refresh()
            self._check()

    def quarantined(self, *, position: int, row: Row, reason: str) -> None:
        """Set a row aside unchanged, with the reason."""
        line = json.dumps(_set_aside(position, row, reason), default=_as_text)
        self._rows.append(line)
        self._rows_bytes += len(line)
        if self._rows_bytes >= QUARANTINE_BYTES or len(self._rows) >= SEGMENT_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the recorded ids and rows."""
        self._flushed_at = self._clock()
        if self._ids:
            segment = {
                "written": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
                "lanes": self._lanes,
                "ids": self._ids,
            }
            self._write("sent", len(self._ids), json.dumps(segment).encode(), "json")
            self._ids, self._lanes = [], {}
        if self._rows:
            lines = "".join(f"{row}\n" for row in self._rows)
            self._write("quarantine", len(self._rows), lines.encode(), "jsonl")
            self._rows, self._rows_bytes = [], 0

    def ended(self, *, skipped: int, reason: str | None, refused: RowRefusedError | None) -> None:
        """Write the rows that were skipped, and the reason and the row of a failure; nothing if there is neither."""
        if not skipped and reason is None:
            return
        end: dict[str, Any] = {"skipped": skipped, "reason": reason}
        if refused is not None:
            bad_row = _set_aside(refused.position, refused.row, refused.reason)
            end["bad_row"] = {"partition": refused.partition, **bad_row}
        content = json.dumps(end, default=_as_text).encode()
        self._storage.write(f"{self._run_id}/ended/{self._session}/{self._name}.json", content)

    def _write(self, kind: str, rows: int, content: bytes, ending: str) -> None:
        self._segments += 1
        file = f"{self._name}-{self._segments:04d}-{rows}.{ending}"
        self._storage.write(f"{self._run_id}/{kind}/{self._session}/{file}", content)


def read_ids(storage: Storage, names: Iterable[str]) -> Iterator[list[str]]:
    """Read the ids in files of a manifest, a few files at a time."""
    left = iter(names)
    with ThreadPoolExecutor(READERS, thread_name_prefix="manifest") as threads:
        while some := list(islice(left, READERS)):
            yield from threads.map(lambda name: json.loads(storage.read(name))["ids"], some)


def _set_aside(position: int, row: Row, reason: str) -> dict[str, Any]:
    return {"position": position, "reason": reason, "row": _in_json(row)}


def _in_json(value: Any) -> Any:
    """Write numbers that JSON lacks, such as NaN, as text."""
    if isinstance(value, dict):
        return {name: _in_json(one) for name, one in value.items()}
    if isinstance(value, list):
        return list(map(_in_json, value))
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def _as_text(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)
