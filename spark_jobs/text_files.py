"""
Files of text, whose values go out as they stand: JSON Lines, passed on line by line, and CSV, checked beside Spark.

Spark infers the types of JSON from other rows, so that `1`, `"1"` and `true` become one text. A line is therefore read
as text; id, group and order are taken from it by JSON path. Of CSV Spark reads each column as text, but replaces
letters that are not UTF-8, and reads on behind a quotation mark that is never closed.
"""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from lanes.errors import ConfigurationError
from lanes.message import LARGEST_BODY_BYTES, JsonText

from .partitions import map_in_arrow
from .rows import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

SOURCE = "files to send"
JSON = ("json", "jsonl", "ndjson")
# Options that choose files; all others would have a meaning for Spark's own reader of JSON alone.
OF_FILES = ("recursivefilelookup", "pathglobfilter", "modifiedafter", "modifiedbefore")
LARGEST_FIELD = 16 * LARGEST_BODY_BYTES
# A task holds the text of a whole file in memory. A message has no field that is larger.
MAX_WHOLE_BYTES = 64 * 1024 * 1024
MAX_QUOTED = 100
MAX_NAMED = 10
PART = re.compile(r"\.?(?P<name>[^.\[\]'\"]+)|\[(?P<place>\d+)\]|\['(?P<quoted>[^']*)'\]")
ONE_A_LINE = (
    "a file of JSON has one object on each line. Convert an array or an object of several lines, as with "
    "jq -c '.[]' FILE, or write a DataFrame with the schema that you mean"
)
NO_NAME = (
    "a column has no name, as pandas' to_csv() and R's write.csv() leave that of row numbers: write the file with "
    "index=False (row.names=FALSE), or name the column"
)


class _Members(tuple[tuple[str, Any], ...]):
    """The members of a JSON object, also repeated ones."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class JsonPath:
    """
    The place of a value in a line, such as `customer_id`, `$.order.lines[0]` or `$['a.b']`.

    Attributes:
        text: The path as it was given.
        steps: Names and positions.
    """

    text: str
    steps: Sequence[str | int]

    @classmethod
    def of(cls, text: str, argument: str) -> Self:
        """
        Read a path.

        Raises:
            ConfigurationError: It is an expression, or has another form.
        """
        rest, steps = text.removeprefix("$"), list[str | int]()
        while rest and (found := PART.match(rest)):
            named = found["quoted"] if found["quoted"] is not None else found["name"]
            steps.append(int(found["place"]) if named is None else named)
            rest = rest[found.end() :]
        if rest or not steps or re.search(r"[\s(),]", text.partition("['")[0]):
            problem = f"{argument} is {text!r}; of JSON a path is needed, such as customer_id or $.order.lines[0].id"
            raise ConfigurationError([problem], source=SOURCE)
        return cls(text, steps)

    def value(self, line: Any) -> Any:
        """
        Give the value of a line; None if it has none.

        Raises:
            ValueError: A name on the path occurs more than once.
        """
        for step in self.steps:
            if isinstance(step, int):
                line = line[step] if isinstance(line, list) and step < len(line) else None
                continue
            found = [value for name, value in line if name == step] if isinstance(line, _Members) else []
            if len(found) > 1:
                raise ValueError(f"its field {step!r} occurs more than once")
            line = found[0] if found else None
        return line


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLines:
    """
    The messages of JSON Lines.

    Attributes:
        id: Path of the id; None for a derived one.
        group: Path of the group; None for none.
        order: Paths of the order within a group.
    """

    id: JsonPath | None = None
    group: JsonPath | None = None
    order: Sequence[JsonPath] = ()

    def messages(self, spark: SparkSession, path: str, options: Mapping[str, str]) -> DataFrame:
        """
        Give the lines as `data`, with `id`, `group` and the keys of the order, and why a line can't be sent.

        Raises:
            ConfigurationError: An option is about Spark's own reader of JSON.
        """
        if other := [name for name in options if name.lower() not in OF_FILES]:
            problem = (
                f"--reader-option {other[0]} has no meaning for JSON, which is read as lines: {ONE_A_LINE}"
            )
            raise ConfigurationError([problem], source=SOURCE)
        columns = [f"order_{place} binary" for place in range(len(self.order))]
        columns += [f"{name} string" for name in ("id", "group") if getattr(self, name) is not None]
        schema = ", ".join(["data string", "refused string", "place string", *columns])
        return map_in_arrow(placed_text(spark, path, options), self.rows, schema)

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the rows of Arrow batches of text; runs in the task."""
        paths = {f"order_{place}": path for place, path in enumerate(self.order)}
        paths |= {name: path for name in ("id", "group") if (path := getattr(self, name)) is not None}
        kinds = [pa.binary() if name.startswith("order_") else pa.string() for name in paths]
        schema = pa.schema(
            list(zip(["data", "refused", "place", *paths], [pa.string()] * 3 + kinds, strict=True))
        )
        place = Place()
        for batch in batches:
            rows = [_row(text, at, paths) for text, at in place.lines(batch) if text.strip()]
            yield pa.RecordBatch.from_pylist(rows, schema)


