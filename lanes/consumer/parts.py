"""What every invocation of one environment shares."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from lanes.config import ConsumerSettings
    from lanes.consumer.attempts import Attempts
    from lanes.consumer.diversion import Diversions
    from lanes.consumer.fairness import Fairness
    from lanes.consumer.gate import Gate
    from lanes.consumer.giving_up import GivingUp
    from lanes.consumer.intake import Intake
    from lanes.consumer.memory import OwnNotes
    from lanes.consumer.reserve import Reserve
    from lanes.consumer.settlement import Settlement
    from lanes.consumer.telemetry import Telemetry
    from lanes.consumer.waking import Waker


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts, one of each; `longest` has the seconds of the longest record of each lane so far."""

    settings: ConsumerSettings
    gate: Gate
    attempts: Attempts
    intake: Intake
    diversions: Diversions
    giving_up: GivingUp
    settlement: Settlement
    waker: Waker
    reserve: Reserve
    fairness: Fairness
    notes: OwnNotes
    telemetry: Telemetry
    clock: Callable[[], float]
    random: Random
    longest: dict[str, float] = dataclasses.field(default_factory=dict)
