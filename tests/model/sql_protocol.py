"""
The protocol of a group in a SQL database at READ COMMITTED, where only its first entry is a candidate.

Each statement reads the committed entries of its moment and its own transaction's; what it writes is seen by others
after the commit. Writers park an entry behind an unfinished one; a relay that ends an entry makes the next one a
candidate in the same transaction. The table of groups covers what one of two transactions at once can't see.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.model.search import Violation

ABSENT, READY, PARKED, CLAIMED, DONE = "absent", "ready", "parked", "claimed", "done"
WRITING = {"write", "commit_write", "written"}
UNFINISHED = {READY, PARKED, CLAIMED}


@dataclass(frozen=True, slots=True)
class Process:
    """A writer or a relay: where it is, and what its open transaction has written."""

    phase: str
    entry: int = -1
    writes: tuple = ()
    rows: int = 0
    taken: int = 0
    kept: bool = False
    head: int = -1
    before: frozenset = frozenset()


@dataclass(frozen=True, slots=True)
class State:
    """The entries of one group, by number: states and owners; the rows of the table of groups; what may still fail."""

    entries: tuple
    owners: tuple
    processes: tuple
    rows: int = 0
    sent: frozenset = frozenset()
    crashes: int = 1
    expiries: int = 1

    @property
    def finished(self):
        """Whether every entry is done."""
        return all(one == DONE for one in self.entries)


@dataclass(slots=True, kw_only=True)
class SqlProtocol:
    """Gives the successors of a state."""

    lists_parked: bool = True
    """Whether a writer that parks an entry adds a row; else it is a mistake."""
    keeps_claimed: bool = True
    """Whether the row of a group whose first entry is claimed stays; else it is a mistake."""

    def successors(self, state):
        """Give every state that one step leads to, by the step's name."""
        for index, process in enumerate(state.processes):
            step = getattr(self, f"_{process.phase}", None)
            if step is not None:
                yield from ((f"{index} {name}", after) for name, after in step(state, index, process))
            if state.crashes and process.phase not in WRITING:
                yield f"{index} dies", _at(replace(state, crashes=state.crashes - 1), index, Process("begin"))
        for number, one in enumerate(state.entries):
            # The lock of a dead relay ends for certain; that of a slow one may.
            spent = any(
                other.entry == number and other.phase in {"send", "mark"} for other in state.processes
            )
            if one == CLAIMED and state.expiries >= spent and not _locked(state, number, -1):
                # One statement of any relay; the row is in its transaction.
                ended = replace(state, expiries=state.expiries - spent, rows=state.rows + 1)
                yield f"lock of {number} ends", _put(ended, number, PARKED, -1)

    def _write(self, state, index, process):
        """Insert an entry: parked if an unfinished one is there. The database numbers it at this moment."""
        if any(one.phase == "write" and one.entry < process.entry for one in state.processes):
            return
        parked = any(one in UNFINISHED for one in state.entries)
        to = PARKED if parked else READY
        before = frozenset(n for n, one in enumerate(state.entries) if one != ABSENT)
        rows = 1 if parked and self.lists_parked else 0
        yield (
            "inserts",
            _at(
                state,
                index,
                replace(
                    process, phase="commit_write", writes=((process.entry, to),), rows=rows, before=before
                ),
            ),
        )

    def _commit_write(self, state, index, process):
        done = replace(process, phase="written", writes=(), rows=0)
        yield "commits", _at(_committed(state, process), index, done)

    def _begin(self, state, index, process):
        """Look at the rows of the table of groups."""
        taken = state.rows - sum(one.taken for one in state.processes)
        yield "looks", _at(state, index, replace(process, phase="heads" if taken else "claim", taken=taken))

    def _heads(self, state, index, process):
        head = _first(state, process)
        kept = self.keeps_claimed and head is not None and state.entries[head] == CLAIMED
        ready = head is not None and _seen(state, process, head) == PARKED
        after = "advance" if ready else "claim"
        yield (
            "reads the first",
            _at(
                state,
                index,
                replace(process, phase=after, head=head if ready else -1, kept=process.kept or kept),
            ),
        )

    def _advance(self, state, index, process):
        """Make the first one a candidate, unless it has changed or somebody has locked it."""
        writes, kept = process.writes, process.kept
        if _locked(state, process.head, index):
            kept = True
        elif state.entries[process.head] == PARKED:
            writes = (*writes, (process.head, READY))
        after = "commit_marks" if process.entry >= 0 else "claim"
        yield "advances", _at(state, index, replace(process, phase=after, writes=writes, kept=kept, head=-1))

    def _claim(self, state, index, process):
        ready = [n for n in range(len(state.entries)) if _seen(state, process, n) == READY]
        free = [n for n in ready if not _locked(state, n, index)]
        done = replace(process, phase="commit_claim")
        if not free:
            yield "finds none", _at(state, index, done)
            return
        number = free[0]
        behind = _first(state, process) != number
        write = (number, PARKED if behind else CLAIMED)
        done = replace(done, writes=(*process.writes, write), entry=-1 if behind else number)
        yield f"claims {number}", _at(state, index, replace(done, rows=1 if behind else 0))

    def _commit_claim(self, state, index, process):
        rows = process.rows - process.taken + (1 if process.kept and process.taken else 0)
        state = _committed(state, replace(process, rows=rows), owner=index)
        after = Process("send", entry=process.entry) if process.entry >= 0 else Process("begin")
        yield "commits its claim", _at(state, index, after)

    def _send(self, state, index, process):
        number = process.entry
        for other in state.processes:
            if other.entry == number and other.before:
                for earlier in other.before:
                    if earlier not in state.sent:
                        raise Violation(f"entry {number} was sent before entry {earlier}")
        sent = state.sent | {number}
        yield "sends", _at(replace(state, sent=sent), index, replace(process, phase="mark"))

    def _mark(self, state, index, process):
        number = process.entry
        if state.entries[number] != CLAIMED or state.owners[number] != index or _locked(state, number, index):
            yield "has lost its lock", _at(state, index, Process("begin"))
            return
        yield "marks", _at(state, index, replace(process, phase="next", writes=((number, DONE),)))

    def _next(self, state, index, process):
        head = _first(state, process)
        ready = head is not None and _seen(state, process, head) == PARKED
        kept = self.keeps_claimed and head is not None and _seen(state, process, head) == CLAIMED
        after = "advance" if ready else "commit_marks"
        yield (
            "reads the next",
            _at(state, index, replace(process, phase=after, head=head if ready else -1, kept=kept)),
        )

    def _commit_marks(self, state, index, process):
        state = _committed(state, replace(process, rows=1 if process.kept else 0))
        yield "commits its marks", _at(state, index, Process("begin"))


def _at(state, index, process):
    processes = list(state.processes)
    processes[index] = process
    return replace(state, processes=tuple(processes))


def _put(state, number, to, owner):
    entries, owners = list(state.entries), list(state.owners)
    entries[number], owners[number] = to, owner
    return replace(state, entries=tuple(entries), owners=tuple(owners))


def _seen(state, process, number):
    """Read an entry as a transaction sees it now."""
    return dict(process.writes).get(number, state.entries[number])


def _first(state, process):
    """Give the first unfinished entry that a transaction sees now."""
    return next((n for n in range(len(state.entries)) if _seen(state, process, n) in UNFINISHED), None)


def _locked(state, number, index):
    """Whether another open transaction has written an entry."""
    return any(number in dict(other.writes) for place, other in enumerate(state.processes) if place != index)


def _committed(state, process, owner=-1):
    for number, to in process.writes:
        state = _put(state, number, to, owner if to == CLAIMED else -1)
    # More rows than entries say no more.
    return replace(state, rows=min(state.rows + process.rows, len(state.entries)))
