"""
The protocol of the outbox in a SQL database at READ COMMITTED: a claim as one transaction of several statements.

A statement that locks rows finds them in its snapshot, takes them one after the other, passes over those that another
transaction has locked, and reads the others as they are by then. A later statement has a later snapshot. An operator
changes several entries in one transaction, whose locks others see before they see its changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lanes.outbox.rules import Candidate, choose
from tests.model.outbox_protocol import (
    FINISHED,
    PROCESSING,
    WAITING,
    Protocol,
    RelayState,
    State,
    _behind,
    _put,
    _relay,
    _timed,
)
from tests.model.search import Violation


@dataclass(frozen=True, slots=True)
class SqlRelay(RelayState):
    """Also the transaction of its claim: the snapshot of its first statement, and the rows that it has locked."""

    snapshot: tuple = ()
    rows: tuple = ()
    earlier: frozenset = frozenset()


@dataclass(frozen=True, slots=True)
class SqlState(State):
    """Also the rows that an operator's open transaction has changed."""

    changing: tuple = ()


@dataclass(slots=True)
class SqlProtocol(Protocol):
    """Gives the successors of a state."""

    reads_chains_with_rows: bool = False
    """The mistake: one statement locks the rows and reads their chains."""

    def successors(self, state):
        """Give every state that one step leads to, by the step's name."""
        yield from Protocol.successors(self, state)
        if state.changing:
            yield "operator commits", self._committed(state)
            for number in range(state.changing[-1] + 1, len(state.entries)):
                if self._may_change(state, number):
                    yield f"operator changes {number}", replace(state, changing=(*state.changing, number))

    def _may_change(self, state, number):
        """Whether an operator's statement would change the entry now; it waits for a claim's rows."""
        entry = state.entries[number]
        is_locked = any(number in relay.rows for relay in state.relays)
        same = not state.changing or state.entries[state.changing[0]].chain == entry.chain
        return entry.state in WAITING and not is_locked and same

    def _move(self, state, number, entry):
        if not state.changing and self._may_change(state, number):
            yield f"operator changes {number}", replace(state, changing=(number,), moves=state.moves - 1)

    def _committed(self, state):
        chain = state.entries[state.changing[0]].chain
        for number in state.changing:
            entry = state.entries[number]
            moved = replace(entry, lane=1 - entry.lane, moved=True)
            if entry.parked:
                moved = replace(moved, ready=True, parked=False, timer=False, passed=False)
            state = _put(state, number, moved)
        state = state if self.mistakes.move_before_timer else _timed(state, chain, 0)
        return replace(state, changing=(), operator=chain)

    def _due(self, state, number, entry):
        # It passes over locked rows.
        if number not in state.changing:
            yield from Protocol._due(self, state, number, entry)

    def _woken(self, state, chain):
        # A row that another transaction has locked is woken after that has ended.
        kept = {number: state.entries[number] for number in state.changing}
        state = Protocol._woken(self, state, chain)
        for number, entry in kept.items():
            state = _put(state, number, entry)
        return state

    def _relay_steps(self, state, index):
        relay = state.relays[index]
        step = {"select": self._select, "choose": self._choose, "commit": self._commit}.get(relay.phase)
        if step is None:
            yield from Protocol._relay_steps(self, state, index)
            return
        yield step(state, index, relay)
        if state.crashes:
            fresh = list(state.relays)
            fresh[index] = SqlRelay()
            yield f"relay {index} dies", replace(state, relays=tuple(fresh), crashes=state.crashes - 1)

    def _read(self, state, index):
        """Begin the first statement."""
        ready = [number for number, entry in enumerate(state.entries) if entry.ready]
        if ready:
            todo = tuple(sorted(ready, key=lambda number: (-state.entries[number].lane, number)))
            claim = {"phase": "select", "todo": todo, "snapshot": state.entries}
            yield f"relay {index} begins", _relay(state, index, **claim)

    def _select(self, state, index, relay):
        """Lock the next row of the snapshot as it is by now, or pass over it."""
        if not relay.todo or len(relay.rows) == self.batch:
            return f"relay {index} has selected", _relay(state, index, phase="choose", todo=())
        number, rest = relay.todo[0], relay.todo[1:]
        entry = state.entries[number]
        is_locked = number in state.changing or any(number in other.rows for other in state.relays)
        if is_locked or not entry.ready:
            return f"relay {index} passes over {number}", _relay(state, index, todo=rest)
        before = _unfinished_before(state, number)
        locked = {"rows": (*relay.rows, number), "earlier": relay.earlier | before}
        return f"relay {index} locks row {number}", _relay(state, index, todo=rest, **locked)

    def _choose(self, state, index, relay):
        """Read the chains of the locked rows, and decide."""
        seen = replace(state, entries=relay.snapshot) if self.reads_chains_with_rows else state
        order = sorted(relay.rows, key=lambda number: (-state.entries[number].lane, number))
        choice = choose(
            Candidate(
                id=str(number),
                chain=state.entries[number].chain,
                behind=_behind(seen, number, state.entries[number].chain),
            )
            for number in order
        )
        todo = tuple(("lock", int(one.id)) for one in choice.claimed)
        todo += tuple(("park", int(one.id)) for one in choice.blocked)
        _check_earlier(state, [int(one.id) for one in choice.claimed], relay.earlier)
        return f"relay {index} chooses {todo}", _relay(state, index, phase="commit", todo=todo)

    def _commit(self, state, index, relay):
        """Write the choice; everybody sees it at once."""
        held, wake = (), ()
        for verb, number in relay.todo:
            entry = state.entries[number]
            if verb == "lock":
                locked = replace(entry, state=PROCESSING, owner=index, ready=False, timer=True)
                state, held = _put(state, number, locked), (*held, number)
            elif entry.chain not in wake:
                state = self._parked(state, index, number)
                wake = (*wake, entry.chain)
        after = {"phase": "send" if held else "wake", "todo": held, "held": held, "wake": wake}
        ended = {"snapshot": (), "rows": (), "earlier": frozenset()}
        return f"relay {index} commits", _relay(state, index, **after, **ended)

    def _parked(self, state, index, first):
        """Park the candidates of a chain from its first blocked one on, which has the timer of all."""
        others = [relay.rows for place, relay in enumerate(state.relays) if place != index]
        for number in range(first, len(state.entries)):
            entry = state.entries[number]
            is_locked = number in state.changing or any(number in rows for rows in others)
            if entry.chain == state.entries[first].chain and entry.ready and not is_locked:
                parked = replace(entry, ready=False, parked=True, timer=number == first)
                state = _put(state, number, parked)
        return state

    def _waits_on(self, state, number, entry):
        """A timer of a parked entry that waits is set again."""
        return ()

    def _group_due(self, state, number, entry):
        """One transaction passes the timer and makes the first entry a candidate."""
        if not self.mistakes.keep_timer_at_head:
            state = _timed(state, entry.chain, number + 1)
        ripe = replace(entry, ready=True, timer=False, parked=False)
        yield f"{number} is due", _put(state, number, ripe)


def _unfinished_before(state, number):
    """Give pairs of an entry and each earlier one of its chain that is not finished."""
    chain = state.entries[number].chain
    return frozenset(
        (number, earlier)
        for earlier in range(number)
        if chain is not None
        and state.entries[earlier].chain == chain
        and state.entries[earlier].state not in FINISHED
    )


def _check_earlier(state, claimed, earlier):
    """Of the entries that were before one when its row was locked, each is finished, moved on, or claimed before it."""
    for entry, before in earlier:
        other = state.entries[before]
        waits = other.state not in FINISHED and other.chain == state.entries[entry].chain
        if entry in claimed and waits and before not in claimed[: claimed.index(entry)]:
            raise Violation(f"entry {entry} was locked before entry {before} of its group")
