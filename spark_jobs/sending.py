"""One task: it reads rows, sends messages, records and counts them, over connections that the next takes over."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from lanes.aws.batch_calls import open_calls
from lanes.errors import MessageError, SendError
from lanes.fault_codes import is_about_message
from lanes.message import id_in
from lanes.producer.order import MAX_ENTRIES, LaneOrder
from lanes.producer.sending import Dispatch, Pacing
from lanes.retries import RetryPolicy

from .rows import OutgoingRow, RowReader, RowRefusedError, UnreadableRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from lanes.aws.clients import Clients
    from lanes.config.deployment import Deployment
    from lanes.producer.outgoing import BatchCalls, Refused

    from .manifest.task import TaskManifest
    from .options import WriterOptions
    from .pace import SendPace

    Row = Mapping[str, Any]

MAX_NAMED_ROWS = 3
# At 10 ms a call these carry 32,000 messages a second, as many as a core prepares.
CONCURRENCY = 32
NOT_A_MEMBER = "its run is sealed, and it is not one of the members; send it under the name of another run"


@dataclass(slots=True)
class RowCounts:
    """Counts of rows: sent by lane in this session, skipped since an earlier one has sent them, and quarantined."""

    lanes: Counter[str] = field(default_factory=Counter)
    skipped: int = 0
    quarantined: int = 0

    @property
    def rows(self) -> int:
        """All rows that were read."""
        return self.lanes.total() + self.skipped + self.quarantined

    def to_json(self) -> str:
        """Write the counts for `from_json`."""
        return json.dumps({one.name: getattr(self, one.name) for one in fields(self)})

    @classmethod
    def from_json(cls, text: str) -> RowCounts:
        """Read the counts that a task has written."""
        counts = json.loads(text)
        return cls(**counts | {"lanes": Counter(counts["lanes"])})

    def __add__(self, other: RowCounts) -> RowCounts:
        """Add the counts of other rows."""
        return RowCounts(
            lanes=self.lanes + other.lanes,
            skipped=self.skipped + other.skipped,
            quarantined=self.quarantined + other.quarantined,
        )


@dataclass(frozen=True, slots=True)
class Failed:
    """A row that will not be sent: SQS refused the row itself (`refused`), or the lane does not accept it."""

    item: OutgoingRow
    reason: str
    refused: bool


class RowOrder(LaneOrder[OutgoingRow]):
    """The unsent rows of one lane; one that fails lets the next of its group go on, or ends the task."""

    def __init__(self, lane: str, task: SendingTask, known: Callable[[str, int], None]) -> None:
        super().__init__(
            lane,
            concurrency=task.concurrency,
            policy=task.retries,
            jitter=task.jitter,
            ordered=task.ordered,
        )
        self.failed: list[Failed] = []
        self._record = task.record
        self._known = known

    def start(self, batch: list[OutgoingRow], now: float) -> list[OutgoingRow]:
        """
        Count the call of a batch without the rows that another attempt has sent, and return the others.

        Raises:
            TakenOverError: Another session has taken the run over.
        """
        if self._record is not None:
            # Only now: a source, a rate or a backlog may have kept them waiting for hours.
            self._record.keep()
            sent = {item.index for item in batch if self._record.has_now(item.identity)}
            for item in batch:
                if item.index in sent:
                    self._leave(item)
            self._known(self.lane, len(sent))
            batch = [item for item in batch if item.index not in sent]
        return super().start(batch, now) if batch else batch

    def _give_up(self, item: OutgoingRow, answer: Refused) -> None:
        refused = not answer.retryable and (not answer.of_call or is_about_message(answer.code))
        self.failed.append(Failed(item, f"{answer.code}: {answer.reason}", refused))
        self._leave(item)


class RowsUnsentError(SendError):
    """A lane did not accept rows of a partition; it has accepted `sent` others in this session."""

    def __init__(self, *, partition: int, failed: list[Failed], sent: int) -> None:
        self.partition = partition
        named = "".join(
            f"\n  - row {one.item.index} (id {id_in(one.item.identity)!r}): {one.reason}"
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
    Sends the rows of one partition, with the producer's engine.

    Attributes:
        partition: Number of the partition, for errors.
        reader: Makes messages from rows.
        deployment: The lanes.
        calls: Makes the batch calls.
        pace: Keeps the task at its rate and within the backlog limit.
        record: The manifest, which knows sent messages and keeps refused rows; None without one.
        ordered: Keep the order within a group: one row of a group is in flight at a time. Otherwise rows are
            independent, and a call may have several of one group.
        concurrency: Maximum calls in flight.
        retries: When to try again.
        jitter: Numbers from 0 to 1 that spread the retries.
        quarantine: Set aside rows that cannot be sent; otherwise the first of them fails the task.
        is_sealed: Whether the run has all of its members, so that no other row is sent.
    """

    partition: int
    reader: RowReader
    deployment: Deployment
    calls: BatchCalls[OutgoingRow]
    pace: SendPace
    record: TaskManifest | None = None
    ordered: bool = True
    concurrency: int = CONCURRENCY
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    jitter: Callable[[], float] = random.random
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
            if self.record is not None:
                self.record.flush()
                self.record.ended(skipped=run.so_far.skipped, reason=reason, refused=refused)


