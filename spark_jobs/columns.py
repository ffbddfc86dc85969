"""Checks of the columns of a table, on the driver before any task starts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pyspark.sql import types

from lanes.config.table import nearest
from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = 'columns for format("lanes")'
WHOLE_NUMBERS = (types.ByteType, types.ShortType, types.IntegerType, types.LongType)
TEXTS = (types.StringType,)
COLUMNS = {
    "kind": (TEXTS, "a string"),
    "data": ((*TEXTS, types.StructType, types.MapType), "a string with a JSON document, a struct or a map"),
    "group": ((*TEXTS, *WHOLE_NUMBERS), "a string or a whole number"),
    "id": ((*TEXTS, *WHOLE_NUMBERS), "a string or a whole number"),
    "priority": (WHOLE_NUMBERS, "a whole number"),
    "traceparent": (TEXTS, "a string"),
    "resend_of": (TEXTS, "a string"),
}
# Why a line of a file can't be sent, and the number of a row among its equals.
OF_JOBS = {"refused": (TEXTS, "a string"), "occurrence": (WHOLE_NUMBERS, "a whole number")}
PLAIN = (
    *TEXTS,
    *WHOLE_NUMBERS,
    types.BooleanType,
    types.FloatType,
    types.DoubleType,
    types.DateType,
    types.TimestampType,
    types.TimestampNTZType,
    types.NullType,
)
# A decimal with a fraction becomes a double, which keeps 15 digits exactly; one without is a whole number.
MAX_DIGITS = 15


def check_columns(schema: types.StructType, *, kind: str | None) -> None:
    """
    Check that rows of this schema can be messages.

    Args:
        schema: Schema of the table to write.
        kind: The option `kind`, for tables without a column of that name.

    Raises:
        ConfigurationError: All problems at once.
    """
    problems = [problem for field in schema.fields for problem in _column_problems(field)]
    names = schema.fieldNames()
    problems.extend(f"column {name!r} occurs more than once" for name in COLUMNS if names.count(name) > 1)
    if "data" not in names:
        problems.append(f"column 'data' is missing; {COLUMNS['data'][1]} is needed")
    if "kind" not in names and kind is None:
        problems.append("column 'kind' is missing; add it, or set the option kind for all rows")
    if problems:
        raise ConfigurationError(problems, source=SOURCE)


def _column_problems(field: types.StructField) -> Iterator[str]:
    if field.name not in COLUMNS | OF_JOBS:
        hint = nearest(field.name, COLUMNS)
        yield f"unknown column {field.name!r}{hint} (put the fields of your handler into data)"
        return
    allowed, needed = (COLUMNS | OF_JOBS)[field.name]
    if not isinstance(field.dataType, allowed):
        yield f"column {field.name!r} is {field.dataType.simpleString()}; {needed} is needed"
    elif field.name == "data":
        yield from _data_problems(field.dataType, "data")


def _data_problems(kind: types.DataType, where: str) -> Iterator[str]:
    if isinstance(kind, types.StructType):
        repeated = [name for name, count in Counter(kind.fieldNames()).items() if count > 1]
        if repeated:
            yield f"{where} has {', '.join(map(repr, repeated))} more than once; a JSON object has each name once"
        for field in kind.fields:
            yield from _data_problems(field.dataType, f"{where}.{field.name}")
    elif isinstance(kind, types.ArrayType):
        yield from _data_problems(kind.elementType, f"{where}[]")
    elif isinstance(kind, types.MapType):
        if not isinstance(kind.keyType, TEXTS):
            yield f"{where} is {kind.simpleString()}; keys of a JSON object are strings"
        yield from _data_problems(kind.valueType, f"{where}[key]")
    elif isinstance(kind, types.DecimalType):
        if kind.scale and kind.precision > MAX_DIGITS:
            yield (
                f"{where} is {kind.simpleString()}; a JSON number keeps {MAX_DIGITS} digits, "
                f"cast it to a smaller decimal or to a string"
            )
    elif not isinstance(kind, PLAIN):
        yield f"{where} is {kind.simpleString()}, which JSON cannot express; cast it to a string"
