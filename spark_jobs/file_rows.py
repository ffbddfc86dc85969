"""The rows of a file as rows of the writer: Parquet, CSV or JSON Lines, without Spark."""

from __future__ import annotations

import csv
import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lanes.body import member_places
from lanes.errors import ConfigurationError
from lanes.message import LARGEST_BODY_BYTES

from .rows.outgoing import UnreadableRow
from .table_formats import check_formats

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator

    from pyarrow import RecordBatch

    Row = dict[str, Any]

CHUNK_ROWS = 1_000
LARGEST_FIELD = 16 * LARGEST_BODY_BYTES
# By the ending of the file's name; the last is for standard input too.
FORMATS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
SOURCE = "lanes bulk send"
HIDDEN = ("_", ".")


def rows_of(options: argparse.Namespace) -> Iterator[Row | UnreadableRow]:
    """
    Read the rows of a file as rows of the writer.

    Raises:
        ConfigurationError: The file cannot be read, or a column is missing.
    """
    named = options.format or FORMATS.get(Path(options.file).suffix.lower())
    if named is None:
        raise _problem(f"the format of {options.file!r} is unknown; give --format parquet, csv or jsonl")
    if named == "parquet":
        check_formats([("parquet", options.file)], _entries)
        yield from _parquet(options)
        return
    with ExitStack() as opened:
        try:
            path = Path(options.path or options.file)
            file = opened.enter_context(path.open(encoding="utf-8-sig", newline=""))
            yield from _csv(file, options) if named == "csv" else _lines(file, options)
        except UnicodeDecodeError as error:
            raise _problem(f"{options.file!r} is not UTF-8: {error}; save it as UTF-8") from error


def _named(options: argparse.Namespace) -> dict[str, str]:
    """Give the columns of id and group."""
    return {name: column for name, column in (("id", options.id), ("group", options.group)) if column}


def _selected(options: argparse.Namespace) -> list[str] | None:
    """Give the columns that become data; None for all."""
    return None if options.select is None else [one.strip() for one in options.select.split(",")]


def _columns(options: argparse.Namespace, known: list[str]) -> Callable[[Row], Row]:
    """
    Give a function that makes a row of the writer from one of the file.

    Args:
        options: The arguments.
        known: The columns of the file.
    """
    named, selected = _named(options), _selected(options)
    if repeated := [name for name in known if known.count(name) > 1]:
        raise _problem(f"column {repeated[0]!r} occurs more than once")
    if missing := [column for column in (*named.values(), *(selected or ())) if column not in known]:
        raise _problem(f"there is no column {missing[0]!r}; columns are {', '.join(known) or 'none'}")
    names = known if selected is None else selected
    return lambda row: {
        "data": {name: row.get(name) for name in names},
        **{name: row.get(column) for name, column in named.items()},
    }


def _parquet(options: argparse.Namespace) -> Iterator[Row | UnreadableRow]:
    try:
        from pyarrow import ArrowInvalid, ArrowTypeError, parquet, unify_schemas

        from .rows.arrow import problems_of_columns, rows_of_batches
    except ImportError as error:
        raise _problem("Parquet needs pyarrow: pip install pyarrow, or the extra 'spark'") from error
    files = _parquet_files(Path(options.path or options.file))
    try:
        schemas = [parquet.read_schema(one).remove_metadata() for one in files]
        schema = unify_schemas(schemas) if len(files) > 1 else schemas[0]
    except (ArrowInvalid, ArrowTypeError) as error:
        raise _problem(f"the files of {options.file!r} are not one table: {error}") from error
    made = _columns(options, schema.names)
    wanted = set(_named(options).values()) | set(_selected(options) or schema.names)
    if problems := problems_of_columns([field for field in schema if field.name in wanted]):
        raise ConfigurationError(problems, source=SOURCE)
    for one in files:
        # Nanoseconds, the default for times of INT96, reach from 1677 to 2262 alone.
        with parquet.ParquetFile(one, coerce_int96_timestamp_unit="us") as file:
            moments = {
                one.path
                for one in map(file.schema.column, range(len(file.schema)))
                if one.physical_type == "INT96"
            }
            for batch in file.iter_batches(batch_size=CHUNK_ROWS):
                # A value of another column may be one that Python cannot hold.
                needed = batch.select([name for name in batch.schema.names if name in wanted])
                for rows in rows_of_batches([_in_utc(needed, moments) if moments else needed]):
                    for row in rows:
                        yield row if isinstance(row, UnreadableRow) else made(row)


