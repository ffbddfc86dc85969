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

import time
import uuid
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING

from lanes.operate.dead_letters.listing import LARGEST_RECEIVE
from lanes.operate.dead_letters.order import LetterOrder
from lanes.operate.dead_letters.progress import RunProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lanes.depth import LaneDepth
    from lanes.holds import Hold
    from lanes.operate.dead_letters.listing import DeadLetteredMessage, DeadLetterFilter, DeadLetterQueues
    from lanes.operate.overrides.holds import GroupHolds

# A run that is killed hides its dead letters for so long, and the next run waits for them.
HOLD = timedelta(seconds=30)
QUIET_RECEIVES = 2
"""Empty receives in a row after which the run ends if no other reader hides a dead letter; one if SQS counts none."""

TIMEOUT_AFTER_HOLD = 5.0
"""Seconds after the end of other readers' visibility timeouts at which the run gives up on them."""
ALONE_FOR = 9
"""Rounds with one receive each, after a second receive found no other group beside the first ten."""
MOST_AT_ONCE = 100
"""Dead letters to receive before they are settled: ten receives, each of which may return one group alone."""

SETTLED_IN_HOLD = 10 / 3
"""Dead letters a second of their visibility timeout to receive at once; even a slow run settles five times as many."""
# SQS refuses single entries of a batch for faults of its own (API_SendMessageBatch, SenderFault).
TRIES = 3


