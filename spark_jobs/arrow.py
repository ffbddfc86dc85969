"""Rows of Arrow batches, as Spark hands them to its Python workers; a row that Python cannot hold is set apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .rows import UnreadableRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .rows import Rows

# Rows are converted to Python objects in slices of this size, however large Spark's batches are.
SLICE_ROWS = 1_000
SLICE_BYTES = 8 * 1024 * 1024

LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def rows_of_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[Rows]:
    """
    Give the rows of Arrow batches in slices.

    Args:
        batches: Arrow batches of one schema.
    """
    for batch in batches:
        exact = _exact(batch)
        # Asked for where no column has a map, it takes pyarrow 26 ten times as long.
        maps = "strict" if any("map<" in str(kind) for kind in exact.schema.types) else None
        size = max(1, min(SLICE_ROWS, SLICE_BYTES * exact.num_rows // max(exact.nbytes, 1)))
        for start in range(0, exact.num_rows, size):
            yield _rows(exact.slice(start, size), maps)


def _rows(batch: pa.RecordBatch, maps: Any) -> Rows:
    try:
        return list(batch.to_pylist(maps_as_pydicts=maps))
    except (OverflowError, ValueError, KeyError):
        return [_row(batch.slice(place, 1), maps) for place in range(batch.num_rows)]


def _row(batch: pa.RecordBatch, maps: Any) -> dict[str, Any] | UnreadableRow:
    row: dict[str, Any] = {}
    problems: list[str] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            (row[name],) = column.to_pylist(maps_as_pydicts=maps)
        except (OverflowError, ValueError, KeyError) as error:
            row[name] = _readable(column)
            # The text of a KeyError has quotes of its own.
            reason = error.args[0] if isinstance(error, KeyError) else error
            problems.append(f"column {name!r} has a value that Python cannot hold: {reason}")
    return UnreadableRow(row, "; ".join(problems)) if problems else row


def _readable(column: pa.Array) -> Any:
    """Give the one value of an array with text in place of what Python cannot hold, and maps as lists of pairs."""
    try:
        return column.to_pylist()[0]
    except (OverflowError, ValueError):
        alone = column.take([0])
    if pa.types.is_struct(alone.type):
        return {
            alone.type.field(place).name: _readable(alone.field(place))
            for place in range(alone.type.num_fields)
        }
    if pa.types.is_map(alone.type):
        keys, items = alone.keys, alone.items
        return [[_readable(keys.slice(at, 1)), _readable(items.slice(at, 1))] for at in range(len(keys))]
    if _is_list(alone.type):
        values = alone.flatten()
        return [_readable(values.slice(at, 1)) for at in range(len(values))]
    if pa.types.is_string(alone.type) or pa.types.is_large_string(alone.type):
        return alone.cast(pa.large_binary())[0].as_py().decode("utf-8", "backslashreplace")
    return alone.cast(pa.string())[0].as_py()


def _exact(batch: pa.RecordBatch) -> pa.RecordBatch:
    """
    Widen 32-bit floats by their shortest decimal form, and write out columns that refer to a dictionary.

    0.1 stays 0.1: the 64-bit float of the same value is 0.10000000149011612.
    """
    if not any("float" in str(kind) or pa.types.is_dictionary(kind) for kind in batch.schema.types):
        return batch
    return pa.RecordBatch.from_arrays(list(map(_exact_column, batch.columns)), batch.schema.names)


def _exact_column(column: pa.Array) -> pa.Array:
    written = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    kind = written.type
    if "float" not in str(kind):
        return written
    return written.cast(_with_floats(kind, pa.string())).cast(_with_floats(kind, pa.float64()))


def _with_floats(kind: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """Give a type with another type in place of its 32-bit floats."""
    if pa.types.is_float32(kind):
        return wanted
    if pa.types.is_struct(kind):
        return pa.struct([one.with_type(_with_floats(one.type, wanted)) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, kind.item_field.with_type(_with_floats(kind.item_type, wanted)))
    if _is_list(kind):
        values = kind.value_field.with_type(_with_floats(kind.value_type, wanted))
        return pa.large_list(values) if pa.types.is_large_list(kind) else pa.list_(values)
    return kind


def _is_list(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in LISTS)
