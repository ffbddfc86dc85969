"""
Rows that Spark has converted to Python already, for `foreachPartition` and the streams of Spark 4.0.

A value that Python cannot hold ends the task before it gets here, and Spark itself alters strings that are not UTF-8.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from pyspark.sql import Row

    from .outgoing import Rows

    Convert = Callable[[Any], Any]

CHUNK_ROWS = 1_000
CHUNK_CHARACTERS = 8_000_000


class PlainRows:
    """
    Converts rows to the dicts that Arrow batches would give.

    Outside of Arrow batches a timestamp is a naive local time. It becomes a time with a zone, so that body and id of
    the message are the same on every machine.

    Args:
        schema: Schema of the rows.
    """

    def __init__(self, schema: types.StructType) -> None:
        self._convert = _converter(schema)

    def __call__(self, row: Row) -> dict[str, Any]:
        """Give the columns of a row by name."""
        plain: dict[str, Any] = row.asDict(recursive=True)
        return plain if self._convert is None else self._convert(plain)

    def chunks(self, rows: Iterable[Row]) -> Iterator[Rows]:
        """Give rows in chunks, smaller ones if rows are large."""
        chunk: Rows = []
        characters = 0
        for row in rows:
            plain = self(row)
            chunk.append(plain)
            characters += _characters(plain)
            if len(chunk) >= CHUNK_ROWS or characters >= CHUNK_CHARACTERS:
                yield chunk
                chunk, characters = [], 0
        if chunk:
            yield chunk


def _converter(kind: types.DataType) -> Convert | None:
    """Give the converter of a type, or None if its values need no conversion."""
    if isinstance(kind, types.TimestampType):
        return _moment
    if isinstance(kind, types.FloatType):
        return _shortest
    if isinstance(kind, types.StructType):
        fields = {field.name: _converter(field.dataType) for field in kind.fields}
        return _struct_converter({name: convert for name, convert in fields.items() if convert is not None})
    if isinstance(kind, types.ArrayType):
        element = _converter(kind.elementType)
        return element and (lambda value: [_converted(one, element) for one in value])
    if isinstance(kind, types.MapType):
        inner = _converter(kind.valueType)
        return inner and (lambda value: {key: _converted(one, inner) for key, one in value.items()})
    return None


def _struct_converter(fields: dict[str, Convert]) -> Convert | None:
    if not fields:
        return None
    return lambda value: value | {name: _converted(value[name], convert) for name, convert in fields.items()}


def _converted(value: Any, convert: Convert) -> Any:
    return None if value is None else convert(value)


def _moment(value: datetime) -> datetime:
    return value.astimezone(UTC)


def _shortest(value: float) -> float:
    """Widen a 32-bit float by its shortest decimal form, as for Arrow batches."""
    return float(pa.scalar(value, pa.float32()).cast(pa.string()).as_py())


def _characters(value: object) -> int:
    """Count the characters of all strings in a value; they make a row large."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_characters, value.values()))
    return sum(map(_characters, value)) if isinstance(value, list) else 0
