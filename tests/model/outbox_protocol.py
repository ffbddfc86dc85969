"""
The protocol of the outbox as a small machine: whatever can be interleaved or cut off by a crash is one step.

The store's promise is one conditional write of one entry at a time, which is what DynamoDB gives; `sql_protocol` has
the claims of a SQL database. What may be claimed is decided by the product's own `choose`. Time is not counted: a lock
may end, and a retry may come due, at any moment.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lanes.outbox.rules import Candidate, choose
from tests.model.search import Violation

PENDING, PROCESSING, PUBLISHED, FAILED, ABANDONED = (
    "PENDING",
    "PROCESSING",
    "PUBLISHED",
    "FAILED",
    "ABANDONED",
)
FINISHED = {PUBLISHED, ABANDONED}
WAITING = {PENDING, FAILED}
HIGH, LOW = 1, 0
NOBODY, A_DEAD_CLAIM = -1, -2
MOST_ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class Entry:
    """What the store knows of one entry, and whether the queue has it."""

    group: str | None
    lane: int
    state: str = PENDING
    ready: bool = True
    parked: bool = False
    timer: bool = False
    passed: bool = False
    owner: int = NOBODY
    attempts: int = 0
    in_queue: bool = False
    moved: bool = False

    @property
    def chain(self):
        """Group and lane, or nothing to keep in order."""
        return None if self.group is None else f"{self.lane}#{self.group}"


@dataclass(frozen=True, slots=True)
class RelayState:
    """Where one relay is in its round; what it remembers is gone after a crash."""

    phase: str = "idle"
    todo: tuple = ()
    held: tuple = ()
    outcomes: tuple = ()
    wake: tuple = ()


@dataclass(frozen=True, slots=True)
class State:
    """The whole: entries in order of age, relays, an operator's unfinished wake, and what may still go wrong."""

    entries: tuple
    relays: tuple
    operator: str | None = None
    moving: int | None = None
    crashes: int = 1
    failures: int = 1
    expiries: int = 2
    moves: int = 1

    @property
    def finished(self):
        """Whether every entry has its end."""
        return all(entry.state in FINISHED for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Mistakes:
    """Errors that others have made, to see that the search finds them."""

    mark_before_publish: bool = False
    claim_by_read_then_write: bool = False
    mark_after_lock_lost: bool = False
    park_without_timer: bool = False
    keep_timer_at_head: bool = False
    move_before_timer: bool = False
    end_due_timer: bool = False
    ignore_group_order: bool = False


@dataclass(slots=True)
class Protocol:
    """Gives the successors of a state."""

    mistakes: Mistakes = field(default_factory=Mistakes)
    batch: int = 2
    woken_at_once: int = 2

    def successors(self, state):
        """Give every state that one step leads to, by the step's name."""
        _check_published(state)
        for index in range(len(state.relays)):
            yield from self._relay_steps(state, index)
        for number, entry in enumerate(state.entries):
            if entry.timer:
                yield from self._due(state, number, entry)
            if state.moves and entry.state in WAITING and state.operator is None:
                yield from self._move(state, number, entry)
        if state.moving is not None:
            yield from self._moved(state, state.moving)
        if state.operator is not None:
            woken = self._woken(state, state.operator)
            yield "operator wakes", replace(_timed(woken, state.operator, 0), operator=None)
            yield "operator dies", replace(state, operator=None)

    def _due(self, state, number, entry):
        if entry.state == PROCESSING:
            # The lock of a dead relay ends for certain; that of a slow one may.
            spent = 0 if entry.owner == A_DEAD_CLAIM else 1
            if state.expiries >= spent:
                free = replace(entry, state=PENDING, owner=NOBODY, ready=True, timer=False)
                after = replace(_put(state, number, free), expiries=state.expiries - spent)
                yield f"lock of {number} ends", after
        elif not entry.parked:
            yield f"{number} is due", _put(state, number, replace(entry, ready=True, timer=False))
        elif _behind(state, number, entry.chain) is not None:
            yield from self._waits_on(state, number, entry)
        else:
            yield from self._group_due(state, number, entry)

    def _waits_on(self, state, number, entry):
        """End the timer of a parked entry if the first parked one of its group has one; else it is set again."""
        first = _first_parked(state, entry.chain)
        before = state.entries[first]
        # A timer that is due may be passed on at this moment, and that of an operator comes later than its change.
        is_safe = self.mistakes.end_due_timer or not before.passed
        if first < number and before.timer and is_safe and state.moving is None:
            yield f"{number} waits on", _put(state, number, replace(entry, timer=False))

    def _group_due(self, state, number, entry):
        """Pass the timer of a group to the next parked entry; a relay may die before the first is a candidate."""
        if not entry.passed:
            passed = _put(state, number, replace(entry, passed=True))
            passed = passed if self.mistakes.keep_timer_at_head else _timed(passed, entry.chain, number + 1)
            yield f"{number} passes its timer", passed
        else:
            ripe = replace(entry, ready=True, timer=False, parked=False, passed=False)
            yield f"{number} is due", _put(state, number, ripe)

    def _move(self, state, number, entry):
        if state.moving is not None:
            return
        begun = replace(state, moves=state.moves - 1, moving=number)
        if entry.parked and not self.mistakes.move_before_timer:
            begun = _timed(begun, entry.chain, number + 1)
        yield f"operator begins to move {number}", begun

    def _moved(self, state, number):
        """Write the new lane if the entry still waits; its group has another timer by then."""
        entry = state.entries[number]
        yield "operator dies", replace(state, moving=None)
        if entry.state not in WAITING:
            return
        moved = replace(entry, lane=1 - entry.lane, moved=True)
        if entry.parked:
            moved = replace(moved, ready=True, parked=False, timer=False, passed=False)
        yield (
            f"operator moves {number}",
            replace(_put(state, number, moved), moving=None, operator=entry.chain),
        )

    def _relay_steps(self, state, index):
        relay = state.relays[index]
        if relay.phase == "idle":
            yield from self._read(state, index)
            return
        step = {"lock": self._lock, "send": self._send, "mark": self._mark, "wake": self._wake}[relay.phase]
        yield from step(state, index, relay)
        if state.crashes:
            yield f"relay {index} dies", replace(_reset(state, index), crashes=state.crashes - 1)

    def _read(self, state, index):
        """Read candidates and their chains, and decide; nothing is written yet."""
        ready = [number for number, entry in enumerate(state.entries) if entry.ready]
        order = sorted(ready, key=lambda number: (-state.entries[number].lane, number))[: self.batch]
        choice = choose(
            Candidate(
                id=str(number),
                chain=state.entries[number].chain,
                behind=None
                if self.mistakes.ignore_group_order
                else _behind(state, number, state.entries[number].chain),
            )
            for number in order
        )
        todo = tuple(("lock", int(one.id), state.entries[int(one.id)].lane) for one in choice.claimed)
        todo += tuple(("park", int(one.id), state.entries[int(one.id)].lane) for one in choice.blocked)
        if todo:
            yield f"relay {index} reads {todo}", _relay(state, index, phase="lock", todo=todo)

    def _lock(self, state, index, relay):
        (verb, number, lane), rest = relay.todo[0], relay.todo[1:]
        entry = state.entries[number]
        held, wake = relay.held, relay.wake
        is_as_read = entry.ready and entry.lane == lane
        may = is_as_read or (self.mistakes.claim_by_read_then_write and entry.state not in FINISHED)
        if verb == "lock" and may:
            if entry.owner not in {NOBODY, index}:
                raise Violation(f"two relays hold entry {number} while its lock lives")
            locked = replace(entry, state=PROCESSING, owner=index, ready=False, timer=True)
            state, held = _put(state, number, locked), (*held, number)
            if not self.mistakes.ignore_group_order:
                _check_chain(state, number, held)
        elif verb == "lock":
            # The later ones of its chain may not be locked without it.
            rest = tuple(
                (todo, one, seen)
                for todo, one, seen in rest
                if todo == "park" or entry.chain is None or state.entries[one].chain != entry.chain
            )
        elif is_as_read:
            # The group has one timer.
            timer = not self.mistakes.park_without_timer and entry.chain not in wake
            state = _put(state, number, replace(entry, ready=False, parked=True, timer=timer))
            wake = (*wake, entry.chain)
        after = {"todo": rest, "held": held, "wake": wake}
        if rest:
            yield f"relay {index} {verb}s {number}", _relay(state, index, **after)
            return
        first = "mark" if self.mistakes.mark_before_publish else "send"
        outcomes = tuple((number, PUBLISHED) for number in held) if first == "mark" else ()
        phase = first if held else "wake"
        done = {**after, "phase": phase, "todo": held, "outcomes": outcomes}
        yield f"relay {index} {verb}s {number}", _relay(state, index, **done)

    def _send(self, state, index, relay):
        number, rest = relay.todo[0], relay.todo[1:]
        entry = state.entries[number]
        blocked = any(
            outcome != PUBLISHED and state.entries[other].group == entry.group and entry.group is not None
            for other, outcome in relay.outcomes
        )
        if blocked:
            yield f"relay {index} skips {number}", self._sent(state, index, relay, rest, (number, "blocked"))
            return
        _check_order(state, number)
        sent = _put(state, number, replace(entry, in_queue=True))
        yield f"relay {index} sends {number}", self._sent(sent, index, relay, rest, (number, PUBLISHED))
        if state.failures:
            fewer = replace(state, failures=state.failures - 1)
            yield f"{number} is refused", self._sent(fewer, index, relay, rest, (number, FAILED))
            lost = replace(sent, failures=state.failures - 1)
            yield f"answer for {number} is lost", self._sent(lost, index, relay, rest, (number, FAILED))

    def _sent(self, state, index, relay, rest, outcome):
        if self.mistakes.mark_before_publish:
            return _relay(state, index, todo=rest) if rest else _relay(state, index, phase="wake", todo=())
        outcomes = (*relay.outcomes, outcome)
        if rest:
            return _relay(state, index, todo=rest, outcomes=outcomes)
        return _relay(state, index, phase="mark", todo=(), outcomes=outcomes)

    def _mark(self, state, index, relay):
        (number, outcome), rest = relay.outcomes[0], relay.outcomes[1:]
        entry = state.entries[number]
        wake = relay.wake
        if entry.owner == index or self.mistakes.mark_after_lock_lost:
            if entry.state == PUBLISHED and outcome != PUBLISHED:
                raise Violation(f"entry {number} was published and is {outcome} again")
            if entry.owner not in (index, NOBODY, A_DEAD_CLAIM):
                raise Violation(f"a relay marked entry {number}, which another one holds")
            marked = _outcome(entry, outcome)
            state = _put(state, number, marked)
            if marked.state in FINISHED:
                wake = (*wake, entry.chain)
        following = {"outcomes": rest, "wake": wake}
        if not rest:
            to_send = self.mistakes.mark_before_publish
            following |= {"phase": "send", "todo": relay.held} if to_send else {"phase": "wake", "todo": ()}
        yield f"relay {index} marks {number} {outcome}", _relay(state, index, **following)

    def _wake(self, state, index, relay):
        for chain in {one for one in relay.wake if one is not None}:
            state = self._woken(state, chain)
        yield f"relay {index} wakes", _reset(state, index)

    def _woken(self, state, chain):
        """Make the first parked entries of a chain candidates if it begins with one, and give the next its timer."""
        order = [
            number
            for number, entry in enumerate(state.entries)
            if entry.chain == chain and entry.state not in FINISHED
        ]
        if order and state.entries[order[0]].parked:
            if len(order) > self.woken_at_once:
                state = _timed(state, chain, order[self.woken_at_once])
            for number in order[: self.woken_at_once]:
                entry = state.entries[number]
                if entry.parked:
                    awake = replace(entry, ready=True, parked=False, timer=False, passed=False)
                    state = _put(state, number, awake)
        return state


def _outcome(entry, outcome):
    free = replace(entry, owner=NOBODY, timer=False, parked=False, ready=False, passed=False)
    if outcome == PUBLISHED:
        return replace(free, state=PUBLISHED)
    if outcome == "blocked":
        return replace(free, state=PENDING, parked=True, timer=True)
    attempts = entry.attempts + 1
    if attempts >= MOST_ATTEMPTS:
        return replace(free, state=ABANDONED, attempts=attempts)
    return replace(free, state=FAILED, attempts=attempts, timer=True)


def _check_chain(state, number, held):
    """
    An entry may be locked only when every earlier one of its chain is finished or locked before it.

    One that an operator moves here between the reading and the lock has no place before it.
    """
    entry = state.entries[number]
    if entry.chain is None:
        return
    for earlier in range(number):
        other = state.entries[earlier]
        unfinished = other.chain == entry.chain and other.state not in FINISHED
        if unfinished and earlier not in held and not (other.moved or entry.moved):
            raise Violation(f"entry {number} was locked before entry {earlier} of its group")


def _check_order(state, number):
    """
    An entry must not reach the queue before an earlier one of its chain that will still be sent.

    One that an operator has moved here while this one was on its way has no place before it.
    """
    entry = state.entries[number]
    if entry.chain is None or entry.in_queue:
        return
    for earlier in range(number):
        other = state.entries[earlier]
        waits = other.state not in FINISHED and not other.in_queue
        if other.chain == entry.chain and waits and not (other.moved or entry.moved):
            raise Violation(f"entry {number} was sent before entry {earlier} of its group")


def _behind(state, number, chain):
    """Give the unfinished entry directly before one in a chain."""
    earlier = (
        str(other)
        for other in reversed(range(number))
        if state.entries[other].chain == chain and state.entries[other].state not in FINISHED
    )
    return None if chain is None else next(earlier, None)


def _first_parked(state, chain, start=0):
    """Give the first parked entry of a chain from a number on."""
    parked = (
        number
        for number, entry in enumerate(state.entries)
        if number >= start and entry.parked and entry.chain == chain
    )
    return next(parked, None)


def _timed(state, chain, start):
    """Give the timer of a group to its first parked entry from a number on."""
    number = _first_parked(state, chain, start)
    return state if number is None else _put(state, number, replace(state.entries[number], timer=True))


def _put(state, number, entry):
    entries = list(state.entries)
    entries[number] = entry
    return replace(state, entries=tuple(entries))


def _relay(state, index, **changes):
    relays = list(state.relays)
    relays[index] = replace(relays[index], **changes)
    return replace(state, relays=tuple(relays))


def _reset(state, index):
    """Let a relay forget; what it still held belongs to nobody who would mark it."""
    entries = tuple(
        replace(entry, owner=A_DEAD_CLAIM) if entry.owner == index else entry for entry in state.entries
    )
    relays = list(state.relays)
    relays[index] = type(relays[index])()
    return replace(state, entries=entries, relays=tuple(relays))


def _check_published(state):
    """Nothing may be marked published that the queue does not have, once nobody is about to send it."""
    for number, entry in enumerate(state.entries):
        if entry.state == PUBLISHED and not entry.in_queue:
            sends = any(number in relay.todo or number in relay.held for relay in state.relays)
            if not sends:
                raise Violation(f"entry {number} is lost")
