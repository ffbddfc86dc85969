"""
Ranges of a key, by which a large table is sent in parts, one after the other.

    <manifestPath>/<runId>/ranges.json            the bounds, written by the first session
    <manifestPath>/<runId>/parts/0001/sessions/   a part that is complete, with its counts
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import types

from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame

    from .contents import Contents
    from .manifest.storage import Storage

KEY = "range_key"
# Their texts are exact, and have one value in every time zone.
TYPES = (
    types.StringType,
    types.ByteType,
    types.ShortType,
    types.IntegerType,
    types.LongType,
    types.DecimalType,
    types.DateType,
)
MAX_PARTS = 9_999
# Reading the ids of so many rows takes a task half a minute.
ROWS_PER_PART = 10_000_000
SAMPLED_ROWS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """
    The ranges of a table.

    Attributes:
        rows: Number of rows of the table.
        equal_rows: Number of rows that are the message of another row.
        key_type: Type of the key.
        bounds: First key of each range but the first, which has the rows without a key too.
    """

    rows: int
    equal_rows: int
    key_type: str
    bounds: Sequence[str]

    @classmethod
    def read(cls, storage: Storage, run_id: str) -> Ranges | None:
        """Read the ranges of a run; None before its first session."""
        name = _name(run_id)
        return cls(**json.loads(storage.read(name))) if name in storage.names(name) else None

    @classmethod
    def make(cls, table: DataFrame, contents: Contents) -> Ranges:
        """
        Choose the bounds by a sample of the keys.

        Args:
            table: The messages with the column of the key.
            contents: Their counts.
        """
        from pyspark.sql import functions as f

        # Larger parts rather than more of them than a run has.
        parts = min(MAX_PARTS, max(1, -(-contents.rows // ROWS_PER_PART)))
        keys = table.select(KEY).where(f.col(KEY).isNotNull())
        share = SAMPLED_ROWS * parts / max(contents.rows, 1)
        sample = keys if share >= 1 else keys.sample(share, seed=1)
        found = [] if parts == 1 else sample.orderBy(KEY).select(f.col(KEY).cast("string")).collect()
        bounds = dict.fromkeys(found[place * len(found) // parts][0] for place in range(1, parts) if found)
        return cls(
            rows=contents.rows,
            equal_rows=contents.equal_rows,
            key_type=table.schema[KEY].dataType.simpleString(),
            bounds=list(bounds),
        )

    def record(self, storage: Storage, run_id: str) -> None:
        """Write the ranges; they never change."""
        storage.create(_name(run_id), json.dumps(asdict(self), indent=2).encode())

    def check(self, schema: types.StructType) -> None:
        """
        Check that the key is still of the type of the bounds.

        Raises:
            ConfigurationError: It is not.
        """
        now = schema[KEY].dataType.simpleString()
        if now != self.key_type:
            raise _problem(f"--split-by was {self.key_type} in the first session, and now is {now}; cast it")

    def parts(self) -> Iterator[tuple[str, Column]]:
        """Give folder and condition of each range, in the order of the keys."""
        from pyspark.sql import functions as f

        key = f.col(KEY)
        bounds = [f.lit(text).cast(self.key_type) for text in self.bounds]
        for place in range(len(bounds) + 1):
            limits = [key >= bounds[place - 1]] if place > 0 else []
            limits += [key < bounds[place]] if place < len(bounds) else []
            condition = reduce(lambda one, other: one & other, limits, f.lit(True))
            yield f"parts/{place + 1:04d}", condition if place > 0 else condition | key.isNull()


def check_key(schema: types.StructType) -> None:
    """
    Check that the key can bound ranges.

    Raises:
        ConfigurationError: It is of another type.
    """
    kind = schema[KEY].dataType
    if not isinstance(kind, TYPES):
        raise _problem(
            f"--split-by is {kind.simpleString()}; a string, whole number, decimal or date is needed, "
            f"such as date(created_at)"
        )


def is_complete(storage: Storage, run_id: str, part: str) -> bool:
    """Whether a session has sent all rows of a part; rows that it set aside may have been mended since."""
    ends = storage.names(f"{run_id}/{part}/sessions/")
    return any(json.loads(storage.read(name))["quarantined"] == 0 for name in ends)


def _name(run_id: str) -> str:
    return f"{run_id}/ranges.json"


def _problem(text: str) -> ConfigurationError:
    return ConfigurationError([text], source="table to send in parts")
