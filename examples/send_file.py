"""Send each row of a file as a message, without Spark."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lanes import Message, Priority, Producer


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """Give the rows of a file of CSV or Parquet."""
    if path.suffix == ".parquet":
        from pyarrow import parquet

        for batch in parquet.ParquetFile(path).iter_batches(1_000):
            yield from batch.to_pylist()
    else:
        with path.open(newline="", encoding="utf-8-sig") as file:
            yield from csv.DictReader(file, strict=True)


def send_file(producer: Producer, path: Path) -> None:
    """Send a file; a second run within five minutes, or with idempotency within its window, has no further effect."""
    producer.send_many(
        Message(kind="customer.reminded", data=row, id=f"spring-{row['customer']}", priority=Priority.BULK)
        for row in rows_of(path)
    )
