"""Records as a mapping brings them, for tests of rules that look at nothing else."""

from __future__ import annotations

from typing import Any

from lanes.consumer.records import RawRecord


def record_with(message_id: str = "m", **fields: Any) -> RawRecord:
    """Return a record with some fields of its own."""
    usual = {
        "receipt_handle": f"handle-{message_id}",
        "body": "{}",
        "group": "g",
        "receive_count": 1,
        "sent_at": 1_800_000_000.0,
        "first_received_at": 1_800_000_000.0,
        "deduplication_id": message_id,
        "attributes": {},
        "message_attributes": {},
    }
    return RawRecord(message_id=message_id, **{**usual, **fields})
