"""Tables to send as Spark reads them, so that nothing of them is lost or changed without a word."""

from __future__ import annotations

import re
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import types

from lanes.errors import ConfigurationError

from .partitions import map_in_arrow, reason_of
from .raw_records import RecordCheck
from .table_formats import READERS, check_formats, places_in_query

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

SOURCE = "table to send"
# Spark's own defaults let a record that it cannot read be one of nulls, cut fields that are too many, keep the marks of
# a text with a doubled one, and take the columns of each file by their place, not by its first line (Spark SQL
# guide, "CSV Files" and "JSON Files"). Of Parquet and ORC they take the columns of one file for those of all.
READER_OPTIONS = {
    "csv": {
        # Text as it is: an inferred type would make 7 of the id 007, and change with one more row.
        "header": "true",
        # As RFC 4180 has it, and as `lanes bulk send` reads it.
        "escape": '"',
        "unescapedQuoteHandling": "RAISE_ERROR",
        "mode": "FAILFAST",
        # Else only the selected fields are counted.
        "columnPruning": "false",
        "enforceSchema": "false",
    },
    "json": {"mode": "FAILFAST"},
    "xml": {"mode": "FAILFAST", "inferSchema": "false"},
    "parquet": {"mergeSchema": "true"},
    "orc": {"mergeSchema": "true"},
}
# Read in place by a query, they have Spark's own defaults.
ONLY_AS_VIEWS = ("csv", "json", "xml")
MERGED_FORMATS = ("parquet", "orc")
MERGED = tuple(f"spark.sql.{named}.mergeSchema" for named in MERGED_FORMATS)
UNREADABLE = ("MALFORMED_RECORD", "TextParsingException", "in CSV header", "CSV header does not")
CAUSE = re.compile(r"^(?:Caused by: |: )[\w.$]+: (.+)$", re.MULTILINE)
HIDDEN = ("_", ".")
PARTITION = re.compile(r"([^/=]+)=([^/]*)")
WHOLE = re.compile(r"0|-?[1-9]\d*")
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# As a plan of Spark writes them.
RANDOM = re.compile(r"\b(?:rand|randn|randstr|uniform|uuid|shuffle|monotonically_increasing_id)\(")
# A task holds the text of a whole file in memory. A message has no field that is larger.
MAX_WHOLE_BYTES = 64 * 1024 * 1024


def read_table(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    """
    Read the table or run the query.

    Raises:
        ConfigurationError: A folder belongs to a table of another format, or Spark would lose or change records.
    """
    views = [view.split("=", 1) for view in options.view]
    places = [(options.format, path) for _, path in views]
    in_query = [] if options.sql is None else places_in_query(options.sql)
    places += in_query if options.sql is not None else [(options.format, options.table)]
    check_formats(places, lambda folder: [name for name, _ in entries_of(spark, folder)])
    for name, path in views:
        _load(spark, path, options).createOrReplaceTempView(name)
    if options.sql is not None:
        return _query(spark, options.sql, in_query)
    if options.format == "table":
        return spark.table(options.table)
    return _load(spark, options.table, options)


def entries_of(spark: SparkSession, folder: str) -> list[tuple[str, bool]]:
    """Give the names in a folder of any file system of Spark, and whether each is a folder; none if it is no folder."""
    hadoop: Any = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]  # noqa: SLF001 - as pyspark does it
    path = hadoop.Path(folder)
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
    if not (files.exists(path) and files.getFileStatus(path).isDirectory()):
        return []
    return [(one.getPath().getName(), one.isDirectory()) for one in files.listStatus(path)]


def check_ids(messages: DataFrame) -> None:
    """
    Refuse ids that are others at each read: a task or job that runs again would send its rows again.

    Args:
        messages: The columns of the writer.

    Raises:
        ConfigurationError: An id, or a column that it is derived from, is random or counts rows.
    """
    names = ["id"] if "id" in messages.columns else messages.columns
    # Only the columns of the ids are left in this plan.
    plan: Any = messages.select(*names)._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - there is no public one
    if found := RANDOM.search(plan.toString()):
        problem = (
            f"ids would depend on {found[0]}), which has other values at each read, so that a rerun or a retried task "
            f"sends its rows again; give an --id that follows from the row"
        )
        raise ConfigurationError([problem], source=SOURCE)


