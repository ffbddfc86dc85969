"""The settings of `lanes.toml` that are tried beside their defaults: one at a time, by the number of slots."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence  # noqa: TC003 - the types of what stands in the module
from typing import Any

from benchmarks.policies import LOADS
from benchmarks.scenarios import Load
from lanes.config import LanesConfig

ROOMS = (False, True)

FAILING = "a failing message"
FAULTY: Mapping[str, Load] = {FAILING: Load(seconds=1.0, high=0.0, medium=0.0, failing=True)}


def _nothing(_slots: int) -> Mapping[str, Any]:
    return {}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """
    What `lanes.toml` says, given the number of slots.

    Attributes:
        setting: the setting that differs from the default.
        value: as it is written.
        consumer: keys of `[consumer]`.
        top, lower: keys of the highest lane, and of the others.
        rooms: whether it is tried throttled, with the waiting room, or both.
        loads: under which it is tried.

    """

    setting: str
    value: str
    consumer: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    top: Callable[[int], Mapping[str, Any]] = _nothing
    lower: Callable[[int], Mapping[str, Any]] = _nothing
    rooms: Sequence[bool] = ROOMS
    loads: Sequence[str] = tuple(LOADS)

    def raw(self, slots: int, *, room: bool) -> dict[str, Any]:
        """Return the content of the file."""
        lower = self.lower(slots)
        return {
            "consumer": {**self.consumer, "waiting_room": room},
            "lanes": [
                {"name": "HIGH", "threshold": 50, **self.top(slots)},
                {"name": "MEDIUM", "threshold": 0, **lower},
                {"name": "MAIN", **lower},
            ],
        }

    def differs(self, slots: int, *, room: bool) -> bool:
        """Whether it is another choice than the default."""
        mine, usual = (
            LanesConfig.from_dict({**raw, "consumer": {**raw["consumer"], "reserved_concurrency": slots}})
            for raw in (self.raw(slots, room=room), USUAL.raw(slots, room=room))
        )
        return mine != usual


USUAL = Choice(setting="", value="")


def _delay(least: int, most: int) -> Choice:
    delays = {"yield_delay_min": least, "yield_delay_max": most}
    return Choice(
        setting="yield_delay", value=f"{least} to {most} s", lower=lambda _slots: delays, rooms=(False,)
    )


def _recheck(milliseconds: int) -> Choice:
    return Choice(
        setting="recheck_interval",
        value=f"{milliseconds} ms",
        consumer={"recheck_interval": milliseconds / 1000},
    )


def _batch(size: int, *, top: bool = False, lower: bool = False) -> Choice:
    keys = {"batch_size": size}
    where = "of HIGH" if top else "below"
    return Choice(
        setting=f"batch_size {where}",
        value=str(size),
        top=(lambda _slots: keys) if top else _nothing,
        lower=(lambda _slots: keys) if lower else _nothing,
    )


def _concurrency(
    words: str, most: Callable[[int], float], *, top: bool = False, lower: bool = False
) -> Choice:
    def keys(slots: int) -> Mapping[str, Any]:
        return {"maximum_concurrency": max(2, math.ceil(most(slots)))}

    where = "of all" if top and lower else "of HIGH" if top else "below"
    return Choice(
        setting=f"maximum_concurrency {where}",
        value=words,
        top=keys if top else _nothing,
        lower=keys if lower else _nothing,
    )


def _backoff(seconds: float) -> Choice:
    return Choice(
        setting="backoff_base", value=f"{seconds:g} s", consumer={"backoff_base": seconds}, loads=(FAILING,)
    )


DELAYS: Sequence[Choice] = tuple(
    _delay(least, most) for least, most in ((1, 3), (2, 5), (5, 15), (15, 30), (30, 60))
)
CHOICES: Sequence[Choice] = (
    *DELAYS,
    *(_recheck(milliseconds) for milliseconds in (50, 100, 250, 500, 1000)),
    *(_batch(size, top=True) for size in (1, 2, 5)),
    *(_batch(size, lower=True) for size in (1, 5)),
    _concurrency("half the slots", lambda slots: slots / 2, lower=True),
    _concurrency("the slots less one", lambda slots: slots - 1, lower=True),
    _concurrency("twice the slots", lambda slots: 2 * slots, top=True),
    _concurrency("the slots", lambda slots: slots, top=True, lower=True),
    _concurrency("twice the slots", lambda slots: 2 * slots, top=True, lower=True),
    *(_backoff(seconds) for seconds in (0.5, 1, 5, 10)),
)
