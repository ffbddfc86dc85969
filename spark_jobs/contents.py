"""The contents of a table to send: rows, the messages that they become, and a checksum by which a rerun knows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import types

from .arguments import MERGE, repeated_ids

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Every digit of a time, and fields that are null: rows that differ have other texts, the same in each session.
EXACT = {
    "timeZone": "UTC",
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
# A row with an empty id gets a derived one, as a row without one does.
GIVEN_ID = "nullif(id, '')"


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

        text = f.to_json(_data(messages), EXACT)
        hashed = f.xxhash64(text, *_columns(messages, "id", "group")).cast("decimal(38,0)")
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

    identity = f.expr(GIVEN_ID) if "id" in messages.columns else f.lit(None).cast("string")
    rest = f.struct(_data(messages), *_columns(messages, "group"))
    return [identity.alias("key_id"), f.when(identity.isNull(), rest).alias("key_rest")]


def _columns(messages: DataFrame, *names: str) -> list[Column]:
    from pyspark.sql import functions as f

    return [f.col(name) for name in names if name in messages.columns]


def _data(messages: DataFrame) -> Column:
    from pyspark.sql import functions as f

    return _comparable(f.col("data"), messages.schema["data"].dataType)


def _comparable(value: Column, kind: types.DataType) -> Column:
    """
    Give a value that is equal for equal data only.

    Spark compares no maps and strings by their collation, and takes 0.0 for -0.0. The entries of a map have no order.
    """
    from pyspark.sql import functions as f

    if _compares(kind):
        return value
    if isinstance(kind, types.StructType):
        # Names that differ in their case alone are ambiguous for Spark.
        numbered = [types.StructField(f"field_{place}", one.dataType) for place, one in enumerate(kind)]
        renamed = value.cast(types.StructType(numbered))
        parts = [
            _comparable(renamed[place.name], one.dataType).alias(one.name)
            for place, one in zip(numbered, kind, strict=True)
        ]
        return f.when(value.isNotNull(), f.struct(*parts))
    if isinstance(kind, types.ArrayType):
        return f.transform(value, lambda one: _comparable(one, kind.elementType))
    if isinstance(kind, types.MapType):
        entries = f.transform_values(value, lambda _, one: _comparable(one, kind.valueType))
        return f.array_sort(f.map_entries(entries))
    return value.cast("string").cast("binary")


def _compares(kind: types.DataType) -> bool:
    """Whether two values of a type are equal for Spark only if they are the same data."""
    if isinstance(kind, types.StructType):
        return all(_compares(field.dataType) for field in kind.fields)
    if isinstance(kind, types.ArrayType):
        return _compares(kind.elementType)
    if isinstance(kind, types.StringType):
        return kind.simpleString() == "string"
    return not isinstance(kind, (types.MapType, types.FloatType, types.DoubleType))