def _row(text: bytes, place: str, paths: Mapping[str, JsonPath]) -> dict[str, Any]:
    row: dict[str, Any] = {"place": place}
    try:
        row["data"] = text.decode("utf-8-sig").strip()
        _read_line(row, paths)
    except UnicodeDecodeError as error:
        row["data"] = text.decode(errors="backslashreplace")
        row["refused"] = f"it is not UTF-8: {error.reason} at byte {error.start}; save the file as UTF-8"
    except (ValueError, RecursionError) as error:
        row["refused"] = str(error) if isinstance(error, ValueError) else "it is nested too deep"
    return row


def _read_line(row: dict[str, Any], paths: Mapping[str, JsonPath]) -> None:
    line = row["data"]
    if not line.startswith("{"):
        raise ValueError(f"{_quoted(line)} is not a JSON object; {ONE_A_LINE}")
    try:
        JsonText(line).checked()
    except ValueError as error:
        raise ValueError(f"{_quoted(line)} is not a JSON object ({error}); {ONE_A_LINE}") from error
    members = json.loads(line, object_pairs_hook=_Members, parse_float=Decimal) if paths else None
    for name, path in paths.items():
        try:
            value = path.value(members)
            row[name] = _sortable(value) if name.startswith("order_") else _named(value, name)
        except ValueError as error:
            raise ValueError(f"{error} (in {_quoted(line)})") from error


def _named(value: Any, name: str) -> str | None:
    text = text_of(value, name)
    if name == "id" and not text:
        raise ValueError("its id is missing or empty")
    return text