class DeadLetterRun:
    """
    Works through one dead-letter queue, each group in its order.

    If a dead letter can't be copied, the later ones of its group stay too.

    Args:
        queues: the dead-letter queues.
        lane: the lane.
        wanted: selects the dead letters.
        copies: whether to copy them to the lane before they are deleted.
        holds: the group holds.
        limit: maximum number; None for no limit.
        rate: maximum number a second; None for no limit.
        hold: visibility timeout of a received dead letter, after which another run can receive it.
        report: receives the progress after each step.
        clock: monotonic seconds.
        pause: waits for a number of seconds.
    """

    def __init__(
        self,
        *,
        queues: DeadLetterQueues,
        lane: str,
        wanted: DeadLetterFilter,
        copies: bool,
        holds: GroupHolds,
        limit: int | None = None,
        rate: float | None = None,
        hold: timedelta = HOLD,
        report: Callable[[RunProgress], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.progress = RunProgress()
        self._queues = queues
        self._lane = lane
        self._wanted = wanted
        self._copies = copies
        self._holds = holds
        self._limit = limit
        self._rate = rate
        self._hold = hold
        self._report = report
        self._clock = clock
        self._pause = pause
        self._free_at = clock()
        self._staying: dict[str, DeadLetteredMessage] = {}
        self._working: list[DeadLetteredMessage] = []
        self._stopped: dict[str, str] = {}
        self._cut: list[str] = []
        self._openings: dict[str, str] = {}
        self._orders: dict[str, LetterOrder] = {}
        self._touched: set[str] = set()
        self._found: list[Hold] | None = None
        self._alone = 0
        self._sent: set[str] = set()

    def run(self) -> RunProgress:
        """
        Work until no matching dead letter can be received; the others become visible again in any case.

        Raises:
            AwsError: a call failed. `progress` has the result so far; another run continues from there.
        """
        depth = self._queues.dead_letters(self._lane)
        self.progress.expected = depth.backlog + depth.in_flight
        self._report(self.progress)
        try:
            self._work()
            self._end_holds()
        finally:
            self._queues.give_back([*self._staying.values(), *self._working])
        depth = self._queues.dead_letters(self._lane)
        self.progress.left = depth.backlog + depth.in_flight
        return self.progress

    def _work(self) -> None:
        quiet = 0
        # Another run may hold dead letters for longer than two receives take.
        quiet_since = self._clock()
        while not self._reached_limit():
            # Holds end after a receive that finds nothing, and waits a second for that. One made before they were read
            # proves nothing, so they are read before each that may be the last.
            self._found = self._ending() if self._is_nearly_done() else None
            ends = self._receive()
            letters = self._working
            fresh = [letter for letter in letters if letter.message_id not in self._staying]
            self._staying.update({one.message_id: one for one in letters if one not in fresh})
            if fresh:
                self._settle(fresh)
                self._cut += [group for group in ends if self._of_group(group)]
                quiet, quiet_since = 0, self._clock()
                continue
            if self._cut:
                self._loosen(self._cut.pop())
                continue
            # Counted after the receive: the next receive finds dead letters that became visible in between.
            depth = self._queues.dead_letters(self._lane)
            quiet = 0 if letters or self._is_hidden_by_others(depth) else quiet + 1
            if quiet >= QUIET_RECEIVES or (quiet and not depth.backlog):
                return
            if self._clock() - quiet_since > self._hold.total_seconds() + TIMEOUT_AFTER_HOLD:
                return

    def _end_holds(self) -> None:
        """End the holds of groups without a dead letter, including any that arrived in the meantime."""
        for _ in range(TRIES):
            holds = self._ending_after_work() if self._found is None else self._found
            self._found = None
            if not holds or self._reached_limit():
                return
            # Another reader may have dead letters of these groups in hand.
            if self._is_hidden_by_others(self._queues.dead_letters(self._lane)):
                return
            staying = {letter.group for letter in self._staying.values()}
            for hold in holds:
                if hold.group not in staying and self._holds.let_go(hold):
                    self._touched.discard(hold.group)
                    self.progress.released += 1

    def _ending_after_work(self) -> list[Hold]:
        """Find dead letters from before the holds were read; later ones keep their hold from ending."""
        holds = self._ending()
        if holds:
            self._work()
        return holds

    def _is_nearly_done(self) -> bool:
        return self.progress.done + len(self._staying) >= self.progress.expected

    def _ending(self) -> list[Hold]:
        """Return the holds that may end: of groups that this run, or a killed one, worked on."""
        found = self._holds.held(self._lane)
        groups = [hold.group for hold in found if hold.group in self._touched or hold.opening]
        # The list comes from an index, which is about a second old.
        current = self._holds.read(self._lane, groups) if groups else {}
        return [hold for hold in current.values() if not hold.releasing]

    def _loosen(self, group: str) -> None:
        """
        Make a group visible that a receive may have cut, so that the next receive returns more of it.

        No message of a group is delivered while another of it is hidden, and a receive ends at ten messages.
        """
        self._queues.give_back(self._of_group(group))

    def _of_group(self, group: str) -> list[DeadLetteredMessage]:
        return [letter for letter in self._staying.values() if letter.group == group]

    def _reached_limit(self) -> bool:
        return self._limit is not None and self.progress.done >= self._limit

    def _receive(self) -> list[str]:
        """
        Receive dead letters to work on, of several groups if there are; return the groups that a full receive may cut.

        AWS: a receive takes as much as it can from one group, and no more of that group is delivered meanwhile (FIFO
        delivery logic). A copy of each of ten groups goes into one call, and ten of one group need ten calls.
        """
        room, until = self._receive_size(), self._clock() + self._hold.total_seconds() / 4
        ends: list[str] = []
        self._working = []
        while room and self._clock() < until:
            size = min(room, LARGEST_RECEIVE)
            # Only the first receive waits: the rest is a gain if it is there.
            letters = self._queues.receive(self._lane, limit=size, hold=self._hold, wait=not self._working)
            self._working = [*self._working, *letters]
            room -= len(letters)
            if len(letters) < size:
                self._alone = ALONE_FOR if ends and not letters and self._is_one_group() else 0
                break
            ends.append(letters[-1].group)
            if self._alone:
                self._alone -= 1
                break
        return ends

    def _is_one_group(self) -> bool:
        return len({letter.group for letter in self._working}) == 1

    def _receive_size(self) -> int:
        """Return how many to receive: at most the number that can be settled in half of their visibility timeout."""
        size = min(MOST_AT_ONCE, max(LARGEST_RECEIVE, int(SETTLED_IN_HOLD * self._hold.total_seconds())))
        if self._limit is not None:
            size = min(size, self._limit - self.progress.done)
        if self._rate is not None:
            # With a low rate the last of ten would be visible again before its turn.
            size = min(size, int(self._rate * self._hold.total_seconds() / 2))
        return max(1, size)

    def _is_hidden_by_others(self, depth: LaneDepth) -> bool:
        """Whether another reader hides dead letters, such as a run that was just killed."""
        return depth.in_flight > len(self._staying)

    def _settle(self, received: Sequence[DeadLetteredMessage]) -> None:
        # A copy that failed again is back; copied once more, it would keep the run going for ever.
        letters = [letter for letter in received if letter.sent_as not in self._sent]
        self._stay([letter for letter in received if letter not in letters])
        self.progress.returned += len(received) - len(letters)
        self._working = letters
        self._look_at_holds(letters)
        letters = [letter for letter in letters if not self._sent_back(letter)]
        meant = [letter for letter in letters if self._wanted.matches(letter)]
        self._stay([letter for letter in letters if letter not in meant])
        self.progress.kept += len(letters) - len(meant)
        self._working = meant
        self._announce(meant)
        ready: list[DeadLetteredMessage] = []
        for wave in waves(meant):
            ready += self._copied(wave) if self._copies else self._paced(wave)
            if len(ready) >= LARGEST_RECEIVE:
                self._delete(ready)
                ready = []
        self._delete(ready)
        self._working = []

    def _delete(self, ready: Sequence[DeadLetteredMessage]) -> None:
        # Deleted only after the copy: if the run ends between the two, SQS drops the next run's copy within five
        # minutes, and later the table's record prevents it.
        refused = self._queues.delete(ready) if ready else {}
        # A dead letter that could not be deleted is received again, and SQS drops its second copy.
        self.progress.done += len(ready) - len(refused)
        self._touched |= {letter.group for letter in ready}
        finished = {letter.message_id for letter in ready}
        self._working = [letter for letter in self._working if letter.message_id not in finished]
        self._report(self.progress)

    def _look_at_holds(self, letters: Sequence[DeadLetteredMessage]) -> None:
        """Record leaders that have arrived, and let copies of held groups pass."""
        groups = sorted({letter.group for letter in letters})
        holds = self._holds.read(self._lane, groups) if groups else {}
        arrived = {group for group, hold in holds.items() if hold.arrived}
        for letter in letters:
            hold = holds.get(letter.group)
            if hold is not None and letter.group not in arrived and letter.original_id == hold.leader:
                self._holds.arrived(self._lane, letter.group, leader=hold.leader)
                arrived.add(letter.group)
        if self._copies:
            meant = {letter.group for letter in letters if self._wanted.matches(letter)}
            for group in meant & holds.keys():
                self._open(holds[group], has_arrived=group in arrived)

    def _open(self, hold: Hold, *, has_arrived: bool) -> None:
        """Let copies of a held group pass, once a run: a message that fails again closes its group."""
        group = hold.group
        if not has_arrived:
            self._stopped[group] = f"the dead letter of {hold.id}, which comes first, is on its way"
            return
        if group in self._openings:
            if hold.opening != self._openings[group]:
                self._stopped[group] = f"its group is held again behind {hold.id}"
            return
        # That of a run that was killed goes on.
        opening = hold.opening or uuid.uuid4().hex[:8]
        self._openings[group] = opening
        if hold.again:
            self._orders[group] = LetterOrder()
        if not self._holds.open(self._lane, group, opening=opening):
            self._stopped[group] = "its group was opened by another run or released in the meantime"

    def _sent_back(self, letter: DeadLetteredMessage) -> bool:
        """Send a letter that is not next in its group to the end of the queue; return whether it was."""
        order = self._orders.get(letter.group)
        if order is None or letter.group in self._stopped:
            return False
        if order.takes(letter, is_meant=self._wanted.matches(letter)) or order.is_done:
            return False
        order.sent_back(self._queues.send_back(letter))
        return True

    def _announce(self, letters: Sequence[DeadLetteredMessage]) -> None:
        """Announce to each held group the last of its copies, all of which are sent next."""
        last = {letter.group: letter for letter in letters if letter.group not in self._stopped}
        for group in last.keys() & self._openings.keys():
            opening = self._openings[group]
            if not self._holds.sending(
                self._lane, group, copy=last[group].copied_as(opening), opening=opening
            ):
                self._stopped[group] = "its group was held again or released in the meantime"

    def _copied(self, wave: Sequence[DeadLetteredMessage]) -> list[DeadLetteredMessage]:
        copied: list[DeadLetteredMessage] = []
        passing = [letter for letter in wave if letter.group not in self._stopped]
        for letter in [letter for letter in wave if letter not in passing]:
            why = self._stopped[letter.group]
            self._fail(letter, f"an earlier one of its group could not be sent: {why}")
        going = self._paced(passing)
        refused = self._copy(going)
        for letter in going:
            if letter.message_id in refused:
                self._stopped[letter.group] = refused[letter.message_id]
                self._fail(letter, refused[letter.message_id])
            else:
                copied.append(letter)
                self._sent.add(letter.copied_as(self._openings.get(letter.group, "")))
        return copied

    def _copy(self, letters: Sequence[DeadLetteredMessage]) -> dict[str, str]:
        refused: dict[str, str] = {}
        remaining = list(letters)
        for _ in range(TRIES):
            if not remaining:
                break
            refused = dict(self._queues.copy(remaining, self._openings))
            remaining = [letter for letter in remaining if letter.message_id in refused]
        return refused

    def _fail(self, letter: DeadLetteredMessage, why: str) -> None:
        self.progress.failed[letter.message_id] = why
        self._stay([letter])

    def _stay(self, letters: Sequence[DeadLetteredMessage]) -> None:
        self._staying.update({letter.message_id: letter for letter in letters})

    def _paced(self, letters: Sequence[DeadLetteredMessage]) -> list[DeadLetteredMessage]:
        """Wait until the rate allows them."""
        if self._rate is not None and letters:
            now = self._clock()
            if self._free_at > now:
                self._pause(self._free_at - now)
            # Time that was not used is lost, so a slow call is followed by no burst.
            self._free_at = max(self._free_at, now) + len(letters) / self._rate
        return list(letters)


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
