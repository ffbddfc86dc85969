"""The promises that must hold after any run of the consumer, under any fault; checked from outside."""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from .history import Handled, History, data_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from lanes.config import ConsumerSettings
    from lanes.testing.fifo.queue import FifoQueue

    from .simulated_lanes import SimulatedLanes

SHOWN = 5
"""Number of messages that a violation names."""

FAILURES = frozenset({"failed", "died"})
"""Ends of an attempt that count as failures; a yield at a checkpoint does not."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """
    A run at its end, in virtual time or on a machine.

    Attributes:
        history: starts and ends of each message, by its place.
        handled: the messages that ended, in the order of their ends.
        dead: places of the messages in dead-letter queues.
        left: places of the messages in lanes.
        cancelled: places of messages that an operator cancelled.
        max_attempts: failed attempts after which a message is given up.
        idempotency: whether effects are claimed, so that each attempt is counted before it begins.
        lost: processes that died in the middle.
        repeats: whether work may be repeated.
        counts_attempts: whether attempts are counted exactly, but for those of lost processes.

    """

    history: History
    handled: Iterable[Handled]
    dead: Sequence[int]
    left: Sequence[int] = ()
    cancelled: Container[int] = ()
    max_attempts: int
    idempotency: bool
    lost: int = 0
    repeats: bool = False
    counts_attempts: bool = True


class Sent(NamedTuple):
    """A message of a recorded run."""

    id: str
    lane: str
    group: str
    at: float = 0.0


class Work(NamedTuple):
    """One start of a handler, and its end: "done", "failed", "died", "yielded" or "away" (with its resource)."""

    id: str
    attempt: int
    started_at: float
    ended_at: float
    how: str


class Wait(NamedTuple):
    """
    How one message of a recorded run waited.

    Attributes:
        id: of the message.
        lane: the lane that it was in.
        sent_at: when it was sent.
        free_at: when it waited for nothing but a slot: also those before it in its group had ended.
        started_at: first start of its handler that found the resource; infinity if there was none.

    """

    id: str
    lane: str
    sent_at: float
    free_at: float
    started_at: float


def violations(
    lanes: SimulatedLanes,
    *,
    foreign: Container[str] = (),
    cancelled: Container[int] = (),
    repeats: bool = False,
) -> list[str]:
    """
    Return the broken promises: no loss, no duplicate end, order within groups, exact attempts, slots.

    Args:
        lanes: the run, at its end.
        foreign: bodies that other producers put into its queues, which are not checked.
        cancelled: places of messages that an operator cancelled.
        repeats: whether work may be repeated for a reason that is not in the run's faults.

    """
    run = Run(
        history=lanes.history,
        handled=lanes.handled,
        dead=list(_places(lanes.queues.dead, foreign)),
        left=list(_places(lanes.queues.live, foreign)),
        cancelled=cancelled,
        max_attempts=lanes.config.consumer.max_attempts,
        idempotency=lanes.config.consumer.idempotency,
        lost=lanes.function.times.lost,
        repeats=repeats or _may_repeat(lanes),
        counts_attempts=not repeats
        and lanes.pattern in ("lanes", "pull")
        and not _may_repeat(lanes, deaths=False),
    )
    broken = [_named(what, found) for what, found in findings(run).items()]
    if lanes.slot_watch.excess:
        broken.append(f"more running handlers than slots: {lanes.slot_watch.excess} too many")
    return broken


def findings(run: Run) -> dict[str, list[Any]]:
    """Return the broken promises of a run, each with the messages that break it."""
    found: dict[str, list[Any]] = {
        **_lost(run),
        "out of order": list(_out_of_order(run)),
    }
    if run.counts_attempts:
        found |= _miscounted(run)
    return {what: broken for what, broken in found.items() if broken}


def recorded_findings(
    sent: Sequence[Sent],
    works: Iterable[Work],
    *,
    dead: Iterable[str],
    left: Iterable[str] = (),
    consumer: ConsumerSettings,
    **faults: Any,
) -> dict[str, list[Any]]:
    """
    Return the broken promises of recorded events, each with the messages that break it.

    Args:
        sent: the messages, those of a group in the order in which its queue has them.
        works: of any handler; those of other messages are left out.
        dead: ids of the messages in dead-letter queues, one for each.
        left: ids of the messages in lanes.
        consumer: the consumer's settings.
        faults: see `Run`: lost, repeats, counts_attempts.

    """
    history, handled = History(), []
    places = {one.id: history.sent(0.0) for one in sent}
    mine: defaultdict[str, list[Work]] = defaultdict(list)
    for work in sorted((one for one in works if one.id in places), key=lambda one: one.started_at):
        history.begin(places[work.id], at=work.started_at)
        history.end(places[work.id], attempt=work.attempt, how=work.how)
        mine[work.id].append(work)
    numbers: Counter[tuple[str, str]] = Counter()
    for one in sent:
        numbers[one.lane, one.group] += 1
        if begun := mine.get(one.id):
            first, last, end = begun[0].started_at, begun[-1].started_at, max(work.ended_at for work in begun)
            handled.append(Handled(one.lane, one.group, numbers[one.lane, one.group], 0.0, first, last, end))
    found = findings(
        Run(
            history=history,
            handled=sorted(handled, key=lambda one: one.finished_at),
            dead=[places[one] for one in dead if one in places],
            left=[places[one] for one in left if one in places],
            max_attempts=consumer.max_attempts,
            idempotency=consumer.idempotency,
            **faults,
        )
    )
    ids = ["", *places]
    named = {
        what: [ids[one] if isinstance(one, int) else one for one in them] for what, them in found.items()
    }
    beyond = list(_beyond([work for begun in mine.values() for work in begun], consumer.reserved_concurrency))
    return named | ({"more running handlers than slots": beyond} if beyond else {})


def recorded_waits(sent: Iterable[Sent], works: Iterable[Work]) -> list[Wait]:
    """Return how each message waited; those of a group come in the order in which its queue has them."""
    mine: defaultdict[str, list[Work]] = defaultdict(list)
    for work in sorted(works, key=lambda one: one.started_at):
        mine[work.id].append(work)
    free: defaultdict[tuple[str, str], float] = defaultdict(lambda: -math.inf)
    found = []
    for one in sent:
        begun, group = mine.get(one.id, ()), (one.lane, one.group)
        started_at = next((work.started_at for work in begun if work.how != "away"), math.inf)
        found.append(Wait(one.id, one.lane, one.at, max(one.at, free[group]), started_at))
        free[group] = max([free[group], *(work.ended_at for work in begun)])
    return found


def inversions(
    waits: Sequence[Wait], works: Iterable[Work], *, lanes: Sequence[str], bound: float
) -> list[tuple[str, str]]:
    """
    Return records that started while a message of a higher lane had waited for longer than the bound, in seconds.

    Each started record comes once, as (waiting, started), with the message that had waited longest.
    """
    lane_of = {wait.id: wait.lane for wait in waits}
    starts: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
    for work in sorted((one for one in works if one.id in lane_of), key=lambda one: one.started_at):
        starts[lane_of[work.id]].append((work.started_at, work.id))
    pairs: dict[tuple[float, str], str] = {}
    for wait in sorted(waits, key=lambda one: one.free_at):
        for lane in lanes[lanes.index(wait.lane) + 1 :]:
            first = bisect_right(starts[lane], (wait.free_at + bound, "\uffff"))
            for start in starts[lane][first : bisect_left(starts[lane], (wait.started_at, ""))]:
                pairs.setdefault(start, wait.id)
    return [(waiting, started) for (_, started), waiting in sorted(pairs.items())]


def _beyond(works: Iterable[Work], slots: int) -> Iterator[str]:
    """Yield the messages that were started while all slots had a running handler."""
    ends: list[float] = []
    for work in sorted(works, key=lambda one: one.started_at):
        ends = [end for end in ends if end > work.started_at]
        if len(ends) >= slots:
            yield work.id
        ends.append(work.ended_at)


def _lost(run: Run) -> dict[str, list[int]]:
    """Every message is done, dead-lettered, cancelled or still in its queue; at most one of them without a fault."""
    history = run.history
    dead, left = Counter(run.dead), frozenset(run.left)
    missing = [
        place
        for place in history.places
        if not (history.times_done(place) or place in dead or place in left or place in run.cancelled)
    ]
    if run.repeats:
        return {"lost": missing}
    return {
        "lost": missing,
        # AWS: SQS recognises a repeated dead letter for five minutes only (SendMessage).
        "dead-lettered twice": [place for place, count in dead.items() if count > 1],
        "done twice": [place for place in history.places if history.times_done(place) > 1],
        "done and dead-lettered": [place for place in dead if history.times_done(place)],
        "dead-lettered and left": [place for place in dead if place in left],
    }


def _out_of_order(run: Run) -> Iterator[tuple[str, str, int]]:
    """
    Messages of a group first end in the order in which they were sent, and none starts before the one before it ended.

    A repeat may come later, also in another lane if an operator has moved the rest of its group meanwhile, and where
    work may be repeated, a first start that ended in a crash says nothing, nor does a message that one delivery cancels
    and another one, which read the overrides before, handles.
    """
    history, repeats = run.history, run.repeats
    cancelled = {history.sent_at(place) for place in history.places if repeats and place in run.cancelled}
    last: dict[tuple[str, str], tuple[int, float]] = {}
    done: set[tuple[str, int, float]] = set()
    for one in run.handled:
        if one.sent_at in cancelled:
            continue
        message, key = (one.group, one.number, one.sent_at), (one.lane, one.group)
        number, ended_at = last.get(key, (0, 0.0))
        has_overlapped = one.first_started_at < ended_at and not repeats
        if message not in done and (one.number <= number or has_overlapped):
            yield one.lane, one.group, one.number
        done.add(message)
        last[key] = max((number, ended_at), (one.number, one.finished_at))


def _miscounted(run: Run) -> dict[str, list[int]]:
    """
    A handler's attempt number is one more than the failures before it, and the last one is `max_attempts`.

    With idempotency off, a first attempt that kills its process may go uncounted, as the contract allows, also one that
    failed and died before the count. If a process dies before its handler starts, or after its work, the attempt counts
    although the handler saw no failure. So if processes were lost, this reports only a count that is too low by more
    than that first attempt.
    """
    unseen, dead = run.lost, set(run.dead)
    wrong, early = [], []
    for place, attempts in run.history.attempts.items():
        failures = forgiven = 0
        for attempt, how in attempts:
            if not failures - forgiven + 1 <= attempt <= failures + 1 + unseen:
                wrong.append(place)
            failed = how in FAILURES
            if failed and not failures and not run.idempotency:
                forgiven = int(how == "died" or unseen > 0)
            failures += failed
        if place in dead and not 0 <= failures - run.max_attempts + unseen <= unseen + forgiven:
            early.append(place)
    unfailed = [] if unseen else [place for place in dead if place not in run.history.attempts]
    return {
        "wrong attempt number": wrong,
        "dead-lettered after too few or too many attempts": early,
        "dead-lettered without a failed attempt": unfailed,
    }


def _may_repeat(lanes: SimulatedLanes, *, deaths: bool = True) -> bool:
    """Whether a fault was on that may repeat work: a death, or an allowed behaviour of AWS."""
    faults = lanes.faults
    if deaths and (faults.crashes or lanes.function.times.lost):
        return True
    return bool(
        faults.duplicates
        or faults.undeleted
        or faults.lost_answers
        or faults.call_errors
        or faults.ledger_throttled
        or faults.outages
    )


def _places(queues: Mapping[str, FifoQueue], foreign: Container[str]) -> Iterator[int]:
    for queue in queues.values():
        for body in queue.bodies():
            if body not in foreign:
                yield int(data_of(body)["place"])


def _named(what: str, found: Sequence[Any]) -> str:
    shown = ", ".join(map(str, found[:SHOWN])) + (", ..." if len(found) > SHOWN else "")
    return f"{what}: {len(found)} ({shown})"
