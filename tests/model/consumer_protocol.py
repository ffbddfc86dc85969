"""
The consumer's protocol as a small machine: whatever can be interleaved or cut off by a crash is one step.

One lane, its queue, the mapping's batches and the ledger's table. The causes of receives and the announcement of
attempts are the product's own (`Entry`). Time is not counted: what is hidden may return at any moment, a handler may
end in any way, a lane above may call for a yield before any record, as long as the budgets of the scene last.
Idempotency is off, so a message whose deletion was lost is worked on again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lanes.consumer.ledger import Ending, Entry
from tests.model.search import Violation

MOST_ATTEMPTS = 2
LANE = "MAIN"
QUEUED, HIDDEN, GONE = "queued", "hidden", "gone"


@dataclass(frozen=True, slots=True)
class Received:
    """What the product's `Entry` asks of a record."""

    receive_count: int
    first_received_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Message:
    """
    One message: where it is, what the ledger says of it, and what truly became of it (`handled`, `dead`, `failures`).

    `with_` names the messages whose visibility ends together with its own. `failures` counts attempts that failed or
    whose end could not be told; `unseen` those among them that the ledger never heard of.
    """

    group: str = "g"
    where: str = QUEUED
    receives: int = 0
    row: Entry | None = None
    with_: frozenset = frozenset()
    parked: bool = False
    handled: bool = False
    dead: str = ""
    failures: int = 0
    unseen: int = 0

    @property
    def finished(self):
        """Whether its end is decided."""
        return self.handled or bool(self.dead)


@dataclass(frozen=True, slots=True)
class Invocation:
    """Where one invocation is; all that it remembers is gone when its process dies."""

    phase: str
    records: tuple
    entries: tuple = ()
    position: int = 0
    done: frozenset = frozenset()
    returned: tuple = ()
    lost: frozenset = frozenset()
    announced: bool = False
    made_way: frozenset = frozenset()
    unnoted: frozenset = frozenset()
    let_go: frozenset = frozenset()


@dataclass(frozen=True, slots=True)
class State:
    """The whole: messages in the order sent, invocations, and what may still go wrong."""

    messages: tuple
    invocations: tuple = (None,)
    yields: int = 1
    crashes: int = 1
    failures: int = 1
    expiries: int = 0
    signals: int = 1

    @property
    def finished(self):
        """Whether every message has left the queue."""
        return all(message.where == GONE for message in self.messages)


@dataclass(frozen=True, slots=True)
class Mistakes:
    """Errors that others have made, to see that the search finds them."""

    goes_on_after_a_yield: bool = False
    goes_on_after_a_failure: bool = False
    answers_empty_on_error: bool = False
    counts_receives_as_attempts: bool = False
    counts_yields_as_attempts: bool = False
    releases_one_record: bool = False
    enters_without_holding: bool = False
    announces_nothing: bool = False
    gives_up_unnoted: bool = False
    lets_go_before_noting: bool = False


