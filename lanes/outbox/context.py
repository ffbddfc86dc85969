"""The name of a relay, and what it takes from its process: reports, time and chance."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lanes.outbox.telemetry import RelayTelemetry

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayContext:
    """
    The name of a relay, the receiver of its reports, and its sources of time and chance.

    Attributes:
        name: of the relay, in `locked_by`.
        telemetry: receives metrics and events.
        clock: epoch seconds.
        pause: sleeps for a number of seconds.
        chance: returns numbers from 0 to 1 for the jitter of retries.
    """

    name: str = "relay"
    telemetry: RelayTelemetry = field(default_factory=RelayTelemetry)
    clock: Callable[[], float] = time.time
    pause: Callable[[float], object] = time.sleep
    chance: Callable[[], float] = random.random