def _sortable(value: Any) -> bytes | None:
    """
    Give bytes that sort as the value does: numbers by their exact value, then text.

    Raises:
        ValueError: It is neither.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return b"T" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise ValueError("its key of the order is neither text nor a number")  # noqa: TRY004 - a value of the file
    sign, digits, _ = Decimal(value).as_tuple()
    number = "".join(map(str, digits)).lstrip("0").rstrip("0")
    if not number:
        return b"N1"
    # The exponent of the first digit, then the digits: longer ones of the same beginning are larger.
    size = (Decimal(value).adjusted() + 2**31).to_bytes(4, "big") + number.encode() + b"\x00"
    return b"N0" + bytes(255 - one for one in size) if sign else b"N2" + size


class Place:
    """Counts the lines of the blocks of files that a task reads one after the other."""

    def __init__(self) -> None:
        self._block: tuple[str, int] = ("", -1)
        self._line = 0

    def lines(self, batch: pa.RecordBatch) -> Iterator[tuple[bytes, str]]:
        """Give each line of a batch with its place: file, start of its block, and number within it."""
        for text, file, start in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            self._line = self._line + 1 if (file, start) == self._block else 1
            self._block = file, start
            yield text, f"{self._line}:{start}:{file}"


def placed_text(
    spark: SparkSession, path: str, options: Mapping[str, str], *, whole: bool = False
) -> DataFrame:
    """Give the lines of files, or the text of whole ones, in bytes, with their places."""
    from pyspark.sql import functions as f

    files = {name: value for name, value in options.items() if name.lower() in OF_FILES}
    reader = spark.read.format("text").options(**files)
    reader = reader.option("wholetext", "true") if whole else reader.option("lineSep", "\n")
    return reader.load(path).select(
        f.col("value").cast("binary").alias("text"),
        f.col("_metadata.file_path").alias("file"),
        f.col("_metadata.file_block_start").alias("start"),
    )


def line_of(spark: SparkSession, place: str, path: str, options: Mapping[str, str]) -> str:
    """Name a place for readers: the file, and the number of the line in it."""
    from pyspark.sql import functions as f

    line, start, file = place.split(":", 2)
    before = 0
    if int(start):
        text = placed_text(spark, path, options)
        before = text.where((f.col("file") == file) & (f.col("start") < int(start))).count()
    return f"{file}, line {int(line) + before}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvCheck:
    """
    Finds lines of CSV that Spark would not read as they stand; its options may allow them.

    Attributes:
        fields: Number of fields of each line.
        whole: Whether fields may have line breaks, so that the texts are whole files.
        dialect: Of Python's reader.
        encoding: Of the files.
        header: Whether the first line has the names.
    """

    fields: int
    whole: bool
    dialect: Mapping[str, Any]
    encoding: str
    header: bool

    @classmethod
    def of(cls, options: Mapping[str, str], *, fields: int) -> CsvCheck | None:
        """Give the check; None if the options allow what it finds, or have a form that Python does not read."""
        given = {name.lower(): value for name, value in options.items()}
        quote, escape = given.get("quote", '"'), given.get("escape", "\\")
        separator = given.get("sep", given.get("delimiter", ","))
        encoding = given.get("encoding", given.get("charset", "utf-8")).lower()
        is_read = len(separator) == len(quote) == len(escape) == 1 and "comment" not in given
        if (
            given.get("mode", "").upper() != "FAILFAST"
            or not is_read
            or encoding.startswith(("utf-16", "utf-32"))
        ):
            return None
        return cls(
            fields=fields,
            whole=given.get("multiline", "").lower() == "true",
            dialect={
                "delimiter": separator,
                "quotechar": quote,
                "doublequote": escape == quote,
                "escapechar": None if escape == quote else escape,
                "skipinitialspace": given.get("ignoreleadingwhitespace", "").lower() == "true",
            },
            encoding="utf-8-sig" if encoding in ("utf-8", "utf8") else encoding,
            header=given.get("header", "").lower() == "true",
        )

    def run(self, spark: SparkSession, path: str, options: Mapping[str, str]) -> None:
        """
        Refuse files with lines that Spark would not read as they stand.

        Raises:
            ConfigurationError: The first such line of each task.
        """
        from pyspark.sql import functions as f

        text = placed_text(spark, path, options, whole=self.whole)
        if self.whole:
            text = text.where(f.octet_length("text") <= MAX_WHOLE_BYTES)
        found = map_in_arrow(text, self.first, "problem string, place string").take(MAX_NAMED)
        problems = [
            f"{place.split(':', 2)[2] if self.whole else line_of(spark, place, path, options)}: {problem}"
            for problem, place in found
        ]
        if problems:
            raise ConfigurationError(problems, source=SOURCE)

    def first(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the first problem of the text that a task reads, with its place."""
        csv.field_size_limit(LARGEST_FIELD)
        place = Place()
        for batch in batches:
            for text, at in place.lines(batch):
                if problem := self._problem(text, is_first=at.startswith("1:0:")):
                    yield pa.RecordBatch.from_arrays(
                        [pa.array([problem]), pa.array([at])], ["problem", "place"]
                    )
                    return

    def _problem(self, text: bytes, *, is_first: bool) -> str:
        try:
            lines = text.decode(self.encoding)
        except UnicodeDecodeError as error:
            around = text[max(0, error.start - MAX_QUOTED // 2) : error.start + MAX_QUOTED // 2]
            return (
                f"{around!r} is not UTF-8 ({error.reason}); save the file as UTF-8, or name its encoding: "
                f"--reader-option encoding=ISO-8859-1"
            )
        rows = csv.reader(
            io.StringIO(lines if self.whole else lines.rstrip("\r\n"), newline=""),
            strict=True,
            **self.dialect,
        )
        try:
            for number, row in enumerate(filter(None, rows)):
                if problem := self._of_row(row, is_header=self.header and is_first and number == 0):
                    return f"{problem} (in line {rows.line_num})" if self.whole else problem
        except csv.Error as error:
            cause = f"{error}; for line breaks in fields give --reader-option multiLine=true"
            return f"{_quoted(lines)} is not CSV: {cause if not self.whole else error}"
        return ""

    def _of_row(self, row: list[str], *, is_header: bool) -> str:
        if is_header:
            repeated = sorted({name for name in row if row.count(name) > 1})
            return (
                NO_NAME
                if "" in row
                else f"the name {repeated[0]!r} occurs more than once"
                if repeated
                else ""
            )
        if len(row) != self.fields:
            return f"{_quoted(','.join(row))} has {len(row)} fields, and the columns are {self.fields}"
        if self.whole and any("\r\n" in field for field in row):
            return f"{_quoted(','.join(row))} has a line break of \\r\\n in a field, which Spark would change"
        return ""


def _quoted(text: str) -> str:
    return repr(text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}...")
