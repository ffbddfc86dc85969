"""All routes of the API, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.ui.api.changes import ChangeRoutes
from lanes.ui.api.lanes import LaneRoutes
from lanes.ui.api.messages import MessageRoutes
from lanes.ui.readings import LaneReadings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from lanes.ui.api.fields import Fields
    from lanes.ui.changes.jobs import Jobs
    from lanes.ui.session import Session

    Asks = Mapping[str, Callable[[Fields], Any]]


class Routes:
    """
    All routes; each takes fields, raises `LanesError` and may run concurrently.

    Args:
        session: the connection to the lanes.
        every: minimum time between two readings of the lanes.
        target: description of the target: stack, region, endpoint.

    Attributes:
        reads: routes that change nothing, by name.
        changes: routes that make changes, by name.
        jobs: running changes.
    """

    def __init__(self, session: Session, *, every: timedelta, target: Mapping[str, Any]) -> None:
        readings = LaneReadings(session)
        lanes = LaneRoutes(session, readings=readings, every=every, target=target)
        changing = ChangeRoutes(session, after=readings.forget)
        self.session = session
        self.reads: Asks = {**lanes.routes, **MessageRoutes(session).routes}
        self.changes: Asks = changing.routes
        self.jobs: Jobs = changing.jobs
