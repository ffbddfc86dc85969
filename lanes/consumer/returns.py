"""What goes back to the queue at the end of one invocation, and for how long."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lanes.consumer import delays
from lanes.consumer.reports import report_yielded
from lanes.consumer.settlement import Reason, Returned, Why
from lanes.consumer.telemetry import Metric

if TYPE_CHECKING:
    from lanes.config import Lane
    from lanes.consumer.invocation import Invocation
    from lanes.consumer.parts import Parts
    from lanes.consumer.records import RawRecord

COUNTED = {Why.YIELDED: Metric.YIELDED, Why.BEHIND: Metric.RETURNED}


class Returns:
    """The records of one invocation that go back; one that is named twice goes back as it was named first."""

    def __init__(self, parts: Parts, invocation: Invocation) -> None:
        self._parts = parts
        self._invocation = invocation
        self._returned: dict[str, Returned] = {}
        self._groups: set[str] = set()
        self._brief = False

    def __len__(self) -> int:
        return len(self._returned)

    @property
    def has_yielded(self) -> bool:
        """Whether anything made way."""
        return any(item.why is Why.YIELDED for item in self._returned.values())

    def blocks(self, record: RawRecord) -> bool:
        """Whether one of its group goes back before it, or it or one of its group may be with another invocation."""
        return record.group in self._groups or record.group in self._invocation.lost_groups

    def add(
        self,
        record: RawRecord,
        why: Why,
        *,
        delay: int,
        wakeable: bool = False,
        reason: Reason | None = None,
    ) -> None:
        """Let one record go back, for `delay` seconds."""
        self._groups.add(record.group)
        self._returned.setdefault(
            record.message_id,
            Returned(
                record=record,
                entry=self._invocation.entries.get(record.message_id),
                why=why,
                delay=delay,
                wakeable=wakeable,
                reason=reason,
            ),
        )

    def add_unprepared(self) -> None:
        """Let everything go back, since it could not be found out what it is or be held."""
        delay = delays.yield_delay(self._invocation.lane, receive_count=1, random=self._parts.random)
        for record in self._invocation.rest():
            self.add(record, Why.BEHIND, delay=delay, reason=Reason.UNPREPARED)

    def add_for_time(self, position: int) -> None:
        """Let the rest go back at once; later and later where a record comes again and again without finding time."""
        rest = self._invocation.rest(position)
        delay = math.floor(delays.receive_floor(_most_received(rest)))
        for record in rest:
            self.add(record, Why.BEHIND, delay=delay, reason=Reason.TIME)

    def add_yielded(self, position: int, *, to: Lane | None = None, known: bool = False) -> None:
        """
        Let the rest make way, until its parking ends or it is woken.

        Args:
            position: of the first record that makes way.
            to: the lane that waits, where it is known.
            known: whether that was known without a reading.

        """
        lane, rest = self._invocation.lane, self._invocation.rest(position)
        # The whole batch goes back on what was known already: alone, this environment remembers it well enough, and
        # the sooner the slot is free again, the likelier it is free when the higher lane tries.
        self._brief = known and not self._invocation.done and not self._returned
        most_received = _most_received(rest)
        delay = delays.yield_delay(lane, receive_count=most_received, random=self._parts.random)
        wakeable = is_wakeable(lane, most_received)
        for record in rest:
            self.add(record, Why.YIELDED, delay=delay, wakeable=wakeable)
        report_yielded(self._parts.telemetry, lane, rest, to=to, delay=delay)

    def settle(self) -> None:
        """Send back what goes back and is still ours, and remember it."""
        parts, invocation = self._parts, self._invocation
        for item in self._returned.values():
            if (metric := COUNTED.get(item.why)) is not None:
                parts.telemetry.count(metric)
        if mine := [item for key, item in self._returned.items() if key not in invocation.lost]:
            entries = parts.settlement.settle(
                invocation.lane, mine, batch=invocation.name, note=not self._brief
            )
            parts.parks.note(entries, written=not self._brief)
            parts.notes.keep(entries)


def is_wakeable(lane: Lane, receive_count: int) -> bool:
    """Whether a record received so often may be woken: else only its delay keeps its receives from running out."""
    return delays.receive_floor(receive_count) <= lane.yield_delay_max.total_seconds()


def _most_received(records: list[RawRecord]) -> int:
    return max((record.receive_count for record in records), default=1)
