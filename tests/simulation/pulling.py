"""The pull engine in virtual time: loads that search for messages that wait although a slot is free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.bell import COALESCING, MARGIN
from lanes.config import LanesConfig
from simulator.simulated_lanes import SimulatedLanes

if TYPE_CHECKING:
    from simulator.history import Handled

COLD_START_AND_CALLS = 0.6
LONGEST_WAIT = COALESCING + MARGIN + COLD_START_AND_CALLS
"""Seconds for which a message may wait although a slot is free."""


def pulling(slots, *, unknowns=None, faults=None, seed=1, lanes=None, **consumer):
    """Return lanes with the pull engine."""
    raw = {
        "consumer": {
            "engine": "pull",
            "reserved_concurrency": slots,
            "function_timeout": "30s",
            **consumer,
        }
    }
    config = LanesConfig.from_dict(raw | ({"lanes": lanes} if lanes else {}))
    return SimulatedLanes(config, unknowns=unknowns, faults=faults, seed=seed)


def send_apart(lanes, lane, *, after, group, seconds=0.0, late=0.005, rings=True):
    """Send a message from a process of its own, which rings a little later for the time of its send."""

    def send():
        lanes.send(lane, group=group, seconds=seconds, rings=False)
        bell, at = lanes.new_bell(), lanes.scheduler.now
        if rings:
            lanes.scheduler.after(late, lambda: bell.ring_for(lane, at=at))

    lanes.scheduler.after(after, send)


def needless_waits(lanes) -> list[tuple[float, Handled]]:
    """Return for how long each message waited while a slot was free and its group was not at work, longest first."""
    slots = lanes.config.consumer.reserved_concurrency
    handled = sorted(lanes.handled, key=lambda one: one.started_at)
    ended: dict[tuple[str, str], float] = {}
    waits = []
    for one in sorted(handled, key=lambda one: (one.lane, one.group, one.number)):
        ready = max(one.sent_at, ended.get((one.lane, one.group), 0.0))
        ended[one.lane, one.group] = one.finished_at
        waits.append((_free_between(handled, ready, one.started_at, slots), one))
    return sorted(waits, key=lambda wait: -wait[0])


def _free_between(handled, ready, started, slots):
    """Return the seconds of a span in which fewer handlers were at work than there are slots."""
    edges = []
    for other in handled:
        if other.started_at >= started:
            break
        if other.finished_at > ready:
            edges += [(max(other.started_at, ready), 1), (min(other.finished_at, started), -1)]
    free, busy, last = 0.0, 0, ready
    for at, change in sorted(edges):
        free += at - last if busy < slots else 0.0
        busy, last = busy + change, at
    return free + (started - last if busy < slots else 0.0)
