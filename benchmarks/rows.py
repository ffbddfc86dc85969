"""The table that is enqueued in every measurement: made batch by batch, so that any length fits in memory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH_ROWS = 10_000


def record_batches(rows: int) -> Iterator[pa.RecordBatch]:
    """Give so many rows as Spark hands them to a writer: an id, a group each, a struct of about 300 bytes."""
    for start in range(0, rows, BATCH_ROWS):
        numbers = range(start, min(rows, start + BATCH_ROWS))
        customers = [f"c-{number:09d}" for number in numbers]
        data = [
            {"customer_id": one, "tier": "gold", "orders": 12, "spent_cents": 98_765, "note": "x" * 180}
            for one in customers
        ]
        yield pa.RecordBatch.from_pydict(
            {"data": data, "id": [f"spring:{one}" for one in customers], "group": customers}
        )


def cloud_event(row: dict[str, Any]) -> str:
    """Write the body that a hand-made loop would send for a row."""
    return json.dumps(
        {
            "specversion": "1.0",
            "id": row["id"],
            "source": "spark",
            "type": "customer.loyalty_tier",
            "time": "2026-01-02T03:04:05.678901+00:00",
            "datacontenttype": "application/json",
            "data": row["data"],
            "priority": -100,
        },
        separators=(",", ":"),
    )
