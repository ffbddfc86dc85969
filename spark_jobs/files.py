"""
Send each row of a file as a message, without Spark: Parquet, CSV or JSON Lines.

    lanes bulk send customers.parquet --kind customer.remind --id customer_id --run spring

Ids, manifest, rate, quarantine and summary are those of the Spark jobs: a file of Parquet or CSV that a job has sent in
part is completed under the same run.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from shutil import copyfileobj
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from lanes.errors import LanesError, MessageError

from .arguments import MERGE, expected, in_arguments, repeated_ids, writer_options
from .arguments import file_parser as parser
from .failures import WriteFailedError, report
from .file_rows import CHUNK_ROWS, rows_of
from .manifest.sent_before import SentBefore
from .plan import WritePlan
from .rows.outgoing import UnreadableRow
from .rows.reader import RowReader
from .sending.record import RowCounts

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from .rows.outgoing import Rows

    Row = dict[str, Any]

PROGRESS_SECONDS = 5.0
MAX_LISTED = 10
MANIFESTS = "build/bulk"


@dataclass(frozen=True)
class FileTask:
    """The context of a task that Spark would give: one partition, one attempt."""

    attempt: int = field(default_factory=time.time_ns)

    def partitionId(self) -> int:  # noqa: N802 - Spark's own name
        """Give the number of the partition."""
        return 0

    def attemptNumber(self) -> int:  # noqa: N802 - Spark's own name
        """Give the number of earlier attempts."""
        return 0

    def taskAttemptId(self) -> int:  # noqa: N802 - Spark's own name
        """Give a unique number."""
        return self.attempt

    def getLocalProperty(self, _key: str) -> str | None:  # noqa: N802 - Spark's own name
        """Give no settings: they are Spark's."""
        return None


@dataclass(slots=True)
class FileContents:
    """
    The contents of a file: its rows, the messages that they become, and what cannot be sent.

    Attributes:
        rows: Number of rows.
        messages: Number of messages that they become.
        repeated_ids: Number of rows with an id that an earlier row has.
        bytes: Size of all messages.
        refused: Number of rows that cannot be sent.
        refusals: The first of them, with reasons.
    """

    rows: int = 0
    messages: int = 0
    repeated_ids: int = 0
    bytes: int = 0
    refused: int = 0
    refusals: list[dict[str, object]] = field(default_factory=list)

    @classmethod
    def of(cls, options: argparse.Namespace) -> FileContents:
        """Make each message and throw it away."""
        reader, seen, found = _reader(options), SentBefore(), cls()
        for row in rows_of(options):
            found.rows += 1
            try:
                if isinstance(row, UnreadableRow):
                    raise ValueError(row.reason)  # noqa: TRY004, TRY301 - the value is at fault
                item = reader.item(row, found.rows)
            except (ValueError, MessageError) as error:
                found.refused += 1
                if len(found.refusals) < MAX_LISTED:
                    found.refusals.append({"row": found.rows, "reason": str(error)})
                continue
            if seen.add(item.identity):
                found.messages += 1
                found.bytes += item.size_bytes
            elif row.get("id") is not None:
                found.repeated_ids += 1
        return found

    @property
    def equal_rows(self) -> int:
        """Number of rows that are the message of an earlier row."""
        return self.rows - self.refused - self.messages

    def check(self, options: argparse.Namespace) -> None:
        """
        Refuse ids that repeat, unless they are to be merged.

        Raises:
            ConfigurationError: Rows share an id.
        """
        if self.repeated_ids and options.repeated_ids != MERGE:
            raise repeated_ids(options.id, rows=self.rows, messages=self.messages)


def describe(options: argparse.Namespace) -> dict[str, Any]:
    """Describe what would be sent."""
    return {"dry_run": True, "kind": options.kind, **asdict(FileContents.of(options))}


