"""
The event source mappings of lanes: what they are set to, and pausing and resuming them.

Owns the words pause and resume: a paused lane's mapping is disabled. Its messages stay in the queue, and the lanes
below go on, since messages that nobody takes do not hold them back.
"""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Protocol

from lanes.errors import ConfigurationError, LanesError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ENABLED, DISABLED = "Enabled", "Disabled"
# AWS: a change of a mapping may take several minutes to take effect (Lambda developer guide, event source mappings).
LONGEST_CHANGE = 300.0
LOOK_EVERY = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaneMapping:
    """
    A mapping as it is deployed.

    Attributes:
        state: AWS's word: Enabled, Disabled, Enabling, Disabling, Updating, Creating or Deleting.
        maximum_concurrency: None where no maximum is set.
        reports_failures: whether it understands partial batch responses.

    """

    uuid: str
    state: str
    function_arn: str
    batch_size: int
    maximum_concurrency: int | None
    reports_failures: bool


class Mappings(Protocol):
    """Reads and changes mappings; every method raises `AwsError`."""

    def of_lane(self, lane: str) -> Sequence[LaneMapping]:
        """Return the mappings on a lane's queue: one, where nothing is wrong."""

    def read(self, uuid: str) -> LaneMapping:
        """Return one mapping as it is now."""

    def enable(self, uuid: str, *, enabled: bool) -> LaneMapping:
        """Ask for a mapping to be enabled or disabled."""


def the_mapping(mappings: Mappings, lane: str) -> LaneMapping:
    """
    Return the one mapping of a lane.

    Raises:
        ConfigurationError: there is none, or more than one.
    """
    found = mappings.of_lane(lane)
    if len(found) != 1:
        count = len(found) or "no"
        problem = f"{count} event source mappings on its queue, exactly one is needed; deploy the stack again"
        raise ConfigurationError([problem], source=f"lane {lane}")
    return found[0]


def switch(
    mappings: Mappings,
    lane: str,
    *,
    enabled: bool,
    report: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> LaneMapping:
    """
    Enable or disable the mapping of a lane and wait until that is done.

    Safe to repeat: a change that is on its way is waited for, a mapping that has arrived is left alone.

    Args:
        mappings: where to do it.
        lane: name of the lane.
        enabled: what to reach.
        report: gets the state, each time it is another one.
        clock: monotonic seconds.
        pause: waits for so many seconds.

    Raises:
        ConfigurationError: the lane has not exactly one mapping.
        LanesError: the mapping did not arrive within five minutes.
        AwsError: a call failed.
    """
    wanted = ENABLED if enabled else DISABLED
    until = clock() + LONGEST_CHANGE

    def settled(mapping: LaneMapping) -> LaneMapping:
        told = ""
        while mapping.state not in (ENABLED, DISABLED):
            if mapping.state != told:
                told = mapping.state
                report(told)
            if clock() >= until:
                raise LanesError(
                    f"the mapping of {lane} is still {mapping.state} after {LONGEST_CHANGE:.0f} s; "
                    f"AWS goes on with it: look again with `lanes status`"
                )
            pause(LOOK_EVERY)
            mapping = mappings.read(mapping.uuid)
        return mapping

    # AWS: a mapping that is changing refuses another change (API_UpdateEventSourceMapping, ResourceInUseException).
    mapping = settled(the_mapping(mappings, lane))
    if mapping.state != wanted:
        mapping = settled(mappings.enable(mapping.uuid, enabled=enabled))
    if mapping.state != wanted:
        raise LanesError(f"the mapping of {lane} became {mapping.state}: somebody else has changed it")
    return mapping
