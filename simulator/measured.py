"""Behaviour of AWS as `lanes probe run` measured it, in place of assumptions and their ranges."""

from __future__ import annotations

import dataclasses
import statistics
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes.probe.analysis import CLEAR
from lanes.probe.profile import NextGroup
from lanes.testing.fifo.settings import GroupOrder

from .parameters import Unknowns, all_variants, variants

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.probe.profile import Profile, Section

DROPPED = ("throttled batches dropped", "dropped, groups at the back")
Change = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """
    The meaning of one section of a profile for the unknowns.

    Attributes:
        typical: its values.
        range: changes of these values over their spread, by description.
        replaces: names of the assumed variants that are not needed any more.

    """

    typical: Change = dataclasses.field(default_factory=dict)
    range: Mapping[str, Change] = dataclasses.field(default_factory=dict)
    replaces: Sequence[str] = ()


def measured_unknowns(profile: Profile | None, base: Unknowns) -> Unknowns:
    """Return the base with the typical values of everything that was measured."""
    for read, section in _sections(profile):
        base = dataclasses.replace(base, **read(section, base).typical)
    return base


def measured_variants(profile: Profile | None, base: Unknowns) -> Mapping[str, Unknowns]:
    """
    Return the range of behaviour: the spread of everything measured, and the assumptions about the rest.

    Args:
        profile: None if nothing was measured.
        base: as `measured_unknowns` returns it, and perhaps changed by the user.

    """
    return _narrowed(profile, base, variants(base))


def all_measured_variants(profile: Profile | None, base: Unknowns) -> Mapping[str, Unknowns]:
    """Return the range, with throttled batches that are dropped unless it was measured that they are not."""
    return _narrowed(profile, base, all_variants(base))


def _narrowed(
    profile: Profile | None, base: Unknowns, assumed: Mapping[str, Unknowns]
) -> Mapping[str, Unknowns]:
    found = [read(section, base) for read, section in _sections(profile)]
    replaced = {name for one in found for name in one.replaces}
    return {name: unknowns for name, unknowns in assumed.items() if name not in replaced} | {
        name: dataclasses.replace(base, **change) for one in found for name, change in one.range.items()
    }


def _sections(profile: Profile | None) -> list[tuple[Callable[[Section, Unknowns], Measured], Section]]:
    sections = {} if profile is None else profile.sections
    return [(read, sections[name]) for name, read in _READ.items() if name in sections]


def _throttle(found: Section, base: Unknowns) -> Measured:
    dropped = {"backoff": dataclasses.replace(base.backoff, retries=False)}
    assumed = ("backoff up to 0.3 s", "backoff up to 10 s", *DROPPED)
    retried, longest = found["retried"], found.get("longest_wait")
    if retried <= 1 - CLEAR:
        return Measured(typical=dropped, replaces=assumed)
    if longest is None:
        return Measured()

    def capped(seconds: float) -> Change:
        return {
            "backoff": dataclasses.replace(base.backoff, longest=timedelta(seconds=seconds), retries=True)
        }

    return Measured(
        typical=capped(longest.typical),
        range={
            "backoff as measured, short": capped(longest.low),
            "backoff as measured, long": capped(longest.high),
            **({} if retried >= CLEAR else {"some throttled batches dropped": dropped}),
        },
        replaces=assumed,
    )


def _order(found: Section, _base: Unknowns) -> Measured:
    if found["next"] is NextGroup.MIXED:
        return Measured()
    return Measured(
        typical={"group_order": GroupOrder(found["next"].value)},
        replaces=("groups in turn", "returned groups at the back", "dropped, groups at the back"),
    )


def _polls(found: Section, _base: Unknowns) -> Measured:
    missed = found["missed"]
    return Measured(
        typical={"missed_polls": missed.typical},
        range={
            "short polls as measured, few missed": {"missed_polls": missed.low},
            "short polls as measured, most missed": {"missed_polls": missed.high},
        },
        replaces=("short polls miss 1 in 10", "short polls miss 1 in 3"),
    )


def _calls(found: Section, _base: Unknowns) -> Measured:
    plain = (found["get_queue_attributes"], found["update_item"])

    def at(end: str) -> Change:
        receive = getattr(found["receive"], end)
        return {
            "call": statistics.mean(getattr(one, end) for one in plain),
            "receive": receive,
            # The mapping makes the same call.
            "poll": receive,
            "delete": getattr(found["delete"], end),
        }

    return Measured(
        typical={**at("typical"), "call_spread": found.get("sigma", 0.0)},
        # Every call at one end of the spread: the distribution has been in the typical values already.
        range={f"calls as measured, {end}": {**at(end), "call_spread": 0.0} for end in ("low", "high")},
        replaces=("calls of 25 ms, spread", "receives of 25 ms"),
    )


def _bell(found: Section, base: Unknowns) -> Measured:
    def notice(seconds: float) -> Change:
        # The mapping notices a message after half of it on average, then receives and invokes.
        return {"notice": max(0.0, 2 * (seconds - base.poll - base.invoke))}

    start = found["start"]
    return Measured(
        typical=notice(start.typical),
        range={
            "starts as measured, early": notice(start.low),
            "starts as measured, late": notice(start.high),
        },
    )


# The start of the bell's invocations holds a receive, which is measured too: it comes last.
_READ: Mapping[str, Callable[[Section, Unknowns], Measured]] = {
    "throttle": _throttle,
    "order": _order,
    "polls": _polls,
    "calls": _calls,
    "bell": _bell,
}