def _in_utc(batch: RecordBatch, names: set[str]) -> RecordBatch:
    """Give the columns with these names the zone UTC, as Spark does for times of INT96."""
    from pyarrow import RecordBatch, timestamp

    columns = [
        column.cast(timestamp("us", "UTC")) if name in names else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return RecordBatch.from_arrays(columns, batch.schema.names)


def _parquet_files(path: Path) -> list[Path]:
    """Give the files of a table, as Spark reads them."""
    if not path.is_dir():
        return [path]
    found = [one.relative_to(path) for one in path.rglob("*.parquet")]
    files = sorted(one for one in found if not any(part.startswith(HIDDEN) for part in one.parts))
    if not files:
        raise _problem(f"there is no file *.parquet in {str(path)!r}")
    for one in files:
        if partition := next((part for part in one.parts[:-1] if "=" in part), None):
            raise _problem(
                f"folder {partition!r} in {str(path)!r} has the value of a column, which its files lack; send the "
                f"table with Spark: lanes bulk submit enqueue --table {path}"
            )
    return [path / one for one in files]


def _csv(file: Iterable[str], options: argparse.Namespace) -> Iterator[Row]:
    # The module's own limit, 128 KiB, is less than a message holds, and the reader refuses the row that it does not. An
    # open quotation mark takes the rest of the file.
    csv.field_size_limit(LARGEST_FIELD)
    rows = csv.DictReader(file, strict=True)
    names = list(rows.fieldnames or [])
    made = _columns(options, names)
    try:
        for row in rows:
            if None in row or None in row.values():
                raise _problem(
                    f"line {rows.line_num} has another number of fields than the {len(names)} names"
                )
            # As Spark reads it: text, and an empty field is null.
            yield made({name: value or None for name, value in row.items()})
    except csv.Error as error:
        raise _problem(f"line {rows.line_num} is not CSV: {error}") from error


def _lines(file: Iterable[str], options: argparse.Namespace) -> Iterator[Row | UnreadableRow]:
    """Give rows with the JSON of lines as it came."""
    named, selected = _named(options), _selected(options)
    wanted = {*named.values(), *(selected or ())}
    # A field that a line lacks is null, as Spark reads it; one that all lines lack is a mistake.
    known = set[str]()
    for line in filter(None, map(str.strip, file)):
        members = _members(line) if wanted else None
        if members is None:
            # The reader refuses what is not JSON, or sets it aside.
            yield {"data": line}
        elif problem := _problem_of_line(members, wanted):
            yield UnreadableRow({"data": line}, problem)
        else:
            row = dict(members)
            known |= row.keys()
            data = line if selected is None else _selection(line, selected)
            yield {"data": data, **{name: row.get(column) for name, column in named.items()}}
    if known and (unknown := wanted - known):
        raise _problem(f"there is no field {min(unknown)!r} in any line")


class _Members(tuple[tuple[str, Any], ...]):
    """The members of a JSON object, also repeated ones."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Write them as an object, for errors."""
        return repr(dict(self))


def _members(line: str) -> Any:
    """Give the members of the object in a line, its value if it has another one, and None if it is not JSON."""
    try:
        return json.loads(line, object_pairs_hook=_Members)
    except (ValueError, RecursionError):
        return None


def _problem_of_line(members: Any, wanted: set[str]) -> str:
    if not isinstance(members, _Members):
        return f"it is not a JSON object, so it has no field {min(wanted)!r}"
    names = [name for name, _ in members]
    repeated = [name for name in sorted(wanted) if names.count(name) > 1]
    return f"its field {repeated[0]!r} occurs more than once" if repeated else ""


def _selection(line: str, selected: list[str]) -> str:
    """Write an object of some members; their values stay as they are in the line."""
    places = member_places(line)
    values = {name: line[slice(*places[name])] if name in places else "null" for name in selected}
    return (
        f"{{{','.join(f'{json.dumps(name, ensure_ascii=False)}:{value}' for name, value in values.items())}}}"
    )


def _entries(folder: str) -> list[str]:
    path = Path(folder)
    return [one.name for one in path.iterdir()] if path.is_dir() else []


def _problem(text: str) -> ConfigurationError:
    return ConfigurationError([text], source=SOURCE)
