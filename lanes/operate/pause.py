"""
The event source mappings of the lanes: read, pause and resume them.

The mapping of a paused lane is disabled. Its messages stay in the queue and do not hold back the lower lanes, since
messages that no mapping receives do not count as backlog.

The pull engine has one mapping, the bell's, for all lanes. There a paused lane is a record in the table, and counts as
disabled.
"""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Protocol

from lanes.errors import ConfigurationError, LanesError
from lanes.operate.audit import audited

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.operate.audit import AuditTrail
    from lanes.overrides import Pauses

ENABLED, DISABLED = "Enabled", "Disabled"
PAUSE, RESUME = SWITCHES = ("pause", "resume")
"""The actions of the audit trail."""

# AWS: a change of a mapping may take several minutes to take effect (Lambda developer guide, event source mappings).
CHANGE_TIMEOUT = 300.0
# AWS: Lambda takes 15 calls a second of all that read or change its configuration (Lambda quotas).
POLL_INTERVAL = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaneMapping:
    """
    A deployed mapping.

    Attributes:
        state: in AWS's words: Enabled, Disabled, Enabling, Disabling, Updating, Creating or Deleting.
        maximum_concurrency: None without a maximum.
        reports_failures: whether it accepts partial batch responses.
        source_arn: of its queue or stream; empty if it has none.

    """

    uuid: str
    state: str
    function_arn: str
    batch_size: int
    maximum_concurrency: int | None
    reports_failures: bool
    source_arn: str = ""

    @property
    def function_name(self) -> str:
        """Name of its function, without a qualifier."""
        # AWS: arn:aws:lambda:REGION:ACCOUNT:function:NAME, and after it a version or an alias.
        return ":".join(self.function_arn.split(":")[6:7]) or self.function_arn


class QueueMappings(Protocol):
    """Reads mappings; every method raises `AwsError`."""

    def others(self, lane: str) -> Sequence[LaneMapping]:
        """Return the mappings of other functions on a lane's queue: none, unless an existing queue is a lane."""

    def of_bell(self) -> Sequence[LaneMapping]:
        """Return the mappings on the bell: one in the pull engine, unless something is wrong."""

    def of_function(self, arn: str) -> Sequence[LaneMapping]:
        """Return the mappings to a function, of any source, to all its versions and aliases."""


class Mappings(QueueMappings, Protocol):
    """Reads and changes mappings; every method raises `AwsError`."""

    def of_lane(self, lane: str) -> Sequence[LaneMapping]:
        """Return the consumer's mappings that serve a lane: one, unless something is wrong."""

    def enable(self, lane: str, mapping: LaneMapping, *, enabled: bool) -> LaneMapping:
        """Start to enable or disable the mapping of a lane."""


class PulledLanes:
    """
    The lanes of the pull engine as mappings.

    Args:
        calls: the mappings of queues and functions.
        pauses: the paused lanes.
        ring: rings the bell for a lane.
    """

    def __init__(
        self,
        *,
        calls: QueueMappings,
        pauses: Pauses,
        ring: Callable[[str], None],
    ) -> None:
        self._calls = calls
        self._pauses = pauses
        self._ring = ring

    def of_bell(self) -> Sequence[LaneMapping]:
        """Return the bell's mapping."""
        return self._calls.of_bell()

    def of_function(self, arn: str) -> Sequence[LaneMapping]:
        """Return the mappings to a function."""
        return self._calls.of_function(arn)

    def of_lane(self, lane: str) -> Sequence[LaneMapping]:
        """Return the bell's mapping, as disabled if the lane is paused."""
        paused = lane in self._pauses.paused()
        return [dataclasses.replace(one, state=DISABLED) if paused else one for one in self.of_bell()]

    def others(self, lane: str) -> Sequence[LaneMapping]:
        """Return the mappings of other functions on a lane's queue."""
        return self._calls.others(lane)

    def enable(self, lane: str, mapping: LaneMapping, *, enabled: bool) -> LaneMapping:  # noqa: ARG002
        """Pause or resume the lane, and ring for its messages; the mapping goes on for the others."""
        change = self._pauses.resume if enabled else self._pauses.pause
        change(lane)
        if enabled:
            self._ring(lane)
        return the_mapping(self, lane)


