"""
Redrive the dead letters of a queue to their lane, or delete them.

A redrive copies first and deletes afterwards, so a run that is killed at any point loses nothing. The copy's
deduplication id is made from the dead letter's id, so SQS drops a second copy within five minutes. The queue itself is
the state of the run: another run continues where this one ended. A message that fails again returns during the run; it
is recognised by its copy's deduplication id, and stays.

Copies of a held group pass; its new messages still follow into the dead-letter queue, and are copied in their turn.
After a copy failed again, letters are copied by their places in the lane, not as they arrived. Once the queue has none
of the group, the hold ends.
"""

from __future__ import annotations

import dataclasses
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from lanes.operate.dead_letters import phases
from lanes.operate.dead_letters.group import Groups, Receiver
from lanes.operate.dead_letters.listing import LARGEST_RECEIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.depth import LaneDepth
    from lanes.holds import Hold, Holds
    from lanes.operate.dead_letters.listing import DeadLetteredMessage, DeadLetterFilter, DeadLetterQueues

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
ROUNDS = 3
"""Times that the run works until the queue is empty; each may find that a message has followed meanwhile."""


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
        released: group holds that ended.

    """

    expected: int = 0
    done: int = 0
    kept: int = 0
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    returned: int = 0
    left: int = 0
    released: int = 0


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


class DeadLetterRun:
    """
    Works through one dead-letter queue, each group in its order.

    If a dead letter can't be copied, the later ones of its group stay too.

    Args:
        task: what to do.
        queues: the dead-letter queues.
        holds: the group holds.
        report: receives the progress after each step.
        clock: monotonic seconds.
        pause: waits for a number of seconds.
    """

    def __init__(
        self,
        task: Task,
        *,
        queues: DeadLetterQueues,
        holds: Holds,
        report: Callable[[RunProgress], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.progress = RunProgress()
        self._task = task
        self._queues = queues
        self._holds = holds
        self._report = report
        self._clock = clock
        self._groups = Groups()
        self._receiver = Receiver(queues, task.lane, task.hide, clock)
        self._pace = Pace(task.rate, clock, pause)

    def run(self) -> RunProgress:
        """
        Work until no matching dead letter can be received; the others become visible again in any case.

        Raises:
            AwsError: a call failed. `progress` has the result so far; another run continues from there.
        """
        self.progress.expected = self._depth().messages
        self._report(self.progress)
        try:
            for _ in range(ROUNDS):
                if not self._end_holds(self._work()):
                    break
        finally:
            self._queues.give_back(self._groups.hidden)
        self.progress.left = self._depth().messages
        return self.progress

    def _work(self) -> list[Hold]:
        """
        Settle dead letters until none can be received; return the holds that may end then.

        They are read before the last receive: one made earlier would not prove that no dead letter of the group is
        left. That receive waits a second, so it is not made twice.
        """
        quiet, is_last = 0, False
        # Another run may hide dead letters for longer than two receives take.
        quiet_since = self._clock()
        while not self._task.is_enough(self.progress.done):
            holds = self._ending_holds() if is_last or self._is_nearly_done() else None
            fresh, is_any = self._receiver.receive(self._groups, self._task.size_after(self.progress.done))
            if fresh:
                self._settle(fresh)
                quiet, quiet_since, is_last = 0, self._clock(), False
                continue
            if self._loosened():
                continue
            # Counted after the receive: the next receive finds dead letters that became visible in between.
            depth = self._depth()
            quiet = 0 if is_any or self._is_hidden_by_others(depth) else quiet + 1
            waited = self._clock() - quiet_since
            is_over = quiet >= QUIET_RECEIVES or (quiet and not depth.backlog)
            if not is_over and waited <= self._task.hide.total_seconds() + TIMEOUT_AFTER_HIDE:
                continue
            if holds is not None:
                return holds
            if not self._ending_holds():
                return []
            is_last = True
        return []

    def _settle(self, received: Sequence[DeadLetteredMessage]) -> None:
        """Take fresh dead letters through the phases."""
        task, groups = self._task, self._groups
        letters = phases.new_letters(groups, received)
        self.progress.returned += len(received) - len(letters)
        holds = phases.record_arrivals(self._holds, letters)
        if task.copies:
            meant = {letter.group for letter in letters if task.wanted.matches(letter)}
            for group in sorted(meant & holds.keys()):
                phases.open_group(self._holds, groups[group], holds[group])
        letters = phases.send_back_others(self._queues, groups, letters, task.wanted)
        wanted = [letter for letter in letters if task.wanted.matches(letter)]
        self.progress.kept += len(letters) - len(wanted)
        phases.announce(self._holds, groups, wanted)
        ready: list[DeadLetteredMessage] = []
        for wave in phases.waves(wanted):
            ready += self._moved(wave)
            if len(ready) >= LARGEST_RECEIVE:
                self._delete(ready)
                ready = []
        self._delete(ready)

    def _moved(self, wave: Sequence[DeadLetteredMessage]) -> Sequence[DeadLetteredMessage]:
        if not self._task.copies:
            self._pace(len(wave))
            return wave
        copied, failed = phases.copy_wave(self._queues, self._groups, wave, self._pace)
        self.progress.failed |= failed
        return copied

    def _delete(self, letters: Sequence[DeadLetteredMessage]) -> None:
        self.progress.done += phases.delete(self._queues, self._groups, letters)
        self._report(self.progress)

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

    def _ending_holds(self) -> list[Hold]:
        return phases.ending_holds(self._holds, self._task.lane, self._groups)

    def _end_holds(self, ending: Sequence[Hold]) -> bool:
        """End holds; return whether there is work again, since messages have followed."""
        # Another reader may have dead letters of these groups in hand.
        if not ending or self._is_hidden_by_others(self._depth()):
            return False
        ended, is_followed = phases.end_holds(self._holds, self._groups, ending)
        self.progress.released += ended
        return is_followed

    def _is_nearly_done(self) -> bool:
        return self.progress.done + len(self._groups.hidden) >= self.progress.expected

    def _is_hidden_by_others(self, depth: LaneDepth) -> bool:
        """Whether another reader hides dead letters, such as a run that was just killed."""
        return depth.in_flight > len(self._groups.hidden)

    def _depth(self) -> LaneDepth:
        return self._queues.dead_letters(self._task.lane)
