"""The contents of a table to send: rows, the messages that they become, and a checksum by which a rerun knows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import types

from .arguments import MERGE, repeated_ids

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Every digit of a time, and fields that are null: rows that differ have texts that differ.
EXACT = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """
    The contents of a table.

    Attributes:
        rows: Number of rows.
        messages: Number of messages that they become.
        repeated_ids: Number of rows with an id that another row has.
        checksum: Of all rows, in any order.
    """

    rows: int
    messages: int
    repeated_ids: int
    checksum: str

    @property
    def equal_rows(self) -> int:
        """Number of rows that are the message of another row."""
        return self.rows - self.messages

    @classmethod
    def of(cls, messages: DataFrame) -> Contents:
        """Count the rows of a table with columns of `LanesDataSource`, in one pass."""
        from pyspark.sql import functions as f

        hashed = f.xxhash64(_text(), *_columns(messages, "id", "group")).cast("decimal(38,0)")
        groups = (
            messages.select(*_keys(messages), hashed.alias("hash"))
            .groupBy("key_id", "key_rest")
            .agg(f.count(f.lit(1)).alias("rows"), f.sum("hash").alias("hash"))
        )
        repeated = f.when(f.col("key_id").isNotNull(), f.col("rows") - 1).otherwise(0)
        rows, distinct, repeats, checksum = groups.agg(
            f.sum("rows"), f.count(f.lit(1)), f.sum(repeated), f.sum("hash")
        ).collect()[0]
        return cls(
            rows=rows or 0,
            messages=distinct,
            repeated_ids=int(repeats or 0),
            checksum=str(int(checksum or 0)),
        )

    def check(self, *, identity: str | None, repeated: str) -> None:
        """
        Refuse ids that repeat, unless they are to be merged.

        Raises:
            ConfigurationError: Rows share an id.
        """
        if self.repeated_ids and repeated != MERGE:
            raise repeated_ids(identity, rows=self.rows, messages=self.messages)


def distinct(messages: DataFrame) -> DataFrame:
    """Give one row for each message."""
    keyed = messages.select("*", *_keys(messages))
    return keyed.dropDuplicates(["key_id", "key_rest"]).drop("key_id", "key_rest")


def _keys(messages: DataFrame) -> list[Column]:
    """Give the columns that tell messages apart: the id, or without one all that an id is derived from."""
    from pyspark.sql import functions as f

    has_id = "id" in messages.columns
    # Spark compares no maps.
    data = _text() if _has_map(messages.schema["data"].dataType) else f.col("data")
    rest = f.struct(data, *_columns(messages, "group"))
    identity = f.col("id") if has_id else f.lit(None).cast("string")
    return [identity.alias("key_id"), f.when(identity.isNull(), rest).alias("key_rest")]


def _columns(messages: DataFrame, *names: str) -> list[Column]:
    from pyspark.sql import functions as f

    return [f.col(name) for name in names if name in messages.columns]


def _text() -> Column:
    from pyspark.sql import functions as f

    return f.to_json("data", EXACT)


def _has_map(kind: types.DataType) -> bool:
    if isinstance(kind, types.StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    if isinstance(kind, types.ArrayType):
        return _has_map(kind.elementType)
    return isinstance(kind, types.MapType)