class ServedLanes:
    """
    The lanes of mappings whose invocations serve other lanes too.

    A pause disables the mapping of a lane and tells all slots, so a deploy that enables the mapping resumes nothing.

    Args:
        calls: the mappings of queues and functions.
        pauses: the paused lanes.
    """

    def __init__(self, *, calls: Mappings, pauses: Pauses) -> None:
        self._pauses = pauses
        self._calls = calls
        self.of_bell = calls.of_bell
        self.of_function = calls.of_function
        self.others = calls.others

    def of_lane(self, lane: str) -> Sequence[LaneMapping]:
        """Return the consumer's mappings that serve a lane, as disabled if it is paused."""
        found = self._calls.of_lane(lane)
        if lane not in self._pauses.paused():
            return found
        return [dataclasses.replace(one, state=DISABLED) if one.state == ENABLED else one for one in found]

    def enable(self, lane: str, mapping: LaneMapping, *, enabled: bool) -> LaneMapping:
        """Pause or resume the lane, and start to change its mapping."""
        change = self._pauses.resume if enabled else self._pauses.pause
        change(lane)
        return self._calls.enable(lane, mapping, enabled=enabled)


def the_mapping(mappings: Mappings, lane: str) -> LaneMapping:
    """
    Return the consumer's one mapping of a lane.

    Raises:
        ConfigurationError: there is none, or more than one.
    """
    found = mappings.of_lane(lane)
    if len(found) != 1:
        count = len(found) or "no"
        problem = f"{count} event source mappings serve it, there must be exactly one; deploy the stack again"
        raise ConfigurationError([problem], source=f"lane {lane}")
    return found[0]


def others_stay(mappings: Mappings, lane: str) -> list[str]:
    """Return a sentence for each mapping of another function, which no pause and no resume changes."""
    return [
        f"{lane}: mapping {other.uuid} gives its messages to {other.function_name}, which is not the consumer. "
        f"It stays {other.state}."
        for other in mappings.others(lane)
    ]


def switch(
    mappings: Mappings,
    lane: str,
    *,
    enabled: bool,
    audit: AuditTrail,
    report: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> LaneMapping:
    """
    Enable or disable the mapping of a lane, and wait until it has changed.

    Safe to repeat: a change in progress is waited for, and a mapping in the wanted state is left alone.

    Args:
        mappings: the mappings.
        lane: name of the lane.
        enabled: the wanted state.
        audit: gets an entry.
        report: receives each new state.
        clock: monotonic seconds.
        pause: waits for a number of seconds.

    Raises:
        ConfigurationError: the lane has not exactly one mapping.
        LanesError: the mapping did not change within five minutes.
        AwsError: a call failed.
    """
    wanted = ENABLED if enabled else DISABLED
    until = clock() + CHANGE_TIMEOUT

    def settled(mapping: LaneMapping) -> LaneMapping:
        reported = ""
        while mapping.state not in (ENABLED, DISABLED):
            if mapping.state != reported:
                reported = mapping.state
                report(reported)
            if clock() >= until:
                raise LanesError(
                    f"the mapping of {lane} is still {mapping.state} after {CHANGE_TIMEOUT:.0f} s; "
                    f"AWS continues: check it with `lanes status`"
                )
            pause(POLL_INTERVAL)
            mapping = the_mapping(mappings, lane)
        return mapping

    before = the_mapping(mappings, lane)
    details = {"mapping": before.uuid, "before": before.state}
    with audited(audit, RESUME if enabled else PAUSE, lane, details=details):
        # AWS: a mapping that is changing refuses another change (API_UpdateEventSourceMapping, ResourceInUseException).
        mapping = settled(before)
        if mapping.state != wanted:
            mapping = settled(mappings.enable(lane, mapping, enabled=enabled))
        if mapping.state != wanted:
            raise LanesError(
                f"the mapping of {lane} became {mapping.state}: another caller has changed it; see `lanes check`"
            )
    return mapping
