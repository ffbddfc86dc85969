"""Everything that the page's scripts can ask, each answer a document made of what the operators' parts return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.ui.change_answers import ChangeAnswers
from lanes.ui.lane_answers import LaneAnswers
from lanes.ui.readings import LaneReadings
from lanes.ui.waiting_answers import WaitingAnswers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from lanes.ui.desk import Desk
    from lanes.ui.fields import Fields
    from lanes.ui.jobs import Jobs

    Asks = Mapping[str, Callable[[Fields], Any]]


class Answers:
    """
    All answers; each takes fields, raises `LanesError` and may run at the same time as others.

    Args:
        desk: what to work with.
        every: the least time between two readings of the lanes.
        writes: whether changes are allowed.
        place: words about where this is: stack, region, endpoint.

    Attributes:
        reads: answers that change nothing, by name.
        changes: those that do, by name.
        jobs: changes on their way.
    """

    def __init__(self, desk: Desk, *, every: timedelta, writes: bool, place: Mapping[str, Any]) -> None:
        readings = LaneReadings(desk)
        lanes = LaneAnswers(desk, readings=readings, every=every, writes=writes, place=place)
        changing = ChangeAnswers(desk, after=readings.forget)
        self.desk = desk
        self.writes = writes
        self.reads: Asks = {**lanes.routes, **WaitingAnswers(desk).routes}
        self.changes: Asks = changing.routes
        self.jobs: Jobs = changing.jobs
