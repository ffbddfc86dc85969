"""The promises that must hold after any run of the consumer, under any fault; checked from outside."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .bodies import data_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from lanes.testing.fifo.queue import FifoQueue

    from .simulated_lanes import SimulatedLanes

SHOWN = 5
"""Number of messages that a violation names."""

FAILURES = frozenset({"failed", "died"})
"""Ends of an attempt that count as failures; a yield at a checkpoint does not."""


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
    dead = list(_places(lanes.queues.dead, foreign))
    left = list(_places(lanes.queues.live, foreign))
    broken = [*_lost(lanes, dead, left, cancelled=cancelled, repeats=repeats), *_out_of_order(lanes)]
    if not repeats:
        broken += _miscounted(lanes, set(dead))
    if lanes.slot_watch.excess:
        broken.append(f"more handlers at work than slots: {lanes.slot_watch.excess} too many")
    return broken


def _lost(
    lanes: SimulatedLanes,
    dead_places: list[int],
    left_places: list[int],
    *,
    cancelled: Container[int],
    repeats: bool,
) -> Iterator[str]:
    """Every message is done, dead-lettered, cancelled or still in its queue; at most one of them without a fault."""
    history = lanes.history
    dead, left = Counter(dead_places), Counter(left_places)
    missing = [
        place
        for place in history.places
        if not (history.times_done(place) or place in dead or place in left or place in cancelled)
    ]
    yield from _named("lost", missing)
    if not (repeats or _may_repeat(lanes)):
        # AWS: SQS recognises a repeated dead letter for five minutes only (SendMessage).
        yield from _named("dead-lettered twice", [place for place, count in dead.items() if count > 1])
        yield from _named("done twice", [p for p in history.places if history.times_done(p) > 1])
        yield from _named("done and dead-lettered", [p for p in dead if history.times_done(p)])
        yield from _named("dead-lettered and left", [p for p in dead if p in left])


def _out_of_order(lanes: SimulatedLanes) -> Iterator[str]:
    """
    Messages of a group are first done in the order in which they were sent.

    A repeat may come later, also in another lane if an operator has moved the rest of its group meanwhile.
    """
    last: dict[tuple[str, str], int] = {}
    done: set[tuple[str, int, float]] = set()
    late: list[tuple[str, str, int]] = []
    for one in lanes.handled:
        message = one.group, one.number, one.sent_at
        if message not in done and one.number <= last.get((one.lane, one.group), 0):
            late.append((one.lane, one.group, one.number))
        done.add(message)
        last[one.lane, one.group] = max(one.number, last.get((one.lane, one.group), 0))
    yield from _named("out of order", late)


def _miscounted(lanes: SimulatedLanes, dead: set[int]) -> Iterator[str]:
    """
    A handler's attempt number is one more than the failures before it, and the last one is `max_attempts`.

    With idempotency off, a first attempt that kills its process may go uncounted, as the contract allows, also one that
    failed and died before the count. If a process dies before its handler starts, or after its work, the attempt counts
    although the handler saw no failure. So if processes were lost, this reports only a count that is too low by more
    than that first attempt.
    """
    if lanes.pattern not in ("lanes", "pull") or _may_repeat(lanes, deaths=False):
        return
    settings = lanes.config.consumer
    unseen = lanes.function.times.lost
    wrong, early = [], []
    for place, attempts in lanes.history.attempts.items():
        failures = forgiven = 0
        for attempt, how in attempts:
            if not failures - forgiven + 1 <= attempt <= failures + 1 + unseen:
                wrong.append(place)
            failed = how in FAILURES
            if failed and not failures and not settings.idempotency:
                forgiven = int(how == "died" or unseen > 0)
            failures += failed
        if place in dead and not 0 <= failures - settings.max_attempts + unseen <= unseen + forgiven:
            early.append(place)
    yield from _named("wrong attempt number", wrong)
    yield from _named("dead-lettered after too few or too many attempts", early)
    unfailed = [] if unseen else [place for place in dead if place not in lanes.history.attempts]
    yield from _named("dead-lettered without a failed attempt", unfailed)


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
    )


def _places(queues: Mapping[str, FifoQueue], foreign: Container[str]) -> Iterator[int]:
    for queue in queues.values():
        for body in queue.bodies():
            if body not in foreign:
                yield int(data_of(body)["place"])


def _named(what: str, found: list[int] | list[tuple[str, str, int]]) -> Iterator[str]:
    if found:
        shown = ", ".join(map(str, found[:SHOWN])) + (", ..." if len(found) > SHOWN else "")
        yield f"{what}: {len(found)} ({shown})"
