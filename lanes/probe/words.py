"""The findings of a profile in words, with the nearest assumption of the simulator."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from lanes.probe.analysis import analysed, may_be_rule
from lanes.probe.profile import NextGroup, Wins

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.probe.analysis import Events
    from lanes.probe.profile import (
        Bell,
        Calls,
        Counts,
        Kill,
        Order,
        Pollers,
        Profile,
        ShortPolls,
        Spread,
        Throttle,
        Winner,
    )


UNDECIDED = "undecided"
"""The name of a range that allows several assumptions: more measurements decide."""


class Finding(NamedTuple):
    """
    A section of a profile in words.

    Attributes:
        section: name of the section.
        title: the measured behaviour.
        text: the result.
        assumption: the nearest assumption of the simulator (`simulator.parameters.all_variants`), `UNDECIDED` or empty.
    """

    section: str
    title: str
    text: str
    assumption: str


def findings(profile: Profile) -> list[Finding]:
    """Describe the measured sections."""
    return [
        Finding(name, TITLES[name], *_DESCRIBED[name](section)) for name, section in profile.sections.items()
    ]


FEW_POLLERS = 5
"""By ratio, more are nearer to a full start of 13, which a busy machine may not reach, than to the assumed 2."""


TITLES: Mapping[str, str] = {
    "throttle": "Throttled batches",
    "winner": "Mapping that gets a free slot",
    "pollers": "Pollers of a mapping with a backlog",
    "order": "Order of groups",
    "counts": "Counts of GetQueueAttributes",
    "short_polls": "Short polls of a FIFO queue",
    "calls": "Times of calls from the function",
    "kill": "End of an invocation after its timeout",
    "bell": "Invocations started by the bell",
}


def undecided(events: Events) -> bool:
    """Whether a finding of the events allows several assumptions."""
    return any(one.assumption == UNDECIDED for one in findings(analysed(events)))


def seconds(value: float) -> str:
    """Write a time with two or three significant digits."""
    if value < 1:
        # Shorter times are the clock's.
        return f"{round(value * 1000, 1):.3g} ms"
    return f"{value:.3g} s"


def ranged(spread: Spread, write: Callable[[float], str] = seconds) -> str:
    """Write the typical value with its range."""
    return f"{write(spread.typical)} ({write(spread.low)} to {write(spread.high)}, {spread.samples} samples)"


def nearest(value: float, names: Mapping[float, str], *, least: float) -> str:
    """Return the name of the nearest number by ratio; numbers below `least` count as that."""
    return names[min(names, key=lambda one: abs(math.log(max(one, least) / max(value, least))))]


def named(spread: Spread, names: Mapping[float, str], *, least: float) -> str:
    """Return the name that is nearest to both ends of a range."""
    low, high = (nearest(end, names, least=least) for end in (spread.low, spread.high))
    return low if low == high else UNDECIDED


def _throttle(found: Throttle) -> tuple[str, str]:
    share = f"{found.retried:.0%} of {found.samples}"
    text = f"{share} came back by a retry; receives spent on each: {found.receives:.2g}."
    if found.retried < 0.5:  # noqa: PLR2004 - the majority
        return f"{text} The others returned when their visibility timeout ended.", "throttled batches dropped"
    if found.longest_wait is None:
        return f"{text} These are too few to estimate a wait.", ""
    return f"{text} Longest wait between two tries: {ranged(found.longest_wait)}.", named(
        found.longest_wait,
        {0.3: "backoff up to 0.3 s", 2: "as given", 10: "backoff up to 10 s"},
        least=0.01,
    )


def _winner(found: Winner) -> tuple[str, str]:
    text = (
        f"The mapping made first got {found.first:.0%} of {found.samples} free slots, the one made last "
        f"{found.last:.0%}; the oldest message got {found.oldest:.0%}."
    )
    if found.wins is Wins.CHANCE and may_be_rule(found):
        return text, UNDECIDED
    names = {"highest": "highest lane wins slots", "lowest": "lowest lane wins slots", "chance": "as given"}
    return text, names.get(found.wins, "")


def _pollers(found: Pollers) -> tuple[str, str]:
    reached = ", ".join(f"{number} of {most}" for most, number in found.reached.items())
    if not found.first:
        return f"At once as many invocations as the maximum concurrency; reached {reached}.", "as given"
    more = f"{found.ramp.typical:.2g} more each second"
    text = f"{found.first} invocations at the start, {more}; reached {reached}."
    return text, "two pollers, slow ramp" if found.first <= FEW_POLLERS else UNDECIDED


def _order(found: Order) -> tuple[str, str]:
    names = {
        NextGroup.OLDEST: "as given",
        NextGroup.BACK: "returned groups at the back",
        NextGroup.TURN: "groups in turn",
    }
    meaning = {
        NextGroup.OLDEST: "The group with the oldest message is first",
        NextGroup.BACK: "A group goes behind the others when its message returns",
        NextGroup.TURN: "A group goes behind the others when it is received",
        NextGroup.MIXED: "Neither the group with the oldest message nor another one is always first",
    }
    text = (
        f"{meaning[found.next]}: the same group came again in {found.same_after_return:.0%} after a return and in "
        f"{found.same_after_delete:.0%} after a delete, {found.samples} samples."
    )
    return text, names.get(found.next, "")


def _counts(found: Counts) -> tuple[str, str]:
    included = {True: "are included", False: "are not included", None: "are included at times"}
    text = (
        f"Changes are shown after {ranged(found.age)}. Messages behind one in flight of their group "
        f"{included[found.blocked_counted]}."
    )
    return text, nearest(
        found.age.typical, {0: "as given", 1: "counts 1 s old", 5: "counts 5 s old"}, least=0.2
    )


def _short_polls(found: ShortPolls) -> tuple[str, str]:
    names = {0: "as given", 0.1: "short polls miss 1 in 10", 1 / 3: "short polls miss 1 in 3"}
    text = f"{ranged(found.missed, lambda share: f'{share:.1%}')} missed the waiting messages."
    return text, named(found.missed, names, least=0.02)


def _calls(found: Calls) -> tuple[str, str]:
    names = ("receive", "delete", "get_queue_attributes", "update_item")
    return "; ".join(f"{name.replace('_', ' ')} {ranged(getattr(found, name))}" for name in names) + ".", ""


def _kill(found: Kill) -> tuple[str, str]:
    return f"The last sign of life was {ranged(found.late)} after the timeout.", ""


def _bell(found: Bell) -> tuple[str, str]:
    more = "never more than" if found.peak <= found.groups else f"up to {found.peak} at once with"
    text = (
        f"From the send to the handler {ranged(found.start)}; from the end of an invocation to the next one of its "
        f"group {ranged(found.follow)}; {more} {found.groups} groups."
    )
    return text, ""


_DESCRIBED: Mapping[str, Callable[..., tuple[str, str]]] = {
    "throttle": _throttle,
    "winner": _winner,
    "pollers": _pollers,
    "order": _order,
    "counts": _counts,
    "short_polls": _short_polls,
    "calls": _calls,
    "kill": _kill,
    "bell": _bell,
}
