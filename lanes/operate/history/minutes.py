"""The last hours of the lanes, by minute, from CloudWatch."""

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
        at: its start, in epoch seconds.
        waiting: visible messages, on average.
        in_flight: messages received and not deleted, on average.
        handled: messages whose handler succeeded.
        failed: failed attempts.
        yields: records that yielded to a higher lane.
        inversion: milliseconds of this lane's work after which a higher lane had a backlog.
        dead_lettered: messages that the consumer dead-lettered.

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
    """The history of the lanes."""

    def read(self, *, minutes: int) -> Mapping[str, Sequence[LaneMinute]]:
        """Return the minutes with a figure, by lane, the oldest first; raises `AwsError`."""
