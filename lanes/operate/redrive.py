"""
Redrive the dead letters of a queue to their lane, or delete them.

A redrive copies first and deletes afterwards, so a run that is killed at any point loses nothing. The copy's
deduplication id is made from the dead letter's id, so SQS drops a second copy within five minutes. The queue itself is
the state of the run: another run continues where this one ended. A message that fails again returns during the run; it
is recognised by its copy's deduplication id, and stays. So does one that another run sent since this one began: two
runs at once would send failing messages to each other for ever.
"""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING

from lanes.operate.audit import audited
from lanes.operate.dead_letters import LARGEST_RECEIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lanes.depth import LaneDepth
    from lanes.operate.audit import AuditTrail
    from lanes.operate.dead_letters import DeadLetteredMessage, DeadLetterFilter, DeadLetterQueues

# A run that is killed hides its dead letters for so long, and the next run waits for them.
HIDE = timedelta(seconds=30)
QUIET_RECEIVES = 2
"""Empty receives in a row after which the run ends if no other reader hides a dead letter; one if SQS counts none."""

TIMEOUT_AFTER_HIDE = 5.0
"""Seconds after the end of other readers' visibility timeouts at which the run gives up on them."""
MOST_AT_ONCE = 100
"""Dead letters to receive before they are settled: ten receives, each of which may return one group alone."""

SETTLED_WHILE_HIDDEN = 10 / 3
"""Dead letters a second of their visibility timeout to receive at once; even a slow run settles five times as many."""
ALONE_FOR = 9
"""Rounds with one receive each, after a second receive found no other group beside the first ten."""

# SQS refuses single entries of a batch for faults of its own (API_SendMessageBatch, SenderFault).
TRIES = 3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """
    What a run does.

    Attributes:
        lane: the lane.
        wanted: selects the dead letters.
        copies: whether to copy them to the lane before they are deleted.
        limit: maximum number; None for no limit.
        rate: maximum number a second; None for no limit.
        hide: visibility timeout of a received dead letter, after which another run can receive it.

    """

    lane: str
    wanted: DeadLetterFilter
    copies: bool
    limit: int | None = None
    rate: float | None = None
    hide: timedelta = HIDE

    @property
    def verb(self) -> str:
        """The verb of the command."""
        return "redrive" if self.copies else "delete"

    def size_after(self, done: int) -> int:
        """Return how many to receive: at most the number that can be settled in half of their visibility timeout."""
        hide = self.hide.total_seconds()
        size = min(MOST_AT_ONCE, max(LARGEST_RECEIVE, int(SETTLED_WHILE_HIDDEN * hide)))
        if self.limit is not None:
            size = min(size, self.limit - done)
        if self.rate is not None:
            # With a low rate the last of ten would be visible again before its turn.
            size = min(size, int(self.rate * hide / 2))
        return max(1, size)

    def is_enough(self, done: int) -> bool:
        """Whether the limit is reached."""
        return self.limit is not None and done >= self.limit


@dataclasses.dataclass(slots=True, kw_only=True)
class RunProgress:
    """
    The progress of a run.

    Attributes:
        expected: approximate number of dead letters at the start.
        done: dead letters copied and deleted, or deleted.
        kept: dead letters that did not match.
        failed: reasons why matching ones stay, by the dead letter's id.
        returned: dead-lettered again during the run; they stay, or the run would never end.
        left: approximate number of dead letters at the end.

    """

    expected: int = 0
    done: int = 0
    kept: int = 0
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    returned: int = 0
    left: int = 0


class Pace:
    """Waits until a rate allows some more; None for no limit."""

    def __init__(
        self, rate: float | None, clock: Callable[[], float], pause: Callable[[float], None]
    ) -> None:
        self._rate, self._clock, self._pause = rate, clock, pause
        self._free_at = clock()

    def __call__(self, count: int) -> None:
        """Wait, then use up the time of so many."""
        if self._rate is None or not count:
            return
        now = self._clock()
        if self._free_at > now:
            self._pause(self._free_at - now)
        # Time that was not used is lost, so a slow call is followed by no burst.
        self._free_at = max(self._free_at, now) + count / self._rate


