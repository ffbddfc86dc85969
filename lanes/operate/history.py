"""
The last hours of lanes, minute by minute, as far as CloudWatch kept them.

Owns the word inversion: work of a lower lane at whose end a higher lane was found waiting.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaneMinute:
    """
    One minute of a lane; None is unknown.

    Attributes:
        at: its beginning, epoch seconds.
        waiting: visible messages, on average.
        in_flight: messages received and not deleted, on average.
        handled: messages whose handler succeeded.
        failed: failed attempts.
        yields: records that made way for a higher lane.
        inversion: milliseconds of this lane's work after which a higher lane was found waiting.
        dead_lettered: messages that the consumer gave up.

    """

    at: float
    waiting: float | None = None
    in_flight: float | None = None
    handled: float | None = None
    failed: float | None = None
    yields: float | None = None
    inversion: float | None = None
    dead_lettered: float | None = None


class History(Protocol):
    """Where the past of lanes is kept."""

    def read(self, *, minutes: int) -> Mapping[str, Sequence[LaneMinute]]:
        """Return the minutes of which something is known, by lane, the oldest first; raises `AwsError`."""
