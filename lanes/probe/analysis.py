"""
From recorded events to a profile, without AWS.

Each function takes the events of one experiment and returns its section, or None if there are too few. An event is a
mapping with `run`, `event` and `at`; the function of the probe adds the rest.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from lanes.probe.profile import (
    Bell,
    Calls,
    Counts,
    Kill,
    NextGroup,
    Order,
    Pollers,
    Profile,
    ShortPolls,
    Spread,
    Throttle,
    Winner,
    Wins,
)

Event = Mapping[str, Any]
Events = Sequence[Event]

CLEAR = 0.8
"""A behaviour has a name if at least this share of its samples shows it."""
FEWEST = 3
"""With fewer samples nothing is concluded."""
MAJORITY = 0.5
SELDOM = 0.001
"""A longest time less likely than this is a stall of the machine; 1.8 s beside five of 0.3 s has 1 in 10,000."""
NINETY_FIVE = 1.96
"""Half the width of a 95 % interval in standard deviations."""


def spread(values: Sequence[float]) -> Spread:
    """Return the 5th, 50th and 95th percentile of at least one value."""
    ranked = sorted(values)

    def percentile(share: float) -> float:
        return ranked[min(len(ranked) - 1, int(share * len(ranked)))]

    return Spread(
        low=percentile(0.05), typical=statistics.median(ranked), high=percentile(0.95), samples=len(ranked)
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
    return Spread(
        low=min(share, max(0.0, middle - half)),
        typical=share,
        high=max(share, middle + half),
        samples=samples,
    )


def throttle(events: Events) -> Throttle | None:
    """
    Judge throttled batches by their receives, and their tries by the time from the free slot to the start.

    That time is between nothing and the wait between two tries, so the longest of n is that wait times n / (n + 1) on
    average, and in 95 % of all cases more than the wait times 0.05 ** (1 / n).
    """
    receives = [receives for receives, _ in _returns(events)]
    if len(receives) < FEWEST:
        return None
    waits = retry_waits(events)
    return Throttle(
        retried=len(waits) / len(receives),
        longest_wait=_longest(waits) if len(waits) >= FEWEST else None,
        receives=statistics.mean(receives),
        samples=len(receives),
    )


def _longest(waits: Sequence[float]) -> Spread:
    """Estimate the longest time. Leave out outliers: uniform samples rarely have such a gap below their maximum."""
    ranked = sorted(waits)
    while len(ranked) > FEWEST and (ranked[-2] / ranked[-1]) ** (len(ranked) - 1) < SELDOM:
        ranked.pop()
    count, most = len(ranked), ranked[-1]
    return Spread(low=most, typical=most * (count + 1) / count, high=most * 20 ** (1 / count), samples=count)


def retry_waits(events: Events) -> list[float]:
    """Return the times from the free slot to the start of throttled batches that were not received again."""
    return [wait for receives, wait in _returns(events) if receives == 1]


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


def winner(events: Events) -> Winner | None:
    """Find whether the place of a mapping or the age of its message decides."""
    first = last = oldest = samples = 0
    for run in runs(events):
        waiting = [event for event in run if event["event"] == "start" and event["role"] == "waiting"]
        # Of fewer than three, one may have come too late to wait.
        if len(waiting) != len(_PLACES):
            continue
        samples += 1
        won = waiting[0]
        first += won["queue"] == _PLACES[0]
        last += won["queue"] == _PLACES[-1]
        oldest += won["sent"] == min(event["sent"] for event in waiting)
    if samples < FEWEST:
        return None
    shares = {Wins.HIGHEST: first / samples, Wins.LOWEST: last / samples, Wins.OLDEST: oldest / samples}
    best = max(shares, key=lambda one: shares[one])
    # Of few races, chance too gives one place most: the interval has to exclude it.
    is_rule = shares[best] >= CLEAR and share_of(round(shares[best] * samples), samples).low > MAJORITY
    return Winner(
        wins=best if is_rule else Wins.CHANCE,
        first=shares[Wins.HIGHEST],
        last=shares[Wins.LOWEST],
        oldest=shares[Wins.OLDEST],
        samples=samples,
    )


def may_be_rule(found: Winner) -> bool:
    """Whether the intervals of so many races allow a rule."""
    shares = found.first, found.last, found.oldest
    return any(share_of(round(share * found.samples), found.samples).high >= CLEAR for share in shares)


_PLACES = ("first", "second", "third")


def pollers(events: Events) -> Pollers | None:
    """Count the invocations that run at once: during the first ones, and at most."""
    firsts: dict[int, int] = {}
    reached: dict[int, int] = {}
    ramps: list[float] = []
    for run in runs(events):
        most = int(run[0]["run"].rpartition("/")[2])
        steps = concurrency(run)
        ends = [event["at"] for event in run if event["event"] == "end"]
        if not ends:
            continue
        begin, first_end = steps[0][0], min(ends)
        firsts[most] = max(number for at, number in steps if at <= first_end)
        reached[most] = max(number for _, number in steps)
        grown = reached[most] - firsts[most]
        peak_at = next(at for at, number in steps if number == reached[most])
        last_start = max(event["at"] for event in run if event["event"] == "start")
        # A mapping that has not reached its maximum grew all the time.
        until = peak_at if reached[most] >= most else last_start
        if firsts[most] < most:
            ramps.append(grown / max(until - first_end, first_end - begin))
    if not firsts:
        return None
    # The largest maximum shows the most of a start below it.
    limited = [number for most, number in sorted(firsts.items()) if number < CLEAR * most]
    return Pollers(
        first=limited[-1] if limited else 0,
        ramp=spread(ramps or [0.0]),
        reached={str(most): number for most, number in sorted(reached.items())},
    )


def concurrency(events: Events) -> list[tuple[float, int]]:
    """Return moments and the number of invocations that run from each of them on."""
    changes = sorted(
        (event["at"], 1 if event["event"] == "start" else -1)
        for event in events
        if event["event"] in ("start", "end")
    )
    steps, running = [], 0
    for at, change in changes:
        running += change
        steps.append((at, running))
    return steps


def order(events: Events) -> Order | None:
    """Count the receives that give the group once more that was received before, which has the oldest message."""
    found: dict[str, list[bool]] = {"visibility": [], "delete": []}
    for event in events:
        if event["event"] == "order":
            before, then = event["order"]
            found[event["how"]].append(before == then)
    if not all(found.values()):
        return None
    returned, deleted = (sum(same) / len(same) for same in found.values())
    return Order(
        next=_next_group(returned, deleted),
        same_after_return=returned,
        same_after_delete=deleted,
        samples=sum(map(len, found.values())),
    )


def _next_group(returned: float, deleted: float) -> NextGroup:
    if min(returned, deleted) >= CLEAR:
        return NextGroup.OLDEST
    if returned <= 1 - CLEAR:
        return NextGroup.TURN if deleted <= 1 - CLEAR else NextGroup.BACK
    return NextGroup.MIXED


def counts(events: Events) -> Counts | None:
    """Take the ages as they are; a change that was never shown has no age, and is left out."""
    ages = [event["age"] for event in events if event["event"] == "counted" and event["age"] is not None]
    if len(ages) < FEWEST:
        return None
    blocked = [event["counted"] >= event["blocked"] for event in events if event["event"] == "blocked"]
    seen = None
    if blocked:
        share = sum(blocked) / len(blocked)
        seen = True if share >= CLEAR else False if share <= 1 - CLEAR else None
    return Counts(age=spread(ages), blocked_counted=seen)


def short_polls(events: Events) -> ShortPolls | None:
    """Return the share of polls that found none."""
    found = [hit for event in events if event["event"] == "polled" for _, hit in event["polls"]]
    if len(found) < FEWEST:
        return None
    return ShortPolls(missed=share_of(found.count(False), len(found)))


def calls(events: Events) -> Calls | None:
    """Return times of calls; sigma is that of the calls between two records, counts and writes."""
    times: dict[str, list[float]] = {
        name: [one for event in events if event["event"] == "calls" for one in event[name]] for name in CALLS
    }
    if min(map(len, times.values())) < FEWEST:
        return None
    sigmas = [
        statistics.stdev(math.log(max(one, 1e-6)) for one in times[name])
        for name in ("get_queue_attributes", "update_item")
    ]
    return Calls(**{name: spread(values) for name, values in times.items()}, sigma=statistics.mean(sigmas))


CALLS = ("receive", "delete", "get_queue_attributes", "update_item")


def kill(events: Events) -> Kill | None:
    """Return the last sign of life of each killed invocation after its timeout."""
    signs = last_signs(events)
    return Kill(late=spread(signs)) if signs else None


def last_signs(events: Events) -> list[float]:
    """Return how long after its timeout each killed invocation with signs of life gave its last one; 0 if before."""
    last: dict[tuple[str, str], float] = defaultdict(float)
    for event in events:
        if event["event"] == "alive":
            key = event["run"], event["group"]
            last[key] = max(last[key], event["late"])
    return list(last.values())


def bell(events: Events) -> Bell | None:
    """Return how soon invocations start and follow each other, and how many run at once."""
    starts, follows = bell_times(events)
    if len(starts) < FEWEST or len(follows) < FEWEST:
        return None
    return Bell(
        start=spread(starts),
        follow=spread(follows),
        groups=len({event["group"] for event in events}),
        peak=max(number for run in runs(events) for _, number in concurrency(run)),
    )


def bell_times(events: Events) -> tuple[list[float], list[float]]:
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


SECTIONS: Mapping[str, tuple[str, Callable[[Events], Any]]] = {
    "throttle": ("throttle", throttle),
    "winner": ("winner", winner),
    "pollers": ("pollers", pollers),
    "order": ("order", order),
    "counts": ("counts", counts),
    "short_polls": ("polls", short_polls),
    "calls": ("calls", calls),
    "kill": ("kill", kill),
    "bell": ("bell", bell),
}
"""The sections of a profile: the experiment with their events, and their analysis."""


def analysed(events: Events, *, incomplete: Sequence[str] = ()) -> Profile:
    """Return the profile of all events of a probe; one of them has its time and region."""
    unknown: Event = {"at": 0, "region": "unknown"}
    began = next((event for event in events if event["event"] == "probe"), unknown)
    measured_at = datetime.fromtimestamp(began["at"], UTC).isoformat(timespec="seconds")
    found = {name: analyse(of(events, experiment)) for name, (experiment, analyse) in SECTIONS.items()}
    return Profile(measured_at=measured_at, region=began["region"], incomplete=tuple(incomplete), **found)


def of(events: Events, experiment: str) -> list[Event]:
    """Return the events of one experiment; its runs are named `experiment` or `experiment/...`."""
    return [event for event in events if event["run"].partition("/")[0] == experiment]


def runs(events: Events) -> list[list[Event]]:
    """Return the events of each run, in the order of time."""
    found: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        found[event["run"]].append(event)
    return [sorted(run, key=lambda event: float(event["at"])) for run in found.values()]