@dataclasses.dataclass(slots=True)
class _Group:
    """
    What a run knows of one group.

    Attributes:
        hidden: its dead letters that the run has received and not deleted, by message ID.
        sent: deduplication ids of its copies.
        stopped: why no more of it is copied; empty if nothing stops it.
        is_cut: whether a receive may have returned only some of the letters that it could show.

    """

    hidden: dict[str, DeadLetteredMessage] = dataclasses.field(default_factory=dict)
    sent: set[str] = dataclasses.field(default_factory=set)
    stopped: str = ""
    is_cut: bool = False


class DeadLetterRun:
    """
    Works through one dead-letter queue, each group in its order.

    If a dead letter can't be copied, the later ones of its group stay too.

    Args:
        task: what to do.
        queues: the dead-letter queues.
        audit: gets an entry with the request, and later the numbers of messages that are done and that failed.
        report: receives the progress after each step.
        clock: monotonic seconds.
        pause: waits for a number of seconds.
    """

    def __init__(
        self,
        task: Task,
        *,
        queues: DeadLetterQueues,
        audit: AuditTrail,
        report: Callable[[RunProgress], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.progress = RunProgress()
        self._task = task
        self._queues = queues
        self._audit = audit
        self._report = report
        self._clock = clock
        self._pace = Pace(task.rate, clock, pause)
        self._groups: defaultdict[str, _Group] = defaultdict(_Group)
        self._alone = 0
        self._began: float | None = None

    def run(self) -> RunProgress:
        """
        Work until no matching dead letter can be received; the others become visible again in any case.

        Raises:
            AwsError: a call failed. `progress` has the result so far; another run continues from there.
        """
        task = self._task
        asked = {"filter": task.wanted.describe(), "limit": task.limit or 0, "rate": task.rate or 0.0}
        with audited(self._audit, f"dead-letters {task.verb}", task.lane, details=asked) as entry:
            try:
                self._run()
            finally:
                # Also after a stop or an error: the audit trail counts the dead letters that are done.
                entry |= {"done": self.progress.done, "failed": len(self.progress.failed)}
        return self.progress

    def _run(self) -> None:
        self.progress.expected = self._depth().messages
        self._report(self.progress)
        try:
            self._work()
        finally:
            self._queues.give_back(self._hidden)
        self.progress.left = self._depth().messages

    def _work(self) -> None:
        quiet = 0
        # Another run may hide dead letters for longer than two receives take.
        quiet_since = self._clock()
        while not self._task.is_enough(self.progress.done):
            fresh, is_any = self._receive(self._task.size_after(self.progress.done))
            if fresh:
                self._settle(fresh)
                quiet, quiet_since = 0, self._clock()
                continue
            if self._loosened():
                continue
            # Counted after the receive: the next receive finds dead letters that became visible in between.
            depth = self._depth()
            # Another reader hides dead letters, such as a run that was just killed.
            is_hidden = depth.in_flight > len(self._hidden)
            quiet = 0 if is_any or is_hidden else quiet + 1
            waited = self._clock() - quiet_since
            is_over = quiet >= QUIET_RECEIVES or (quiet and not depth.backlog)
            if is_over or waited > self._task.hide.total_seconds() + TIMEOUT_AFTER_HIDE:
                return

    def _receive(self, room: int) -> tuple[list[DeadLetteredMessage], bool]:
        """
        Receive at most `room` letters, of several groups if there are, and mark those that a full receive may cut.

        AWS: a receive takes as much as it can from one group, and no more of that group is delivered meanwhile (FIFO
        delivery logic). A copy of each of ten groups goes into one call, and ten of one group need ten calls.

        Returns:
            Those that the run did not hide, and whether any were received.
        """
        task = self._task
        until = self._clock() + task.hide.total_seconds() / 4
        found: list[DeadLetteredMessage] = []
        fresh: list[DeadLetteredMessage] = []
        ends: list[str] = []
        while len(found) < room and self._clock() < until:
            size = min(room - len(found), LARGEST_RECEIVE)
            # Only the first receive waits: the rest is a gain if it is there.
            letters = self._queues.receive(task.lane, limit=size, hold=task.hide, wait=not found)
            found += letters
            fresh += self._hide(letters)
            if len(letters) < size:
                is_alone = len({letter.group for letter in found}) == 1
                self._alone = ALONE_FOR if ends and not letters and is_alone else 0
                break
            ends.append(letters[-1].group)
            if self._alone:
                self._alone -= 1
                break
        if fresh:
            for group in ends:
                self._groups[group].is_cut = True
        return fresh, bool(found)

    def _hide(self, letters: Sequence[DeadLetteredMessage]) -> list[DeadLetteredMessage]:
        """Record letters as received; return those that were not."""
        fresh = [letter for letter in letters if letter.message_id not in self._groups[letter.group].hidden]
        for letter in letters:
            # Received once more, it has another receipt handle.
            self._groups[letter.group].hidden[letter.message_id] = letter
        return fresh

    @property
    def _hidden(self) -> list[DeadLetteredMessage]:
        """All letters that the run hides."""
        return [letter for group in self._groups.values() for letter in group.hidden.values()]

    def _loosened(self) -> bool:
        """
        Make a group visible that a receive may have cut, so that the next receive returns more of it.

        No message of a group is delivered while another of it is hidden, and a receive ends at ten messages.
        """
        for group in self._groups.values():
            if group.is_cut and group.hidden:
                group.is_cut = False
                self._queues.give_back(list(group.hidden.values()))
                return True
        return False

    def _settle(self, received: Sequence[DeadLetteredMessage]) -> None:
        """Copy and delete fresh dead letters."""
        task = self._task
        # Copied once more, a copy of this run that failed again would keep it going for ever.
        letters = [letter for letter in received if not self._came_back(letter)]
        self.progress.returned += len(received) - len(letters)
        wanted = [letter for letter in letters if task.wanted.matches(letter)]
        self.progress.kept += len(letters) - len(wanted)
        ready: list[DeadLetteredMessage] = []
        for wave in waves(wanted):
            ready += self._moved(wave)
            if len(ready) >= LARGEST_RECEIVE:
                self._delete(ready)
                ready = []
        self._delete(ready)

    def _came_back(self, letter: DeadLetteredMessage) -> bool:
        """Whether a letter was redriven during the run, and failed again."""
        # Of its own copies it knows; for others it needs a time on SQS's clock, which is that of its first new letter.
        if self._began is None and letter.receive_count == 1:
            self._began = letter.first_received_at
        if letter.sent_as in self._groups[letter.group].sent:
            return True
        is_late = self._began is not None and letter.sent_at > self._began
        return self._task.copies and letter.is_redriven and is_late

    def _moved(self, wave: Sequence[DeadLetteredMessage]) -> Sequence[DeadLetteredMessage]:
        """Copy letters of different groups to the lane, if that is asked for; return those that may be deleted."""
        going = [letter for letter in wave if not self._groups[letter.group].stopped]
        for letter in wave:
            if why := self._groups[letter.group].stopped:
                self.progress.failed[letter.message_id] = (
                    f"an earlier one of its group could not be sent: {why}"
                )
        self._pace(len(going))
        if not self._task.copies:
            return going
        refused: dict[str, str] = {}
        remaining = going
        for _ in range(TRIES):
            if not remaining:
                break
            refused = dict(self._queues.copy(remaining))
            remaining = [letter for letter in remaining if letter.message_id in refused]
        for letter in remaining:
            why = refused[letter.message_id]
            self.progress.failed[letter.message_id] = self._groups[letter.group].stopped = why
        copied = [letter for letter in going if letter not in remaining]
        for letter in copied:
            self._groups[letter.group].sent.add(letter.copied_as)
        return copied

    def _delete(self, letters: Sequence[DeadLetteredMessage]) -> None:
        """
        Delete dead letters with sent copies.

        A run that ends between the two leaves letters, whose second copies SQS drops within five minutes; later the
        table's record prevents them. One that could not be deleted is received again.
        """
        refused = self._queues.delete(letters) if letters else {}
        for letter in letters:
            del self._groups[letter.group].hidden[letter.message_id]
        self.progress.done += len(letters) - len(refused)
        self._report(self.progress)

    def _depth(self) -> LaneDepth:
        return self._queues.dead_letters(self._task.lane)


def waves(letters: Sequence[DeadLetteredMessage]) -> Iterator[list[DeadLetteredMessage]]:
    """
    Split into waves of at most ten with at most one of each group, in the order of each group.

    One of a group in a call: SQS may refuse an entry and accept a later one of its group.
    """
    groups: dict[str, list[DeadLetteredMessage]] = defaultdict(list)
    for letter in letters:
        groups[letter.group].append(letter)
    for place in range(max(map(len, groups.values()), default=0)):
        row = [group[place] for group in groups.values() if len(group) > place]
        yield from (row[start : start + LARGEST_RECEIVE] for start in range(0, len(row), LARGEST_RECEIVE))