class _Run:
    """One pass over a partition."""

    def __init__(self, task: SendingTask) -> None:
        self._counts = RowCounts()
        self._total = RowCounts()
        self._task = task
        self._position = 0
        self._orders = {
            lane.name: RowOrder(lane.name, task, self._known) for lane in task.deployment.config.lanes
        }
        self._by_priority: dict[int, RowOrder] = {}
        self._dispatch = Dispatch(
            list(self._orders.values()),
            queue_urls={name: queues.url for name, queues in task.deployment.queues.items()},
            calls=task.calls,
            concurrency=task.concurrency,
            pacing=Pacing(clock=task.pace.clock, pause=self._pause),
            max_entries=task.pace.chunk(MAX_ENTRIES),
            starting=self._starting,
            settled=self._settled,
            answered=self._answered,
        )

    def send(self, rows: Iterable[Row | UnreadableRow]) -> None:
        for row in rows:
            self._position += 1
            item = self._item(row)
            if item is not None:
                self._dispatch.add(self._order(item.priority), item)
        self._dispatch.drain()
        if self._task.record is not None:
            # The source may take long for its next rows.
            self._task.record.flush()

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
        self._dispatch.finish()
        self._task.pace.settle(self._pause)

    def _starting(self, lane: str, messages: int) -> None:
        self._task.pace.keep(lane, messages, self._dispatch.pause)

    def _pause(self, seconds: float) -> None:
        """Let time pass while nothing is in flight, be it for hours; after a kill a rerun knows all that was sent."""
        if self._task.record is not None:
            self._task.record.keep(idle=seconds)
        self._task.pace.wait(seconds)

    def _item(self, row: Row | UnreadableRow) -> OutgoingRow | None:
        """Make the message of a row; None if it was sent before, or set aside."""
        item, record = self._read(row), self._task.record
        if item is None or record is None:
            return item
        if record.has(item.identity):
            self._counts.skipped += 1
        elif self._task.is_sealed:
            self._refuse(item.row, self._position, NOT_A_MEMBER, None)
        else:
            return item
        return None

    def _read(self, row: Row | UnreadableRow) -> OutgoingRow | None:
        if isinstance(row, UnreadableRow):
            self._refuse(row.row, self._position, row.reason, None)
            return None
        try:
            return self._task.reader.item(row, self._position)
        except (ValueError, MessageError) as error:
            self._refuse(row, self._position, str(error), error)
            return None

    def _refuse(self, row: Row, position: int, reason: str, cause: Exception | None) -> None:
        task = self._task
        if not task.quarantine or task.record is None:
            self._dispatch.finish()
            raise RowRefusedError(
                partition=task.partition,
                position=position,
                row=row,
                reason=reason,
                sent=self.so_far.lanes.total(),
            ) from cause
        task.record.quarantined(position=position, row=row, reason=reason)
        self._counts.quarantined += 1

    def _order(self, priority: int) -> RowOrder:
        order = self._by_priority.get(priority)
        if order is None:
            lane = self._task.deployment.config.lane_for(priority).name
            order = self._by_priority[priority] = self._orders[lane]
        return order

    def _known(self, lane: str, rows: int) -> None:
        """Count rows that a killed attempt has sent: no count of it has reached the driver."""
        self._counts.lanes[lane] += rows

    def _settled(self, lane: str, accepted: list[OutgoingRow]) -> None:
        self._counts.lanes[lane] += len(accepted)
        if self._task.record is not None:
            self._task.record.sent(lane, accepted)

    def _answered(self) -> None:
        """Set refused rows of all lanes aside, since answers of several may arrive together; then fail for others."""
        failed = [one for order in self._orders.values() for one in order.failed]
        if not failed:
            return
        for order in self._orders.values():
            order.failed = []
        for one in failed:
            if one.refused:
                self._refuse(one.item.row, one.item.index, one.reason, None)
        unsent = [one for one in failed if not one.refused]
        if not unsent:
            return
        self._dispatch.finish()
        unsent += [one for order in self._orders.values() for one in order.failed]
        raise RowsUnsentError(partition=self._task.partition, failed=unsent, sent=self.so_far.lanes.total())


# Credentials in a file or a variable may be replaced between two tasks; botocore refreshes those of roles.
MAX_AGE_SECONDS = 60.0


class WorkerCalls(NamedTuple):
    """What a task sends with, to the place `used_for`."""

    used_for: tuple[object, ...]
    made_at: float
    clients: Clients
    calls: BatchCalls[Any]


# Those of the last task that ended well. Making them takes 25 ms, as long as 200 rows.
_kept: list[WorkerCalls] = []


@contextmanager
def worker_calls(
    options: WriterOptions, deployment: Deployment, *, clock: Callable[[], float] = time.monotonic
) -> Iterator[WorkerCalls]:
    """Lend clients and connections to a task; after an error they are closed, and the next task has new ones."""
    used_for = (options.region, options.endpoint_url, deployment)
    found = _kept.pop() if _kept else None
    if found is not None and (found.used_for != used_for or clock() - found.made_at >= MAX_AGE_SECONDS):
        found.calls.close()
        found = None
    if found is None:
        clients = options.clients()
        calls = open_calls(clients, concurrency=CONCURRENCY, deployment=deployment)
        found = WorkerCalls(used_for, clock(), clients, calls)
    try:
        yield found
    except BaseException:
        found.calls.close()
        raise
    _kept.append(found)