@dataclass(slots=True)
class Protocol:
    """Gives the successors of a state."""

    mistakes: Mistakes = field(default_factory=Mistakes)
    batch: int = 2

    def successors(self, state):
        """Give every state that one step leads to, by the step's name."""
        for slot, invocation in enumerate(state.invocations):
            if invocation is None:
                yield from self._receive(state, slot)
                continue
            step = {
                "throttled": self._enter,
                "look up": self._look_up,
                "work": self._work,
                "running": self._run,
                "give up": self._give_up,
                "settle": self._settle,
                "let go": self._let_go,
                "note late": self._note_late,
                "answer": self._answer,
            }[invocation.phase]
            yield from step(state, slot, invocation)
            if state.crashes and invocation.phase != "throttled":
                yield f"{slot} dies", self._died(state, slot, invocation)
        yield from self._returns(state)

    def _receive(self, state, slot):
        """SQS: a group of which anything is in flight gives nothing; a batch takes groups from their heads on."""
        blocked = {message.group for message in state.messages if message.where == HIDDEN}
        numbers = [
            number
            for number, message in enumerate(state.messages)
            if message.where == QUEUED and message.group not in blocked
        ][: self.batch]
        if not numbers:
            return
        for number in numbers:
            message = state.messages[number]
            together = frozenset(other for other in numbers if state.messages[other].group == message.group)
            state = _put(
                state, number, replace(message, where=HIDDEN, receives=message.receives + 1, with_=together)
            )
        records = tuple((number, state.messages[number].receives) for number in numbers)
        yield f"{slot} gets {numbers}", _at(state, slot, Invocation(phase="throttled", records=records))

    def _returns(self, state):
        """What is hidden returns, all that was hidden together at once, unless an invocation still holds it."""
        held = {
            (number, receive)
            for invocation in state.invocations
            if invocation is not None and invocation.phase != "throttled"
            for number, receive in invocation.records
            if number not in invocation.lost | invocation.let_go
        }
        waiting = {
            (number, receive)
            for invocation in state.invocations
            if invocation is not None and invocation.phase == "throttled"
            for number, receive in invocation.records
        }
        for together in {message.with_ for message in state.messages if message.where == HIDDEN}:
            receives = {(number, state.messages[number].receives) for number in together}
            if receives & held:
                continue
            after = self._visible(state, together)
            if not receives & waiting:
                if any(state.messages[number].parked for number in together):
                    self._check_woken(after, together)
                yield f"{sorted(together)} return", after
            elif state.expiries:
                yield f"{sorted(together)} expire", replace(after, expiries=state.expiries - 1)

    def _visible(self, state, together):
        for number in together:
            if state.messages[number].where == HIDDEN:
                message = replace(state.messages[number], where=QUEUED, with_=frozenset(), parked=False)
                state = _put(state, number, message)
        return state

    def _check_woken(self, state, together):
        """What was parked is freed so that it can be delivered; a record left behind would keep its group hidden."""
        groups = {state.messages[number].group for number in together}
        if any(message.parked and message.group in groups for message in state.messages):
            raise Violation("a group is freed, and a record left behind keeps it hidden")

    def _enter(self, state, slot, invocation):
        lost = frozenset(
            number
            for number, receive in invocation.records
            if (state.messages[number].where, state.messages[number].receives) != (HIDDEN, receive)
        )
        if self.mistakes.enters_without_holding:
            lost = frozenset()
        yield f"{slot} begins", _at(state, slot, replace(invocation, phase="look up", lost=lost))

    def _look_up(self, state, slot, invocation):
        entries = tuple(
            _as_received(state.messages[number].row, number, receive)
            for number, receive in invocation.records
        )
        yield (
            f"{slot} reads the ledger",
            _at(state, slot, replace(invocation, phase="work", entries=entries)),
        )
        if state.failures:
            fewer = replace(state, failures=state.failures - 1)
            phase = "answer" if self.mistakes.answers_empty_on_error else "settle"
            done = frozenset(number for number, _ in invocation.records)
            failed = replace(
                invocation,
                phase=phase,
                returned=tuple((number, None) for number, _ in invocation.records),
                done=done if self.mistakes.answers_empty_on_error else frozenset(),
            )
            yield f"{slot} can't read the ledger", _at(fewer, slot, failed)

    def _work(self, state, slot, invocation):
        if invocation.position == len(invocation.records):
            yield f"{slot} is through", _at(state, slot, replace(invocation, phase="settle"))
            return
        number, _ = invocation.records[invocation.position]
        if self._stays_behind(state, invocation, number):
            yield (
                f"{slot} keeps {number} back",
                _at(state, slot, _returned(invocation, number, Ending.RETURNED)),
            )
            return
        if state.yields:
            yield (
                f"{slot} yields at {number}",
                _at(replace(state, yields=state.yields - 1), slot, self._yielded(invocation)),
            )
        yield from self._begin(state, slot, invocation, number)

    def _stays_behind(self, state, invocation, number):
        group = state.messages[number].group
        ignored = {
            Ending.FAILED: self.mistakes.goes_on_after_a_failure,
            Ending.YIELDED: self.mistakes.goes_on_after_a_yield,
        }
        before = {other for other, why in invocation.returned if not ignored.get(why)} | invocation.lost
        return any(state.messages[other].group == group for other in before)

    def _yielded(self, invocation):
        if self.mistakes.goes_on_after_a_yield:
            number, _ = invocation.records[invocation.position]
            return _returned(replace(invocation, phase="work"), number, Ending.YIELDED)
        known = {other for other, _ in invocation.returned} | invocation.done
        rest = tuple(
            (number, Ending.YIELDED)
            for number, _ in invocation.records[invocation.position :]
            if number not in known
        )
        return replace(invocation, phase="settle", returned=(*invocation.returned, *rest))

    def _begin(self, state, slot, invocation, number):
        entry = invocation.entries[invocation.position]
        spent = entry.attempts
        if self.mistakes.counts_receives_as_attempts:
            spent = max(0, invocation.records[invocation.position][1] - 1)
        if entry.given_up or spent >= MOST_ATTEMPTS:
            phase = replace(invocation, phase="give up")
            yield f"{slot} gives {number} up", _at(state, slot, phase)
            return
        announced = entry.announces_attempts and not self.mistakes.announces_nothing
        if not announced:
            yield (
                f"{slot} runs {number}",
                _running(state, slot, replace(invocation, phase="running", announced=False)),
            )
            return
        counted = replace(
            entry, attempts=entry.attempts + 1, ending=Ending.STARTED, noted_receive=_receive(invocation)
        )
        noted = _put(state, number, replace(state.messages[number], row=counted))
        running = replace(_with_entry(invocation, counted), phase="running", announced=True)
        yield f"{slot} announces and runs {number}", _running(noted, slot, running)
        if state.failures:
            fewer = replace(state, failures=state.failures - 1)
            yield (
                f"{slot} can't announce {number}",
                _at(fewer, slot, _returned(invocation, number, Ending.RETURNED)),
            )

    def _run(self, state, slot, invocation):
        number, _ = invocation.records[invocation.position]
        message, entry = state.messages[number], invocation.entries[invocation.position]
        yield f"{number} succeeds", self._succeeded(state, slot, invocation, number)
        if state.yields:
            yield f"{number} yields in mid-work", self._made_way(state, slot, invocation, number)
        failed = _put(state, number, replace(message, failures=message.failures + 1))
        if not invocation.announced:
            entry = replace(entry, attempts=entry.attempts + 1)
        entry = replace(entry, ending=Ending.FAILED, noted_receive=_receive(invocation))
        yield f"{number} fails", self._after_failure(failed, slot, invocation, number, entry, noted=True)
        if state.failures and not invocation.announced:
            fewer = replace(failed, failures=state.failures - 1)
            unnoted = replace(invocation, unnoted=invocation.unnoted | {number})
            after = self._after_failure(fewer, slot, unnoted, number, entry, noted=False)
            yield f"{number} fails and can't be noted", after
        if state.signals:
            noted = not self.mistakes.gives_up_unnoted
            final = replace(entry, given_up="asked for") if noted else entry
            told = _put(failed, number, replace(failed.messages[number], row=final))
            fewer = replace(told, signals=state.signals - 1)
            asked = replace(_with_entry(invocation, replace(final, given_up="asked for")), phase="give up")
            yield f"{number} asks to be dead-lettered", _at(fewer, slot, asked)

    def _made_way(self, state, slot, invocation, number):
        entry = invocation.entries[invocation.position]
        if invocation.announced:
            forgiven = _with_entry(invocation, replace(entry, attempts=entry.attempts - 1))
            invocation = replace(forgiven, made_way=frozenset({number}))
        return _at(replace(state, yields=state.yields - 1), slot, self._yielded(invocation))

    def _succeeded(self, state, slot, invocation, number):
        state = _handled(state, number)
        after = replace(
            invocation, phase="work", position=invocation.position + 1, done=invocation.done | {number}
        )
        if invocation.announced:
            entry = invocation.entries[invocation.position]
            row = replace(entry, attempts=entry.attempts - 1, ending=Ending.NONE)
            state = _put(state, number, replace(state.messages[number], row=row))
        return _at(state, slot, after)

    def _after_failure(self, state, slot, invocation, number, entry, *, noted):
        if noted:
            state = _put(state, number, replace(state.messages[number], row=entry))
        invocation = _with_entry(invocation, entry)
        if entry.attempts >= MOST_ATTEMPTS:
            return _at(state, slot, replace(invocation, phase="give up"))
        return _at(state, slot, _returned(replace(invocation, phase="work"), number, Ending.FAILED))

    def _give_up(self, state, slot, invocation):
        number, _ = invocation.records[invocation.position]
        entry = invocation.entries[invocation.position]
        reason = entry.given_up or "exhausted"
        sent = _dead_lettered(state, number, reason)
        after = replace(
            invocation, phase="work", position=invocation.position + 1, done=invocation.done | {number}
        )
        yield f"{number} is dead-lettered", _at(sent, slot, after)
        if state.failures:
            kept = _returned(
                replace(_with_entry(invocation, replace(entry, given_up=reason)), phase="work"),
                number,
                Ending.FAILED,
            )
            yield (
                f"the dead letter of {number} is refused",
                _at(replace(state, failures=state.failures - 1), slot, kept),
            )
            yield (
                f"the answer for the dead letter of {number} is lost",
                _at(replace(sent, failures=state.failures - 1), slot, kept),
            )

    def _settle(self, state, slot, invocation):
        """What goes back is noted while it is still hidden, or a late note would replace that of its next receive."""
        if self.mistakes.lets_go_before_noting:
            yield f"{slot} lets go", self._gone_back(state, slot, invocation, "note late")
            return
        noted = self._noted(state, invocation)
        yield f"{slot} notes what goes back", _at(noted, slot, replace(invocation, phase="let go"))
        if _mine(invocation) and state.failures:
            fewer = replace(_untold(state, invocation), failures=state.failures - 1)
            yield f"{slot} can't note what goes back", _at(fewer, slot, replace(invocation, phase="let go"))

    def _let_go(self, state, slot, invocation):
        yield f"{slot} lets go", self._gone_back(state, slot, invocation, "answer")

    def _note_late(self, state, slot, invocation):
        noted = self._noted(state, invocation)
        yield f"{slot} notes what went back", _at(noted, slot, replace(invocation, phase="answer"))

    def _gone_back(self, state, slot, invocation, phase):
        mine = [number for number, _ in _mine(invocation)]
        for number in mine:
            group = state.messages[number].group
            together = frozenset(other for other in mine if state.messages[other].group == group)
            if self.mistakes.releases_one_record:
                together = frozenset({number})
            state = _put(state, number, replace(state.messages[number], with_=together, parked=True))
        return _at(state, slot, replace(invocation, phase=phase, let_go=frozenset(mine)))

    def _noted(self, state, invocation):
        places = {number: place for place, (number, _) in enumerate(invocation.records)}
        for number, why in _mine(invocation):
            if why is None:
                continue
            entry = invocation.entries[places[number]]
            row = replace(
                entry,
                attempts=entry.attempts + (why is Ending.YIELDED and self.mistakes.counts_yields_as_attempts),
                ending=why,
                noted_receive=invocation.records[places[number]][1],
            )
            state = _put(state, number, replace(state.messages[number], row=row))
        return state

    def _answer(self, state, slot, invocation):
        """The mapping deletes what the answer does not name; a receipt that is not the last one deletes nothing."""
        deleted = state
        for number, receive in invocation.records:
            message = state.messages[number]
            if number in invocation.done and (message.where, message.receives) == (HIDDEN, receive):
                if not message.finished:
                    raise Violation(f"message {number} is lost")
                deleted = _put(deleted, number, Message(group=message.group, where=GONE, handled=True))
        yield f"{slot} answers", _at(deleted, slot, None)
        if state.failures:
            yield (
                f"the answer of {slot} is lost",
                _at(replace(state, failures=state.failures - 1), slot, None),
            )

    def _died(self, state, slot, invocation):
        if invocation.phase == "running":
            number, _ = invocation.records[invocation.position]
            message = state.messages[number]
            state = _put(state, number, replace(message, failures=message.failures + 1))
            state = state if invocation.announced else _unseen(state, number)
        elif invocation.phase not in {"let go", "answer"}:
            state = _untold(state, invocation)
        return _at(replace(state, crashes=state.crashes - 1), slot, None)


