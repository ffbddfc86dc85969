"""The contents of a table to send: rows, and the messages that they become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import types

from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ONE, EACH = "one", "each"
MAX_QUOTED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """
    The contents of a table.

    Attributes:
        rows: Number of rows.
        messages: Number of messages that they become.
    """

    rows: int
    messages: int

    @property
    def equal_rows(self) -> int:
        """Number of rows that are the message of another row."""
        return self.rows - self.messages

    @classmethod
    def of(cls, messages: DataFrame) -> Contents:
        """Count the rows of a table with columns of `LanesDataSource`, in one pass."""
        from pyspark.sql import functions as f

        groups = (
            messages.select(*_keys(messages))
            .groupBy("key_id", "key_rest")
            .agg(f.count(f.lit(1)).alias("rows"))
        )
        rows, distinct = groups.agg(f.sum("rows"), f.count(f.lit(1))).collect()[0]
        return cls(rows=rows or 0, messages=distinct)


def one_each(messages: DataFrame, contents: Contents, *, identity: str | None, equal_rows: str) -> DataFrame:
    """
    Give the rows to send: all if no two are one message, else those that the argument --equal-rows names.

    Args:
        messages: Columns of `LanesDataSource`, and those of the order.
        contents: Their counts.
        identity: The argument --id.
        equal_rows: `fail`, `one` or `each`.

    Raises:
        ConfigurationError: Rows are equal, or share an id, and neither way was named.
    """
    if not contents.equal_rows:
        return messages
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    keyed = messages.select("*", *_keys(messages))
    if equal_rows == EACH and identity is None:
        # Which of two equal rows is the first makes no difference but to the order.
        order = [one for one in messages.columns if one.startswith("order_")] or ["key_rest"]
        place = f.row_number().over(Window.partitionBy("key_id", "key_rest").orderBy(*order))
        return keyed.withColumn("occurrence", place).drop("key_id", "key_rest")
    if equal_rows == ONE:
        return keyed.dropDuplicates(["key_id", "key_rest"]).drop("key_id", "key_rest")
    repeated = keyed.groupBy("key_id", "key_rest").agg(
        f.count(f.lit(1)).alias("rows"), f.first("data").alias("data")
    )
    found = repeated.where("rows > 1").orderBy(f.desc("rows")).select("key_id", "rows", "data").first()
    raise _equal(contents, found, identity)


def _equal(contents: Contents, found: Any, identity: str | None) -> ConfigurationError:
    shared, rows, data = found or (None, 0, None)
    text = data if isinstance(data, str) else repr(data and data.asDict(recursive=True))
    example = text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."
    if identity is None:
        problem = (
            f"{contents.equal_rows:,} of {contents.rows:,} rows are equal to another one, and equal rows have one "
            f"derived id; {rows:,} are {example}. Name what identifies a row: --id COLUMN; or say whether you mean one "
            f"message for all of them or one for each: --equal-rows {ONE}, --equal-rows {EACH}"
        )
    else:
        problem = (
            f"--id {identity} repeats: {contents.rows:,} rows have {contents.messages:,} ids, and rows with one id are "
            f"one message; {rows:,} have {shared!r}. Name what identifies a row, or send one row for each id: "
            f"--equal-rows {ONE}"
        )
    return ConfigurationError([problem], source="table to send")


def _keys(messages: DataFrame) -> list[Column]:
    """Give the columns that tell messages apart: the id, or without one all that an id is derived from."""
    from pyspark.sql import functions as f

    identity = f.col("id") if "id" in messages.columns else f.lit(None).cast("string")
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
