"""The trial of a dry run: each row becomes a message, which is thrown away, so rows that cannot be sent are known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lanes.errors import MessageError

from .partitions import map_in_arrow
from .rows.arrow import rows_of_batches
from .rows.outgoing import UnreadableRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from .rows.reader import RowReader

MAX_NAMED = 10


def trial(messages: DataFrame, reader: RowReader) -> dict[str, Any]:
    """Make the message of each row, and give the number of rows without one and the first of them with reasons."""
    tried = map_in_arrow(messages, lambda batches: _tried(batches, reader), "refused string").collect()
    parts = [json.loads(part) for (part,) in tried]
    return {
        "refused": sum(part["count"] for part in parts),
        "refused_rows": [row for part in parts for row in part["rows"]][:MAX_NAMED],
    }


def _tried(batches: Iterable[pa.RecordBatch], reader: RowReader) -> Iterator[pa.RecordBatch]:
    count, named, position = 0, list[dict[str, Any]](), 0
    for rows in rows_of_batches(batches):
        for row in rows:
            position += 1
            reason = _refusal(row, reader, position)
            if reason is not None:
                count += 1
                if len(named) < MAX_NAMED:
                    known: Mapping[str, Any] = row.row if isinstance(row, UnreadableRow) else row
                    named.append({"id": known.get("id"), "group": known.get("group"), "reason": reason})
    part = json.dumps({"count": count, "rows": named})
    yield pa.RecordBatch.from_arrays([pa.array([part])], ["refused"])


def _refusal(row: Mapping[str, Any] | UnreadableRow, reader: RowReader, position: int) -> str | None:
    if isinstance(row, UnreadableRow):
        return row.reason
    try:
        reader.item(row, position)
    except (ValueError, MessageError) as error:
        return str(error)
    return None
