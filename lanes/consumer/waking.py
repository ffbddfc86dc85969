"""Waking: parked records return as soon as nothing above them waits, instead of when their parking ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.consumer.ledger import Park
from lanes.consumer.reports import report_woken
from lanes.consumer.settlement import VisibilityChange
from lanes.consumer.telemetry import Metric
from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.config import Lane, LanesConfig
    from lanes.consumer.gate import Gate
    from lanes.consumer.ledger import Entry, Ledger
    from lanes.consumer.loads import QueueLoads
    from lanes.consumer.others import Others
    from lanes.consumer.parks import ParkedRecords, ParkKnowledge
    from lanes.consumer.settlement import Visibility
    from lanes.consumer.telemetry import Telemetry


MOST_BATCHES = 10
"""AWS: a transaction has at most 100 items (TransactWriteItems) and a batch 10 records; beyond, it would be two."""


class Waker:
    """
    Frees parked batches at the end of an invocation that found nothing above.

    Safe in every order: where others could wake the same records, they are first noted as no longer parked, all or
    none and only if nobody did so before; then they are made visible. If that second step fails, they return when
    their parking ends, as they would have anyway.
    """

    def __init__(
        self,
        *,
        config: LanesConfig,
        gate: Gate,
        others: Others,
        loads: QueueLoads,
        parks: ParkKnowledge,
        parked: ParkedRecords,
        ledger: Ledger,
        visibility: Visibility,
        telemetry: Telemetry,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._gate = gate
        self._others = others
        self._loads = loads
        self._parks = parks
        self._parked = parked
        self._ledger = ledger
        self._visibility = visibility
        self._telemetry = telemetry
        self._clock = clock
        self._shares = config.lanes[0].tenant_share is not None

    def wake(self, asking: Lane, *, replaces: bool = False) -> None:
        """
        Wake the oldest parked batches of the highest lane that has any, if nothing waits above that lane.

        Args:
            asking: the lane of the invocation that ends.
            replaces: in a lane with a `tenant_share`, it leaves a slot to a tenant some of whose records may be parked.

        """
        try:
            for lane in self._config.lanes if self._shares else self._config.lanes[1:]:
                if self._wake_lane(lane, asking, replaces=replaces):
                    return
        except AwsError:
            # Nobody has to wake them: they return by themselves.
            self._telemetry.problem("wake_failed", lane=asking.name)
            self._telemetry.count(Metric.AWS_ERRORS)

    def _wake_lane(self, lane: Lane, asking: Lane, *, replaces: bool) -> bool:
        """Return whether the search ends here: something was woken, or something above waits."""
        if not self._parked.may_exist(lane) or not self._wakeable(lane):
            return False
        if self._gate.waits_above(lane):
            return True
        most = self._batches
        if lane.tenant_share is not None and self._loads.has_visible(lane):
            # What one tenant has parked is older, and would come in front of what others wait for.
            most = int(replaces and lane == asking)
        if most and not self._free(lane, asking, most=most):
            # Somebody else was quicker with one of them, so what is known here is old.
            self._parks.distrust(lane.name)
            self._free(lane, asking, most=most)
        return True

    def _wakeable(self, lane: Lane) -> list[Entry]:
        parked = self._parked.entries(lane, batches=self._batches)
        return [entry for entry in parked if wakes(entry)]

    @property
    def _batches(self) -> int:
        """One for each free slot, and one for the slot of whoever wakes."""
        return min(self._others.free_slots + 1, MOST_BATCHES)

    def _free(self, lane: Lane, asking: Lane, *, most: int) -> bool:
        """Wake up to so many batches; return False where they turn out to be parked no more."""
        entries = oldest_batches(self._wakeable(lane), count=most)
        written = [entry for entry in entries if self._parks.is_written(entry)]
        mine = not written or self._ledger.unpark(written)
        self._parks.forget(lane.name, [entry.message_id for entry in entries])
        if not mine or not entries:
            return mine
        changes = [
            VisibilityChange(message_id=entry.message_id, receipt_handle=entry.receipt_handle, seconds=0)
            for entry in entries
        ]
        self._visibility.change_visibility(lane.name, changes)
        report_woken(self._telemetry, lane, entries, by=asking)
        return True


def wakes(entry: Entry) -> bool:
    """Whether a record was parked by a yield that may end early."""
    return entry.park is Park.YIELD and bool(entry.receipt_handle)


def oldest_batches(entries: Sequence[Entry], *, count: int) -> list[Entry]:
    """Return whole batches, those parked first: a group is free only when all of its records are."""
    order: dict[str, float] = {}
    for entry in entries:
        order[entry.batch] = min(order.get(entry.batch, entry.noted_at), entry.noted_at)
    chosen = set(sorted(order, key=lambda batch: order[batch])[:count])
    return [entry for entry in entries if entry.batch in chosen]