def send(
    options: argparse.Namespace, *, progress: Callable[[str], object] = sys.stderr.write
) -> dict[str, Any]:
    """
    Send the rows of a file and give a summary.

    Raises:
        LanesError: The options are wrong, a row cannot be sent, or a lane did not accept rows.
    """
    # Before the session begins: a file that cannot be sent begins no session of its run.
    contents = FileContents.of(options)
    contents.check(options)
    counts = {"rows": contents.rows, "equal_rows": contents.equal_rows}
    rows: Iterator[Row | UnreadableRow] = rows_of(options)
    if contents.equal_rows:
        rows = _distinct(rows, _reader(options))
    writer = _writer(options) | expected(options, contents.messages)
    plan = WritePlan.make(writer, None, purpose=_purpose(options) | {"contents": counts})
    started = reported = time.monotonic()
    total = RowCounts()
    try:
        for sent in plan.writing(_chunks(rows), FileTask()):
            total += sent
            if time.monotonic() - reported >= PROGRESS_SECONDS:
                reported = time.monotonic()
                progress(json.dumps(_state(total, reported - started)) + "\n")
        seconds = time.monotonic() - started
        written = plan.finish([total])
    except BaseException as error:
        summary = plan.abandon(f"{type(error).__name__}: {error}".splitlines()[0])
        if isinstance(error, LanesError):
            raise WriteFailedError(str(error), summary) from error
        raise
    return {
        "kind": options.kind,
        "sent": written["messages"],
        **{name: value for name, value in written.items() if name not in ("event", "messages", "tasks")},
        "seconds": round(seconds, 2),
        "messages_per_second": round(written["messages"] / seconds, 1),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Send a file; the last line on standard output is the summary as JSON."""
    options = parser().parse_args(argv)
    needs_run = {
        "--manifest": options.manifest is not None,
        "--take-over": options.take_over is not None,
        "--follow": options.follow is not None,
        "--on-error quarantine": options.on_error == "quarantine",
    }
    if options.run is None and (given := [name for name, is_given in needs_run.items() if is_given]):
        parser().error(f"{given[0]} needs --run: the sent ids are recorded under the name of the run")
    if options.on_complete is not None and options.follow is None:
        parser().error("--on-complete needs --follow: it announces the end of the messages of a run")
    if options.run is not None and options.manifest is None:
        options.manifest = MANIFESTS
    try:
        with _stopped_by_signals(), _readable_twice(options):
            summary = describe(options) if options.dry_run else send(options)
    except (LanesError, OSError) as error:
        return report(in_arguments(error))
    sys.stdout.write(json.dumps(summary) + "\n")
    return 0


@contextmanager
def _readable_twice(options: argparse.Namespace) -> Iterator[None]:
    """Copy a pipe to a file of its own: its rows are counted before they are sent."""
    path = Path(options.file)
    if path.is_file() or path.is_dir() or not path.exists():
        yield
        return
    with NamedTemporaryFile() as copy:
        with path.open("rb") as pipe:
            copyfileobj(pipe, copy)
        copy.flush()
        options.path = copy.name
        yield


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    def stop(number: int, _frame: object) -> None:
        # A second one must not interrupt the end of the session.
        signal.signal(number, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _state(total: RowCounts, seconds: float) -> dict[str, object]:
    return {
        "event": "progress",
        "seconds": round(seconds, 1),
        "rows": total.rows,
        "messages": total.lanes.total(),
        "messages_per_second": round(total.lanes.total() / seconds, 1),
        "skipped": total.skipped,
        "quarantined": total.quarantined,
    }


def _reader(options: argparse.Namespace) -> RowReader:
    from .options import WriterOptions

    # The lanes are not needed to make messages.
    read = WriterOptions.from_options(_writer(options) | {"stack": "-", "deployment": None})
    return RowReader(kind=read.kind, priority=read.priority, shards=read.shards, source=read.source)


def _writer(options: argparse.Namespace) -> dict[str, Any]:
    given = writer_options(options)
    # One task sends the file, so it has the limits of the job for itself.
    return given | ({"maxTasks": "1"} if given.keys() & {"maxSendRate", "maxBacklog"} else {})


def _purpose(options: argparse.Namespace) -> dict[str, object]:
    """Give the selection, with the names that the Spark job has for it."""
    select = "*" if options.select is None else options.select
    return {"table": options.file, "select": select, "id": options.id, "group_by": options.group}


def _chunks(rows: Iterator[Row | UnreadableRow]) -> Iterator[Rows]:
    while chunk := list(islice(rows, CHUNK_ROWS)):
        yield chunk


def _distinct(rows: Iterator[Row | UnreadableRow], reader: RowReader) -> Iterator[Row | UnreadableRow]:
    """Leave out the rows that are the message of an earlier one."""
    seen = SentBefore()
    for row in rows:
        if not isinstance(row, UnreadableRow):
            try:
                if not seen.add(reader.item(row, 1).identity):
                    continue
            except (ValueError, MessageError):
                # The task refuses it, or sets it aside.
                pass
        yield row


if __name__ == "__main__":
    sys.exit(main())