@contextmanager
def readable() -> Iterator[None]:
    """Say which record, name, path or file Spark cannot read, instead of Java's trace."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise ConfigurationError([_problem(error)], source=SOURCE) from error


def _problem(error: Exception) -> str:
    report = str(error)
    if any(sign in report for sign in UNREADABLE):
        return (
            f"{_cause(report)}: the record has another number of fields than the first line, a text that does not fit, "
            "or the file other columns than the first file or --schema. For line breaks in fields of CSV give "
            "--reader-option multiLine=true, for a file in which Spark wrote the quotation marks --reader-option "
            "'escape=\\', to take columns by their place --reader-option enforceSchema=true, and to send nulls in "
            "place of unreadable values --reader-option mode=PERMISSIVE"
        )
    if isinstance(error, AnalysisException):
        # Its further lines are the plan of the query.
        return report.strip().splitlines()[0]
    if "Traceback (most recent call last)" in report:
        return reason_of(report)
    return _cause(report)


def _cause(report: str) -> str:
    """Give the first and the last cause in a trace of Java, in one line."""
    causes = CAUSE.findall(report) or report.strip().splitlines()[:1]
    return " ".join(dict.fromkeys((causes[0], causes[-1])))


def _query(spark: SparkSession, query: str, places: Sequence[tuple[str, str]]) -> DataFrame:
    if found := [place for place in places if place[0].lower() in ONLY_AS_VIEWS]:
        problems = [
            f"{path!r} in the query would be read with Spark's defaults for {named}, which lose records; give it a "
            f"name: --format {named.lower()} --view rows={path}, and the name in the query"
            for named, path in found
        ]
        raise ConfigurationError(problems, source=SOURCE)
    for name in MERGED:
        if not spark.sparkContext.getConf().contains(name):
            spark.conf.set(name, "true")
    _check_values_of_folders(spark, [place for place in places if place[0].lower() in MERGED_FORMATS])
    return spark.sql(query)


def _check_values_of_folders(spark: SparkSession, places: Sequence[tuple[str, str]]) -> None:
    """
    Refuse folders in a query with values in their names that Spark would change.

    Raises:
        ConfigurationError: There are such folders.
    """
    problems = [
        f"{path!r} in the query has values in the names of its folders that Spark would change in the column "
        f"{column!r}, as zip=007 into 7; give it a name: --format {named.lower()} "
        f"--view rows={path}, and the name in the query"
        for named, path in places
        for column in sorted(_changed_columns(spark.read.format(named).load(path), is_text=False))
    ]
    if problems:
        raise ConfigurationError(problems, source=SOURCE)


def _load(spark: SparkSession, path: str, options: argparse.Namespace) -> DataFrame:
    table = _reader(spark, options).load(path)
    named = options.format.lower()
    if named in READERS:
        return table
    _check_folders(spark, path, table)
    check = RecordCheck.of(named, _reader_options(options))
    if check is not None:
        _check_records(spark, path, options, check)
    changed = set() if options.schema is not None else _changed_columns(table, is_text=named == "csv")
    if not changed:
        return table
    fields = [
        types.StructField(one.name, types.StringType()) if one.name in changed else one
        for one in table.schema
    ]
    return _reader(spark, options).schema(types.StructType(fields)).load(path)


def _reader(spark: SparkSession, options: argparse.Namespace) -> DataFrameReader:
    reader = spark.read.format(options.format).options(**_reader_options(options))
    return reader if options.schema is None else reader.schema(options.schema)


def _reader_options(options: argparse.Namespace) -> dict[str, str]:
    given = dict(pair.split("=", 1) for pair in options.reader_option)
    # Names of options have no case, and the later one would not always win.
    names = {name.lower() for name in given}
    usual = READER_OPTIONS.get(options.format.lower(), {})
    return {name: value for name, value in usual.items() if name.lower() not in names} | given


def _check_folders(spark: SparkSession, path: str, table: DataFrame) -> None:
    """
    Refuse a folder of files with further folders, which Spark passes over.

    Raises:
        ConfigurationError: It has such folders.
    """
    # Folders with the value of a column are a part of the table.
    names = [name for name in _folders_in(spark, path) if "=" not in name]
    if not names:
        return
    read = {part for file in table.inputFiles() for part in unquote(urlsplit(file).path).split("/")[:-1]}
    if unread := [name for name in names if name not in read and _has_files(spark, f"{path}/{name}")]:
        problem = (
            f"{path!r} has the folder {unread[0]!r}, of which Spark would read nothing; give --reader-option "
            f"recursiveFileLookup=true to read it too, or a pattern of files to leave it out: '{path}/*.*'"
        )
        raise ConfigurationError([problem], source=SOURCE)


def _folders_in(spark: SparkSession, path: str) -> list[str]:
    return [name for name, is_folder in entries_of(spark, path) if is_folder and not name.startswith(HIDDEN)]


def _has_files(spark: SparkSession, path: str) -> bool:
    entries = entries_of(spark, path)
    return any(not is_folder and not name.startswith(HIDDEN) for name, is_folder in entries) or any(
        _has_files(spark, f"{path}/{name}") for name in _folders_in(spark, path)
    )


def _check_records(spark: SparkSession, path: str, options: argparse.Namespace, check: RecordCheck) -> None:
    """
    Refuse files with records that Spark would not read as they are.

    Raises:
        ConfigurationError: There are such records.
    """
    from pyspark.sql import functions as f

    reader = (
        spark.read.format("text").options(**_reader_options(options)).option("wholetext", str(check.whole))
    )
    text = reader.load(path).select(
        f.col("value").cast("binary").alias("text"), f.col("_metadata.file_path").alias("file")
    )
    if check.whole:
        text = text.where(f.col("_metadata.file_size") <= MAX_WHOLE_BYTES)
    found = map_in_arrow(text, check.first, "problem string").collect()
    if found:
        problem = f"{found[0][0]}. To send it as Spark reads it, give --reader-option mode=PERMISSIVE"
        raise ConfigurationError([problem], source=SOURCE)


def _changed_columns(table: DataFrame, *, is_text: bool) -> set[str]:
    """
    Give the columns with values in the names of folders that have another text as a value of their type.

    Spark takes the folder `zip=007` for the number 7.

    Args:
        table: The table.
        is_text: Whether all columns without a type of their own are text.
    """
    plan: Any = table._jdf.queryExecution().analyzed()  # noqa: SLF001 - the public API does not name such columns
    if plan.getClass().getSimpleName() != "LogicalRelation":
        return set()
    kinds = {name: table.schema[name].dataType for name in plan.relation().partitionSchema().fieldNames()}
    if is_text:
        return {name for name, kind in kinds.items() if not isinstance(kind, types.StringType)}
    if not kinds:
        return set()
    folders = plan.relation().location().partitionSpec().partitions()
    found = {
        (unquote(name), unquote(value))
        for place in range(folders.size())
        for name, value in PARTITION.findall(folders.apply(place).path().toString())
    }
    return {
        name
        for name, value in found
        if name in kinds and value != NO_VALUE and not _keeps(kinds[name], value)
    }


def _keeps(kind: types.DataType, text: str) -> bool:
    if isinstance(kind, types.DoubleType):
        return repr(float(text)) == text
    if isinstance(kind, types.DateType):
        return date.fromisoformat(text).isoformat() == text
    if isinstance(kind, (types.TimestampType, types.TimestampNTZType)):
        # The zone of the session would decide.
        return False
    is_number = isinstance(kind, (types.IntegerType, types.LongType, types.DecimalType))
    return not is_number or WHOLE.fullmatch(text) is not None
