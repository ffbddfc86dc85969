"""
From recorded events to a profile, without AWS.

Each function takes the events of one experiment and returns its section, empty if there are too few. An event is a
mapping with `run`, `event` and `at`; the function of the probe adds the rest.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import Any

from lanes.metrics import percentile
from lanes.probe.profile import NextGroup, Profile, Section, Spread

Event = Mapping[str, Any]
Events = Sequence[Event]

CLEAR = 0.8
"""A behaviour has a name if at least this share of its samples shows it."""
FEWEST = 3
"""With fewer samples nothing is concluded."""
SELDOM = 0.001
"""A longest time less likely than this is a stall of the machine; 1.8 s beside five of 0.3 s has 1 in 10,000."""
NINETY_FIVE = 1.96
"""Half the width of a 95 % interval in standard deviations."""


def spread(values: Sequence[float]) -> Spread:
    """Return the 5th, 50th and 95th percentile of at least one value."""
    ranked = sorted(values)
    return Spread(
        low=percentile(ranked, 0.05),
        typical=percentile(ranked, 0.5),
        high=percentile(ranked, 0.95),
        samples=len(ranked),
    )


def share_of(hits: int, samples: int) -> Spread:
    """Return a share with its 95 % interval after Wilson, which also fits shares of 0 and 1."""
    share, squared = hits / samples, NINETY_FIVE**2
    middle = (share + squared / (2 * samples)) / (1 + squared / samples)
    half = (
        NINETY_FIVE
        * math.sqrt(share * (1 - share) / samples + squared / (4 * samples**2))
        / (1 + squared / samples)
    )
    return Spread(min(share, max(0.0, middle - half)), share, max(share, middle + half), samples)


def throttle(events: Events) -> Section:
    """
    Judge throttled batches by their receives, and their tries by the time from the free slot to the start.

    That time is between nothing and the wait between two tries, so the longest of n is that wait times n / (n + 1) on
    average, and in 95 % of all cases more than the wait times 0.05 ** (1 / n).
    """
    found = _returns(events)
    if len(found) < FEWEST:
        return {}
    receives = [count for count, _ in found]
    waits = [wait for count, wait in found if count == 1]
    return {
        "retried": len(waits) / len(receives),
        **({"longest_wait": _longest(waits)} if len(waits) >= FEWEST else {}),
        "receives": statistics.mean(receives),
        "samples": len(receives),
    }


def _longest(waits: Sequence[float]) -> Spread:
    """Estimate the longest time. Leave out outliers: uniform samples rarely have such a gap below their maximum."""
    ranked = sorted(waits)
    while len(ranked) > FEWEST and (ranked[-2] / ranked[-1]) ** (len(ranked) - 1) < SELDOM:
        ranked.pop()
    count, most = len(ranked), ranked[-1]
    return Spread(low=most, typical=most * (count + 1) / count, high=most * 20 ** (1 / count), samples=count)


def _returns(events: Events) -> list[tuple[int, float]]:
    """Return receives and time from the free slot to the start of each batch that was received before it was free."""
    found = []
    for run in runs(events):
        free = [event["at"] for event in run if event["event"] == "end" and event["role"] == "blocker"]
        found += [
            (event["receives"], max(0.0, event["at"] - free[0]))
            for event in run
            if (event["event"], event["role"]) == ("start", "waiting")
            and free
            and event["received"] < free[0]
        ]
    return found


def order(events: Events) -> Section:
    """Count the receives that give the group once more that was received before, which has the oldest message."""
    found: dict[str, list[bool]] = {"visibility": [], "delete": []}
    for event in events:
        if event["event"] == "order":
            before, then = event["order"]
            found[event["how"]].append(before == then)
    if not all(found.values()):
        return {}
    returned, deleted = (sum(same) / len(same) for same in found.values())
    return {
        "next": _next_group(returned, deleted),
        "same_after_return": returned,
        "same_after_delete": deleted,
        "samples": sum(map(len, found.values())),
    }


def _next_group(returned: float, deleted: float) -> NextGroup:
    if min(returned, deleted) >= CLEAR:
        return NextGroup.OLDEST
    if returned <= 1 - CLEAR:
        return NextGroup.TURN if deleted <= 1 - CLEAR else NextGroup.BACK
    return NextGroup.MIXED


def polls(events: Events) -> Section:
    """Return the share of polls that found none."""
    found = [hit for event in events if event["event"] == "polls" for _, hit in event["polls"]]
    if len(found) < FEWEST:
        return {}
    return {"missed": share_of(found.count(False), len(found))}


def calls(events: Events) -> Section:
    """Return times of calls; sigma is that of the calls between two records, counts and writes."""
    times: dict[str, list[float]] = {
        name: [one for event in events if event["event"] == "calls" for one in event[name]] for name in CALLS
    }
    if min(map(len, times.values())) < FEWEST:
        return {}
    sigmas = [
        statistics.stdev(math.log(max(one, 1e-6)) for one in times[name])
        for name in ("get_queue_attributes", "update_item")
    ]
    return {**{name: spread(values) for name, values in times.items()}, "sigma": statistics.mean(sigmas)}


CALLS = ("receive", "delete", "get_queue_attributes", "update_item")


def bell(events: Events) -> Section:
    """Return how soon invocations start and follow each other, and how many run at once."""
    starts, follows = _bell_times(events)
    if len(starts) < FEWEST or len(follows) < FEWEST:
        return {}
    return {
        "start": spread(starts),
        "follow": spread(follows),
        "groups": len({event["group"] for event in events}),
        "peak": max(map(_peak, runs(events))),
    }


def _peak(run: Events) -> int:
    """Return the most invocations that ran at the same moment."""
    changes = sorted(
        (event["at"], 1 if event["event"] == "start" else -1)
        for event in run
        if event["event"] in ("start", "end")
    )
    return max(accumulate(change for _, change in changes), default=0)


def _bell_times(events: Events) -> tuple[list[float], list[float]]:
    """Return times from a send to its start, and from an end to the next start of its group, without cold starts."""
    starts: list[float] = []
    follows: list[float] = []
    for run in runs(events):
        by_group = defaultdict(list)
        for event in run:
            by_group[event["group"]].append(event)
            if event["event"] == "start" and event["role"] == "first" and not event["cold"]:
                starts.append(max(0.0, event["at"] - event["sent"]))
        for each in by_group.values():
            follows += [
                max(0.0, then["at"] - one["at"])
                for one, then in pairwise(each)
                if (one["event"], then["event"]) == ("end", "start") and not then["cold"]
            ]
    return starts, follows


def analysed(events: Events, *, incomplete: Sequence[str] = ()) -> Profile:
    """Return the profile of all events of a probe; one of them has its time and region."""
    unknown: Event = {"at": 0, "region": "unknown"}
    began = next((event for event in events if event["event"] == "probe"), unknown)
    measured_at = datetime.fromtimestamp(began["at"], UTC).isoformat(timespec="seconds")
    found = {one.__name__: one(of(events, one.__name__)) for one in (throttle, order, polls, bell, calls)}
    return Profile(
        measured_at=measured_at,
        region=began["region"],
        incomplete=tuple(incomplete),
        sections={name: section for name, section in found.items() if section},
    )


def of(events: Events, experiment: str) -> list[Event]:
    """Return the events of one experiment; its runs are named `experiment` or `experiment/...`."""
    return [event for event in events if event["run"].partition("/")[0] == experiment]


def runs(events: Events) -> list[list[Event]]:
    """Return the events of each run, in the order of time."""
    found: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        found[event["run"]].append(event)
    return [sorted(run, key=lambda event: float(event["at"])) for run in found.values()]
