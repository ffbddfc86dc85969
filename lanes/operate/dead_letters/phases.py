"""
The phases in which a redrive works on the dead letters of a receive.

Each is a function of the groups' state: returned copies are left out, held groups opened, letters out of order sent to
the end of their queue, copies announced, sent, and their dead letters deleted; at the end, holds are ended.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from typing import TYPE_CHECKING

from lanes.holds import State
from lanes.operate.dead_letters.group import LetterOrder
from lanes.operate.dead_letters.listing import LARGEST_RECEIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lanes.holds import Hold, Holds
    from lanes.operate.dead_letters.group import Groups, GroupState
    from lanes.operate.dead_letters.listing import DeadLetteredMessage, DeadLetterFilter, DeadLetterQueues

# SQS refuses single entries of a batch for faults of its own (API_SendMessageBatch, SenderFault).
TRIES = 3


def new_letters(groups: Groups, letters: Sequence[DeadLetteredMessage]) -> list[DeadLetteredMessage]:
    """Leave out copies of this run that failed again: copied once more, they would keep it going for ever."""
    return [letter for letter in letters if letter.sent_as not in groups[letter.group].sent]


def record_arrivals(holds: Holds, letters: Sequence[DeadLetteredMessage]) -> dict[str, Hold]:
    """Record leaders that are in the dead-letter queue; return the holds that have not ended, by group."""
    if not letters:
        return {}
    lane = letters[0].lane
    found = dict(holds.read(lane, sorted({letter.group for letter in letters})))
    early = (State.ARRIVING, State.RELEASED)
    leading = {
        letter.group
        for letter in letters
        if (hold := found.get(letter.group)) and hold.state in early and letter.original_id == hold.leader
    }
    for group in sorted(leading):
        holds.arrived(lane, group, leader=found.pop(group).leader)
    return found | dict(holds.read(lane, sorted(leading))) if leading else found


def open_group(holds: Holds, state: GroupState, hold: Hold) -> None:
    """Let copies of a held group pass, once a run: a message that fails again closes its group."""
    if hold.state in (State.ARRIVING, State.RELEASED):
        state.stopped = f"the dead letter of {hold.id}, which comes first, is on its way"
    elif state.opening:
        if hold.opening != state.opening:
            state.stopped = f"its group is held again behind {hold.id}"
    else:
        # That of a run that was killed goes on.
        state.opening = hold.opening or uuid.uuid4().hex[:8]
        state.order = LetterOrder() if hold.again else None
        if not holds.open(hold.lane, hold.group, opening=state.opening):
            state.stopped = "its group was opened by another run or released in the meantime"


def send_back_others(
    queues: DeadLetterQueues,
    groups: Groups,
    letters: Sequence[DeadLetteredMessage],
    wanted: DeadLetterFilter,
) -> list[DeadLetteredMessage]:
    """Send letters that are not next in their group to the end of their queue; return the others."""
    staying: list[DeadLetteredMessage] = []
    for letter in letters:
        state = groups[letter.group]
        if state.order is None or state.stopped or state.order.takes(letter, is_meant=wanted.matches(letter)):
            staying.append(letter)
        else:
            state.order.sent_back(queues.send_back(letter))
            groups.forget([letter])
    return staying


def announce(holds: Holds, groups: Groups, letters: Sequence[DeadLetteredMessage]) -> None:
    """Announce to each held group the last of its copies, all of which are sent next."""
    for group, letter in {letter.group: letter for letter in letters}.items():
        state = groups[group]
        if state.stopped or not state.opening:
            continue
        copy = letter.copied_as(state.opening)
        if not holds.sending(letter.lane, group, copy=copy, opening=state.opening):
            state.stopped = "its group was held again or released in the meantime"


def copy_wave(
    queues: DeadLetterQueues,
    groups: Groups,
    wave: Sequence[DeadLetteredMessage],
    pace: Callable[[int], None],
) -> tuple[list[DeadLetteredMessage], dict[str, str]]:
    """
    Copy letters of different groups to the lane; one that is refused stops its group.

    Returns:
        The copied letters, and why others were not copied, by message ID.
    """
    going = [letter for letter in wave if not groups[letter.group].stopped]
    failed = {
        letter.message_id: f"an earlier one of its group could not be sent: {groups[letter.group].stopped}"
        for letter in wave
        if groups[letter.group].stopped
    }
    pace(len(going))
    openings = {
        letter.group: groups[letter.group].opening for letter in going if groups[letter.group].opening
    }
    refused: dict[str, str] = {}
    remaining = going
    for _ in range(TRIES):
        if not remaining:
            break
        refused = dict(queues.copy(remaining, openings))
        remaining = [letter for letter in remaining if letter.message_id in refused]
    for letter in remaining:
        groups[letter.group].stopped = refused[letter.message_id]
    copied = [letter for letter in going if letter not in remaining]
    for letter in copied:
        state = groups[letter.group]
        state.sent.add(letter.copied_as(state.opening))
    return copied, failed | {letter.message_id: refused[letter.message_id] for letter in remaining}


def delete(queues: DeadLetterQueues, groups: Groups, letters: Sequence[DeadLetteredMessage]) -> int:
    """
    Delete dead letters with sent copies; return how many.

    A run that ends between the two leaves letters, whose second copies SQS drops within five minutes; later the table's
    record prevents them. One that could not be deleted is received again.
    """
    refused = queues.delete(letters) if letters else {}
    groups.forget(letters)
    for letter in letters:
        groups[letter.group].is_moved = True
    return len(letters) - len(refused)


def ending_holds(holds: Holds, lane: str, groups: Groups) -> list[Hold]:
    """Return the holds that may end: of groups that this run, or a killed one, worked on."""
    moved = {name for name, group in groups.items() if group.is_moved}
    names = [hold.group for hold in holds.held(lane) if hold.group in moved or hold.opening]
    # The list comes from an index, which is about a second old.
    current = holds.read(lane, names) if names else {}
    return [hold for hold in current.values() if hold.state is not State.RELEASING]


def end_holds(holds: Holds, groups: Groups, ending: Sequence[Hold]) -> tuple[int, bool]:
    """
    End the holds of groups that have no dead letter left.

    Returns:
        How many ended, and whether messages of another one have followed since the holds were read.
    """
    free = [hold for hold in ending if not groups[hold.group].hidden]
    ended = [hold for hold in free if holds.let_go(hold)]
    for hold in ended:
        groups[hold.group].is_moved = False
    return len(ended), len(ended) < len(free)


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
