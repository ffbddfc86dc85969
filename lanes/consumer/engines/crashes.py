"""
Crashes in the pull engine: what a slot does with records that were in its place when an earlier process died.

An attempt that was written ahead names the record that killed its process. It pauses, so that others are served
between two crashes, and is then tried in an invocation of its own with nothing else in hand: everything in hand dies
along and stays invisible for as long as the function's timeout. An attempt that nothing had announced names no record:
any one of that hand may have been it. So a new environment handles one record of each lane before the first of them.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lanes.consumer.ledger import Ending, Entry
from lanes.consumer.outcome import Outcome, Outcomes, Reason, shortest_delay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.consumer.outcome import Delays
    from lanes.consumer.records import Batch, RawRecord


def pause_crashed(batch: Batch, outcomes: Outcomes, *, max_attempts: int, delays: Delays) -> None:
    """Return the records whose last attempt killed its process, unless that was the last one."""
    for record in batch.records:
        entry = outcomes.entries[record.message_id]
        is_last = bool(entry.given_up) or entry.attempts >= max_attempts
        if entry.ending is Ending.STARTED and not is_last and outcomes.behind(record) is None:
            delay = delays.after_failure(batch.lane, attempt=entry.attempts)
            crashed = dataclasses.replace(entry, ending=Ending.CRASHED)
            outcomes.set(record, Outcome(entry=crashed, delay=delay, reason=Reason.CRASHED))


def to_try_alone(batch: Batch, outcomes: Outcomes) -> RawRecord | None:
    """Return the first record that has had its pause, if it is the first of its group."""
    groups: set[str] = set()
    for record in batch.records:
        if record.group not in groups and outcomes.entries[record.message_id].ending is Ending.CRASHED:
            return record
        groups.add(record.group)
    return None


def keep_others(batch: Batch, outcomes: Outcomes, alone: RawRecord) -> None:
    """Return all records of other groups at once."""
    if others := [record for record in batch.records if record.group != alone.group]:
        outcomes.keep(others, Outcome(delay=shortest_delay(others), reason=Reason.ASIDE))


def keep_crashed(batch: Batch, outcomes: Outcomes) -> None:
    """Return the records that have had their pause for the next invocation, which comes at once."""
    for record in batch.records:
        if outcomes.entries[record.message_id].ending is Ending.CRASHED:
            outcomes.keep([record], Outcome(delay=shortest_delay([record]), reason=Reason.TIME))


def is_suspect(entry: Entry) -> bool:
    """Whether a record may have killed its process in an attempt that nothing announced, and was not tried since."""
    return entry.suspect and entry.attempts == 0


def first_unsuspected(records: Sequence[RawRecord]) -> RawRecord | None:
    """Return the first record that was never received before, and has none of its group before it."""
    groups: set[str] = set()
    for record in records:
        if record.receive_count == 1 and record.group not in groups:
            return record
        groups.add(record.group)
    return None
