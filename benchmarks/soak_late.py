"""Calls with an effect that lands seconds after the caller gave up."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from simulator.simulated_lanes import SimulatedLanes

WRITES = {
    "ledger": ("note", "unpark", "begin_effect", "finish_effect", "release_effect"),
    "queues": ("change_visibility", "delete", "dead_letter", "forward"),
    "slots": ("publish",),
}
GIVEN_UP_AFTER = 2.0
LONGEST = 6.0
"""Seconds until the caller gives up, and until the effect at the latest: a request may wait in a proxy or a server."""


def land_late(lanes: SimulatedLanes, *, share: float, chance: Random) -> None:
    """Let that share of the function's writes time out, and take effect up to `LONGEST` seconds after their start."""
    for owner, names in WRITES.items():
        for name in names:
            part = getattr(lanes, owner)
            setattr(part, name, _late(lanes, getattr(part, name), share=share, chance=chance))


def _late(
    lanes: SimulatedLanes, call: Callable[..., Any], *, share: float, chance: Random
) -> Callable[..., Any]:
    scheduler = lanes.scheduler

    def effect(*given: Any, **named: Any) -> None:
        with contextlib.suppress(AwsError):
            call(*given, **named)

    def made(*given: Any, **named: Any) -> Any:
        if chance.random() >= share:
            return call(*given, **named)
        lands = chance.uniform(GIVEN_UP_AFTER, LONGEST)
        scheduler.after(lands, lambda: scheduler.spawn(lambda: effect(*given, **named)))
        scheduler.sleep(GIVEN_UP_AFTER)
        raise AwsError(operation=call.__name__, code="ReadTimeoutError", retryable=True, answered=False)

    return made