def _as_received(row, number, receive):
    entry = row or Entry(lane=LANE, message_id=str(number))
    return entry if receive == 1 else entry.seen_again(Received(receive))


def _mine(invocation):
    """Return what goes back and is still this invocation's."""
    return [(number, why) for number, why in invocation.returned if number not in invocation.lost]


def _receive(invocation):
    return invocation.records[invocation.position][1]


def _with_entry(invocation, entry):
    entries = list(invocation.entries)
    entries[invocation.position] = entry
    return replace(invocation, entries=tuple(entries))


def _returned(invocation, number, why):
    return replace(
        invocation, position=invocation.position + 1, returned=(*invocation.returned, (number, why))
    )


def _running(state, slot, invocation):
    """A handler begins: what came before it in its group must be finished, and none of it be worked on elsewhere."""
    number, _ = invocation.records[invocation.position]
    group = state.messages[number].group
    for earlier in range(number):
        if state.messages[earlier].group == group and not state.messages[earlier].finished:
            raise Violation(f"message {number} is handled before message {earlier} of its group")
    for other, running in enumerate(state.invocations):
        if other != slot and running is not None and running.phase == "running":
            theirs, _ = running.records[running.position]
            if state.messages[theirs].group == group:
                raise Violation(f"messages {number} and {theirs} of a group are handled at once")
    return _at(state, slot, invocation)


