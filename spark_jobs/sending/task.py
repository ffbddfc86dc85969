"""One task: it reads rows, sends messages, records them and gives counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lanes.errors import LanesError, MessageError, SendError
from lanes.message import id_in
from lanes.producer.order import MAX_ENTRIES

from ..rows.outgoing import UnreadableRow
from ..rows.reader import RowReader, RowRefusedError
from .record import Record, RowCounts
from .window import Failed, SendWindow, WindowSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lanes.aws.queues.batch_calls import BatchCalls, CallEnded
    from lanes.config.deployment import Deployment

    from ..rows.outgoing import OutgoingRow
    from .pace import SendPace
    from .record import TaskReport

    Row = Mapping[str, Any]

MAX_NAMED_ROWS = 3


class RowsUnsentError(SendError):
    """A lane did not accept rows of a partition; it has accepted `sent` others in this session."""

    def __init__(self, *, partition: int, failed: list[Failed], sent: int) -> None:
        self.partition = partition
        named = "".join(
            f"\n  - row {one.item.index} (id {id_in(one.item.identity)!r}): {one.code}: {one.reason}"
            for one in failed[:MAX_NAMED_ROWS]
        )
        more = len(failed) - MAX_NAMED_ROWS
        rest = f"\n  - and {more} more" if more > 0 else ""
        super().__init__(
            f"{len(failed)} rows of partition {partition} could not be sent; {sent:,} were{named}{rest}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingTask:
    """
    Sends the rows of one partition.

    Attributes:
        partition: Number of the partition, for errors.
        reader: Makes messages from rows.
        deployment: The lanes.
        calls: Makes the batch calls.
        pace: Keeps the task at its rate and within the backlog limit.
        record: Records sent messages.
        windows: Order, concurrency and retries.
        report: Reports the counts at intervals; None for no reports.
        quarantine: Set aside rows that cannot be sent; otherwise the first of them fails the task.
        is_sealed: Whether the run has all of its members, so that no other row is sent.
    """

    partition: int
    reader: RowReader
    deployment: Deployment
    calls: BatchCalls
    pace: SendPace
    record: Record = field(default_factory=Record)
    windows: WindowSettings = field(default_factory=WindowSettings)
    report: TaskReport | None = None
    quarantine: bool = False
    is_sealed: bool = False

    def send(self, chunks: Iterable[Iterable[Row | UnreadableRow]]) -> RowCounts:
        """Send all rows and give their counts; errors are those of `sending`."""
        return sum(self.sending(chunks), RowCounts())

    def sending(self, chunks: Iterable[Iterable[Row | UnreadableRow]]) -> Iterator[RowCounts]:
        """
        Send all rows and give the counts of each chunk.

        Between two chunks no call is in flight, so the source may be slow.

        Raises:
            RowRefusedError: A row cannot be a message; earlier rows may have been sent.
            RowsUnsentError: The lane did not accept rows.
        """
        run = _Run(self)
        reason: str | None = None
        refused: RowRefusedError | None = None
        try:
            for chunk in chunks:
                run.send(chunk)
                yield run.counted()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            refused = error if isinstance(error, RowRefusedError) else None
            raise
        finally:
            run.finish()
            self.record.flush()
            self.record.ended(skipped=run.so_far.skipped, reason=reason, refused=refused)


class _Run:
    """One pass over a partition: the windows of its lanes and the calls in flight."""

    def __init__(self, task: SendingTask) -> None:
        self._counts = RowCounts()
        self._total = RowCounts()
        self._task = task
        self._position = 0
        self._max_entries = task.pace.chunk(MAX_ENTRIES)
        self._windows: dict[str, SendWindow] = {}
        self._by_priority: dict[int, SendWindow] = {}
        self._in_flight: dict[int, tuple[SendWindow, list[OutgoingRow]]] = {}

    def send(self, rows: Iterable[Row | UnreadableRow]) -> None:
        for row in rows:
            self._position += 1
            item = self._item(row)
            if item is None:
                continue
            window = self._window(item.priority)
            window.add(item)
            if window.has_batch or window.is_full:
                self._start(window, partial=False)
                while window.is_full:
                    self._step()
        while any(not window.is_empty for window in self._windows.values()):
            self._step()
        self._raise_failures()

    def counted(self) -> RowCounts:
        """Give the counts since the last call."""
        counts, self._counts = self._counts, RowCounts()
        self._total += counts
        return counts

    @property
    def so_far(self) -> RowCounts:
        """All counts."""
        return self._total + self._counts

    def finish(self) -> None:
        """Wait for the calls in flight, so that their messages are recorded, then keep the pace."""
        self._settle_all()
        self._task.pace.settle()

    def _item(self, row: Row | UnreadableRow) -> OutgoingRow | None:
        if isinstance(row, UnreadableRow):
            self._refuse(row.row, self._position, row.reason, None)
            return None
        try:
            item = self._task.reader.item(row, self._position)
        except (ValueError, MessageError) as error:
            self._refuse(row, self._position, str(error), error)
            return None
        record = self._task.record
        if record.has(item.identity):
            self._counts.skipped += 1
            return None
        if record.has_now(item.identity):
            # A killed attempt has sent it, and no count of that attempt has reached the driver.
            self._counts.lanes[self._window(item.priority).lane] += 1
            return None
        if self._task.is_sealed:
            reason = (
                "its run is sealed, and it is not one of the members; send it under the name of another run"
            )
            self._refuse(row, self._position, reason, None)
            return None
        return item

    def _refuse(self, row: Row, position: int, reason: str, cause: Exception | None) -> None:
        task = self._task
        if not task.quarantine:
            self._settle_all()
            raise RowRefusedError(
                partition=task.partition,
                position=position,
                row=row,
                reason=reason,
                sent=self.so_far.lanes.total(),
            ) from cause
        task.record.quarantined(position=position, row=row, reason=reason)
        self._counts.quarantined += 1

    def _window(self, priority: int) -> SendWindow:
        window = self._by_priority.get(priority)
        if window is None:
            lane = self._task.deployment.config.lane_for(priority).name
            window = self._windows.get(lane) or SendWindow(lane, self._task.windows)
            self._windows[lane] = self._by_priority[priority] = window
        return window

    def _step(self) -> None:
        """Start partial batches too, then wait for an answer or for the next retry."""
        for window in self._windows.values():
            self._start(window, partial=True)
        seconds = self._seconds_to_retry()
        if self._in_flight:
            self._collect(seconds)
        elif seconds is not None:
            self._task.pace.wait(seconds)

    def _seconds_to_retry(self) -> float | None:
        due = min((at for one in self._windows.values() if (at := one.next_due()) is not None), default=None)
        return None if due is None else max(0.0, due - self._task.pace.clock())

    def _start(self, window: SendWindow, *, partial: bool) -> None:
        """Start the calls that may start; collect answers in between."""
        task = self._task
        while window.has_batch or partial:
            batch = window.next_batch(task.pace.clock(), max_entries=self._max_entries)
            if not batch:
                if self._in_flight and not partial:
                    self._collect(None)
                    continue
                return
            task.pace.keep(window.lane, len(batch))
            number = task.calls.start(task.deployment.queues[window.lane].url, batch)
            self._in_flight[number] = (window, batch)

    def _collect(self, timeout: float | None) -> None:
        self._settle(timeout)
        self._set_refused_aside()
        self._raise_failures()

    def _settle_all(self) -> None:
        while self._in_flight:
            self._settle(None)

    def _settle(self, timeout: float | None) -> None:
        # All leave at once: if the record fails for one, no answer would come any more for the others.
        ended = [(one, *self._in_flight.pop(one.number)) for one in self._task.calls.ended(timeout)]
        failure: Exception | None = None
        for one, window, batch in ended:
            try:
                self._settle_call(one, window, batch)
            except LanesError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _settle_call(self, ended: CallEnded, window: SendWindow, batch: list[OutgoingRow]) -> None:
        task = self._task
        if ended.error is not None:
            window.settle_failure(batch, ended.error, task.pace.clock())
            return
        accepted = window.answered(batch, ended.answers, task.pace.clock())
        self._counts.lanes[window.lane] += len(accepted)
        task.record.sent(window.lane, accepted)
        if task.report is not None and task.report.is_due:
            task.report(self.so_far)

    def _set_refused_aside(self) -> None:
        """Set refused rows of all lanes aside, since answers of several lanes may arrive together."""
        for window in self._windows.values():
            failed, window.failed = window.failed, []
            for one in failed:
                if one.refused:
                    self._refuse(one.item.row, one.item.index, f"{one.code}: {one.reason}", None)
                else:
                    window.failed.append(one)

    def _raise_failures(self) -> None:
        if not any(window.failed for window in self._windows.values()):
            return
        self._settle_all()
        failed = [one for window in self._windows.values() for one in window.failed]
        raise RowsUnsentError(partition=self._task.partition, failed=failed, sent=self.so_far.lanes.total())
