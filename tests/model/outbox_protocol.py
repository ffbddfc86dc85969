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
    """
    The whole: entries in order of age, relays, an operator's unfinished wake, and what may still go wrong.

    A chain in `timers` has a timer of its own; `looking` is the one that a relay looks at, and whether it had entries.
    """

    entries: tuple
    relays: tuple
    operator: str | None = None
    timers: frozenset = frozenset()
    looking: tuple | None = None
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
    park_before_timer: bool = False
    end_timer_at_wake: bool = False
    end_timer_set_since: bool = False
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
                yield self._move(state, number, entry)
        if state.timers:
            yield from self._look(state)
        if state.operator is not None:
            yield "operator wakes", replace(self._woken(state, state.operator), operator=None)
            yield "operator dies", replace(state, operator=None)

    def _due(self, state, number, entry):
        if entry.state == PROCESSING:
            # The lock of a dead relay ends for certain; that of a slow one may.
            spent = 0 if entry.owner == A_DEAD_CLAIM else 1
            if state.expiries >= spent:
                free = replace(entry, state=PENDING, owner=NOBODY, ready=True, timer=False)
                after = replace(_put(state, number, free), expiries=state.expiries - spent)
                yield f"lock of {number} ends", after
        else:
            yield f"{number} is due", _put(state, number, replace(entry, ready=True, timer=False))

    def _look(self, state):
        """Read a group whose timer is due; then set the timer again or end it, and wake the group."""
        if state.looking is None:
            for chain in sorted(state.timers):
                yield f"looks at {chain}", replace(state, looking=(chain, bool(_unfinished(state, chain))))
            return
        (chain, has_entries), done = state.looking, replace(state, looking=None)
        yield "who looks dies", done
        if not has_entries or self.mistakes.end_timer_at_wake:
            done = replace(done, timers=done.timers - {chain})
        yield f"has looked at {chain}", self._woken(done, chain)

    def _timed(self, state, chain):
        """Set the timer of a group; a relay that looks at it meanwhile finds it changed."""
        if self.mistakes.park_without_timer:
            return state
        is_looked_at = state.looking is not None and state.looking[0] == chain
        looking = None if is_looked_at and not self.mistakes.end_timer_set_since else state.looking
        return replace(state, timers=state.timers | {chain}, looking=looking)

    def _move(self, state, number, entry):
        """Write the new lane of an entry that waits."""
        moved = replace(entry, lane=1 - entry.lane, moved=True)
        if entry.parked:
            moved = replace(moved, ready=True, parked=False)
        after = replace(_put(state, number, moved), moves=state.moves - 1, operator=entry.chain)
        return f"operator moves {number}", after

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
        for one in choice.blocked:
            number, lane = int(one.id), state.entries[int(one.id)].lane
            steps = (("set timer", number, lane), ("park", number, lane))
            todo += steps[::-1] if self.mistakes.park_before_timer else steps
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
                if todo != "lock" or entry.chain is None or state.entries[one].chain != entry.chain
            )
        elif verb == "set timer":
            state = self._timed(state, f"{lane}#{entry.group}")
        elif is_as_read:
            state = _put(state, number, replace(entry, ready=False, parked=True))
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
            state = self._timed(state, entry.chain) if marked.parked else state
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
        """Make the first parked entries of a chain candidates if it begins with one."""
        order = _unfinished(state, chain)
        if order and state.entries[order[0]].parked:
            for number in order[: self.woken_at_once]:
                entry = state.entries[number]
                if entry.parked:
                    state = _put(state, number, replace(entry, ready=True, parked=False))
        return state


def _outcome(entry, outcome):
    free = replace(entry, owner=NOBODY, timer=False, parked=False, ready=False)
    if outcome == PUBLISHED:
        return replace(free, state=PUBLISHED)
    if outcome == "blocked":
        return replace(free, state=PENDING, parked=True)
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


def _unfinished(state, chain):
    """Give the numbers of the unfinished entries of a chain, in order."""
    return [
        number
        for number, entry in enumerate(state.entries)
        if entry.chain == chain and entry.state not in FINISHED
    ]


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
