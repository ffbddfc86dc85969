"""What one task does: rows in, messages sent and recorded, counts out."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from lanes.errors import MessageError, SendError
from lanes.send_order import MOST_ENTRIES, RetryPolicy

from .rows import RowReader, RowRefusedError
from .window import Failed, SendWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lanes.aws.batch_calls import BatchCalls
    from lanes.deployment import Deployment

    from .outgoing_rows import OutgoingRow
    from .pace import SendPace

    Row = Mapping[str, Any]

CONCURRENCY = 8
NAMED_AT_MOST = 3


class RowsUnsentError(SendError):
    """A lane did not take rows of a partition; those before them may have been sent."""

    def __init__(self, *, partition: int, failed: list[Failed]) -> None:
        self.partition = partition
        named = "".join(
            f"\n  - row {one.item.position} (id {one.item.id!r}): {one.code}: {one.reason}"
            for one in failed[:NAMED_AT_MOST]
        )
        more = len(failed) - NAMED_AT_MOST
        rest = f"\n  - and {more} more" if more > 0 else ""
        super().__init__(f"{len(failed)} rows of partition {partition} could not be sent{named}{rest}")


class Record(Protocol):
    """Remembers what a task has done, also for other tasks and later runs."""

    def has(self, identity: str) -> bool:
        """Tell whether the message of this id was sent before."""

    def sent(self, lane: str, items: Iterable[OutgoingRow]) -> None:
        """Note messages that are in the queue."""

    def quarantined(self, *, position: int, row: Row, reason: str) -> None:
        """
        Put a row aside that can't be sent.

        Raises:
            NotImplementedError: there is no place for such rows.
        """

    def flush(self) -> None:
        """Write down what was noted."""


class NoRecord:
    """Remembers nothing."""

    def has(self, identity: str) -> bool:  # noqa: ARG002 - the protocol's form
        """Tell that nothing was sent before."""
        return False

    def sent(self, lane: str, items: Iterable[OutgoingRow]) -> None:
        """Note nothing."""

    def quarantined(self, *, position: int, row: Row, reason: str) -> None:
        """Refuse, so that nothing is lost silently."""
        raise NotImplementedError("rows are put aside in the manifest only")

    def flush(self) -> None:
        """Have nothing to write."""


class Backlog(Protocol):
    """Holds a task back while enough waits in a lane."""

    def wait(self, lane: str, messages: int) -> None:
        """Return when so many more messages may be sent."""


@dataclass(slots=True)
class RowCounts:
    """What became of rows: sent by lane, skipped as sent before, put aside."""

    lanes: Counter[str] = field(default_factory=Counter)
    skipped: int = 0
    quarantined: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingTask:
    """
    Sends the rows of one partition.

    Attributes:
        partition: its number, for errors.
        reader: makes messages of rows.
        deployment: the lanes.
        calls: makes the batch calls.
        pace: keeps to the rate.
        record: remembers what was sent.
        backlog: holds back while enough waits; None does not.
        ordered: the order within a group is kept.
        quarantine: rows that can't be sent are put aside; if not, the first of them ends the task.
        concurrency: most calls on their way for each lane.
        policy: when a message is tried again.
        clock: monotonic seconds.
        pause: waits for so many seconds.
        jitter: numbers from 0 to 1 that spread the retries.
    """

    partition: int
    reader: RowReader
    deployment: Deployment
    calls: BatchCalls
    pace: SendPace
    record: Record = field(default_factory=NoRecord)
    backlog: Backlog | None = None
    ordered: bool = True
    quarantine: bool = False
    concurrency: int = CONCURRENCY
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random

    def send(self, chunks: Iterable[Iterable[Row]]) -> RowCounts:
        """
        Send all rows; between two chunks nothing is on its way, so that the source may take its time.

        Raises:
            RowRefusedError: a row can't be a message; rows before it may have been sent.
            RowsUnsentError: the lane did not take rows.
        """
        run = _Run(self)
        try:
            for chunk in chunks:
                run.take(chunk)
            return run.counts
        finally:
            run.finish()
            self.record.flush()


class _Run:
    """One pass over a partition: the windows of its lanes and the calls on their way."""

    def __init__(self, task: SendingTask) -> None:
        self.counts = RowCounts()
        self._task = task
        self._started = task.clock()
        self._paced = 0
        self._position = 0
        self._most = task.pace.chunk(MOST_ENTRIES)
        self._windows: dict[str, SendWindow] = {}
        self._by_priority: dict[int, SendWindow] = {}
        self._flying: dict[int, tuple[SendWindow, list[OutgoingRow]]] = {}

    def take(self, rows: Iterable[Row]) -> None:
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
                    self._step(partial=True)
        while any(not window.is_empty for window in self._windows.values()):
            self._step(partial=True)
        self._raise_failures()

    def finish(self) -> None:
        """Wait for the calls that are on their way, so that what they did is recorded, and pay for them."""
        while self._flying:
            self._settle(None)
        self._task.pace.keep(started=self._started, sent=self._paced)

    def _item(self, row: Row) -> OutgoingRow | None:
        try:
            item = self._task.reader.item(row, self._position)
        except (ValueError, MessageError) as error:
            self._refuse(row, self._position, str(error), error)
            return None
        if self._task.record.has(item.id):
            self.counts.skipped += 1
            return None
        return item

    def _refuse(self, row: Row, position: int, reason: str, cause: Exception | None) -> None:
        task = self._task
        if not task.quarantine:
            raise RowRefusedError(
                partition=task.partition, position=position, row=row, reason=reason
            ) from cause
        task.record.quarantined(position=position, row=row, reason=reason)
        self.counts.quarantined += 1

    def _window(self, priority: int) -> SendWindow:
        window = self._by_priority.get(priority)
        if window is None:
            task = self._task
            lane = task.deployment.config.lane_for(priority).name
            window = self._windows.get(lane) or SendWindow(
                lane,
                ordered=task.ordered,
                concurrency=task.concurrency,
                policy=task.policy,
                jitter=task.jitter,
            )
            self._windows[lane] = self._by_priority[priority] = window
        return window

    def _step(self, *, partial: bool) -> None:
        for window in self._windows.values():
            self._start(window, partial=partial)
        if self._flying:
            due = self._rest()
            self._collect(due)
        else:
            rest = self._rest()
            if rest is not None:
                self._task.pause(rest)

    def _rest(self) -> float | None:
        due = min((at for one in self._windows.values() if (at := one.next_due()) is not None), default=None)
        return None if due is None else max(0.0, due - self._task.clock())

    def _start(self, window: SendWindow, *, partial: bool) -> None:
        """Start what calls may go; answers that are there already are taken in between."""
        task = self._task
        while window.has_batch or partial:
            batch = window.next_batch(task.clock(), most=self._most)
            if not batch:
                if self._flying and not partial:
                    self._collect(None)
                    continue
                return
            self._keep_pace(window.lane, len(batch))
            number = task.calls.start(task.deployment.queues[window.lane].url, batch)
            self._flying[number] = (window, batch)

    def _keep_pace(self, lane: str, messages: int) -> None:
        task = self._task
        if task.backlog is not None:
            task.backlog.wait(lane, messages)
        self._started = task.pace.keep(started=self._started, sent=self._paced)
        self._paced += messages

    def _collect(self, timeout: float | None) -> None:
        self._settle(timeout)
        for window in self._windows.values():
            if window.failed:
                self._sort_failures(window)

    def _settle(self, timeout: float | None) -> None:
        task = self._task
        for ended in task.calls.ended(timeout):
            window, batch = self._flying.pop(ended.number)
            if ended.error is not None:
                window.settle_failure(batch, ended.error, task.clock())
            else:
                accepted = window.settle(batch, ended.answers, task.clock())
                self.counts.lanes[window.lane] += len(accepted)
                task.record.sent(window.lane, accepted)

    def _sort_failures(self, window: SendWindow) -> None:
        refused = [one for one in window.failed if one.refused]
        window.failed = [one for one in window.failed if not one.refused]
        for one in refused:
            self._refuse(one.item.row, one.item.position, f"{one.code}: {one.reason}", None)
        self._raise_failures()

    def _raise_failures(self) -> None:
        failed = [one for window in self._windows.values() for one in window.failed]
        if failed:
            raise RowsUnsentError(partition=self._task.partition, failed=failed)
