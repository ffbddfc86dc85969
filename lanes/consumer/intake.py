"""Intake: what is known of the records that Lambda brought, and that they stay ours while they are worked on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lanes.consumer.ledger import Cause, Entry
from lanes.consumer.settlement import VisibilityChange
from lanes.consumer.telemetry import receives
from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.config import Lane
    from lanes.consumer.ledger import Ledger
    from lanes.consumer.memory import OwnNotes
    from lanes.consumer.parks import ParkKnowledge
    from lanes.consumer.records import RawRecord
    from lanes.consumer.settlement import Visibility
    from lanes.consumer.telemetry import Telemetry


class Intake:
    """Prepares the records of an invocation."""

    def __init__(
        self,
        *,
        parks: ParkKnowledge,
        ledger: Ledger,
        notes: OwnNotes,
        visibility: Visibility,
        telemetry: Telemetry,
        clock: Callable[[], float],
    ) -> None:
        self._parks = parks
        self._ledger = ledger
        self._notes = notes
        self._visibility = visibility
        self._telemetry = telemetry
        self._clock = clock

    def look_up(self, lane: Lane, records: Sequence[RawRecord]) -> dict[str, Entry]:
        """
        Return the entries of all records, by message id; only those received before may need a read.

        Raises:
            AwsError: the ledger can't be read.

        """
        again = [record for record in records if record.receive_count > 1]
        known = self._known(lane, again) if again else {}
        if first := len(records) - len(again):
            self._telemetry.count(receives(Cause.FIRST), first)
        return {
            record.message_id: self._received_again(lane, record, known)
            if record.receive_count > 1
            else _new_entry(lane, record)
            for record in records
        }

    def _known(self, lane: Lane, again: Sequence[RawRecord]) -> dict[str, Entry]:
        self._parks.forget(lane.name, [record.message_id for record in again])
        recalled = {record.message_id: self._notes.recall(lane.name, record) for record in again}
        known = {message_id: entry for message_id, entry in recalled.items() if entry is not None}
        if unknown := [message_id for message_id, entry in recalled.items() if entry is None]:
            known |= self._read(lane, unknown)
        return known

    def _read(self, lane: Lane, message_ids: Sequence[str]) -> Mapping[str, Entry]:
        try:
            return self._ledger.read(lane.name, message_ids)
        except AwsError:
            return self._ledger.read(lane.name, message_ids)

    def _received_again(self, lane: Lane, record: RawRecord, known: Mapping[str, Entry]) -> Entry:
        entry = known.get(record.message_id)
        if entry is None or entry.is_of_earlier_life(record):
            entry = _new_entry(lane, record)
        self._telemetry.count(receives(entry.cause_of(record)))
        return entry.seen_again(record)

    def hold(
        self, lane: Lane, records: Sequence[RawRecord], entries: Mapping[str, Entry], *, seconds: float
    ) -> set[str]:
        """
        See to it that no record becomes visible within `seconds`; return the ids of those that are not ours any more.

        AWS: a batch that was throttled is tried again until its visibility timeout ends (Lambda operator guide), so
        it can arrive here with little of it left. A suspect batch, one of whose records crashed or was throttled
        out before, is held just for so long: if it crashes again it returns soon.

        Raises:
            AwsError: the visibility can't be changed.

        """
        suspect = any(entry.suspect for entry in entries.values())
        visible = lane.visibility_timeout.total_seconds()
        oldest = min(_received_at(record, entries[record.message_id]) for record in records)
        if not suspect and oldest + visible - self._clock() > seconds:
            return set()
        timeout = math.ceil(seconds if suspect else visible)
        changes = [
            VisibilityChange(
                message_id=record.message_id, receipt_handle=record.receipt_handle, seconds=timeout
            )
            for record in records
        ]
        return set(self._visibility.change_visibility(lane.name, changes))


def _new_entry(lane: Lane, record: RawRecord) -> Entry:
    return Entry(lane=lane.name, message_id=record.message_id, first_received_at=record.first_received_at)


def _received_at(record: RawRecord, entry: Entry) -> float:
    """Return when a record was received at the earliest: after its last note."""
    return record.first_received_at if record.receive_count == 1 else entry.noted_at