def _untold(state, invocation):
    """
    Count what an invocation could not write down before it ended.

    An announced attempt that made way stays counted; a failed one that nothing had announced is not.
    """
    for number in invocation.made_way:
        message = state.messages[number]
        state = _put(state, number, replace(message, failures=message.failures + 1))
    for number in invocation.unnoted:
        state = _unseen(state, number)
    return state


def _unseen(state, number):
    message = state.messages[number]
    if message.unseen:
        raise Violation(f"a second attempt of message {number} went uncounted")
    return _put(state, number, replace(message, unseen=1))


def _handled(state, number):
    message = state.messages[number]
    if message.dead:
        raise Violation(f"message {number} is done, and dead-lettered already")
    return _put(state, number, replace(message, handled=True))


def _dead_lettered(state, number, reason):
    """One that was done before may be: its deletion was lost, and without idempotency it is worked on once more."""
    message = state.messages[number]
    counted = message.failures - message.unseen
    if reason == "exhausted" and counted != MOST_ATTEMPTS:
        raise Violation(f"message {number} is dead-lettered after {counted} counted attempts")
    return _put(state, number, replace(message, dead=reason))


def _put(state, number, message):
    messages = list(state.messages)
    messages[number] = message
    return replace(state, messages=tuple(messages))


def _at(state, slot, invocation):
    invocations = list(state.invocations)
    invocations[slot] = invocation
    # Which slot is which makes no difference, so one order of them stands for all.
    invocations.sort(key=lambda one: ("", ()) if one is None else (one.phase, one.records))
    return replace(state, invocations=tuple(invocations))
