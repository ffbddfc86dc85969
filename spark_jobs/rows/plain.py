"""Rows outside of Arrow batches, converted to the values that Arrow batches would give."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

from pyspark.sql import types

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from pyspark.sql import Row

    Convert = Callable[[Any], Any]


class PlainRows:
    """
    Converts a row to a dict.

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


def _converter(kind: types.DataType) -> Convert | None:
    """Give the converter of a type, or None if its values need no conversion."""
    if isinstance(kind, types.TimestampType):
        return _moment
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
