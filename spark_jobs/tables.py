"""Tables to send as Spark reads them, so that nothing of them is lost or changed without a word."""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException

from lanes.errors import ConfigurationError

from .partitions import reason_of
from .text_files import JSON, OF_FILES, CsvCheck, JsonLines, JsonPath

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

# Of a folder's entries; the log of Iceberg is a file of its folder `metadata`.
DELTA_LOG, HUDI_LOG, ICEBERG_FOLDER = "_delta_log", ".hoodie", "metadata"
ICEBERG_LOG = re.compile(r".*\.metadata\.json(\.gz)?|version-hint\.text")
READERS = ("delta", "iceberg", "hudi", "table")
GLOB = re.compile(r"[*?\[{]")


def check_formats(places: Sequence[tuple[str, str]], entries: Callable[[str], Sequence[str]]) -> None:
    """
    Refuse folders of Delta, Iceberg and Hudi that another format reads.

    Args:
        places: Format and path of each folder or file that the job reads.
        entries: Gives the names in a folder; none if it is not a folder, or not there.

    Raises:
        ConfigurationError: All such folders.
    """
    problems = [
        f"{path!r} belongs to a table of {found.capitalize()} ({folder}); read as {named}, its deleted rows and old "
        f"versions would be sent too. Name its format: --format {found}, with the jars for it"
        for named, path in places
        if named.lower() not in READERS
        for found, folder in _tables(path, entries)
    ]
    if problems:
        raise ConfigurationError(problems, source="tables to read")


def _tables(path: str, entries: Callable[[str], Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Give format and folder of the table that a path belongs to: its own, or one that it is a part of."""
    for folder in _folders(path):
        names = entries(folder)
        if DELTA_LOG in names:
            yield "delta", f"{folder}/{DELTA_LOG}"
        elif HUDI_LOG in names:
            yield "hudi", f"{folder}/{HUDI_LOG}"
        elif ICEBERG_FOLDER in names and any(
            ICEBERG_LOG.fullmatch(name) for name in entries(f"{folder}/{ICEBERG_FOLDER}")
        ):
            yield "iceberg", f"{folder}/{ICEBERG_FOLDER}"
        else:
            continue
        return


def _folders(path: str) -> Iterator[str]:
    """Give a folder and those that contain it, without the parts of a pattern."""
    scheme, separator, rest = path.rpartition("://")
    parts = rest.rstrip("/").split("/")
    fixed = next((place for place, part in enumerate(parts) if GLOB.search(part)), len(parts))
    # The first part of an address is its bucket, that of a path is empty or a folder.
    for length in range(fixed, 0, -1):
        folder = "/".join(parts[:length])
        if folder and not folder.endswith(":"):
            yield f"{scheme}{separator}{folder}"


SOURCE = "table to send"
# Spark's own defaults let a record that it cannot read be one of nulls, cut fields that are too many, keep the marks of
# a text with a doubled one, and take the columns of each file by their place, not by its first line (Spark SQL
# guide, "CSV Files"). Of Parquet and ORC they take the columns of one file for those of all.
READER_OPTIONS = {
    "csv": {
        # Text as it is: an inferred type would make 7 of the id 007, and change with one more row.
        "header": "true",
        # As RFC 4180 has it.
        "escape": '"',
        "unescapedQuoteHandling": "RAISE_ERROR",
        "mode": "FAILFAST",
        # Else only the selected fields are counted.
        "columnPruning": "false",
        "enforceSchema": "false",
    },
    "xml": {"mode": "FAILFAST", "inferSchema": "false"},
    "parquet": {"mergeSchema": "true"},
    "orc": {"mergeSchema": "true"},
}
IN_QUERY = re.compile(r"\b(\w+)\s*\.\s*`([^`]*/[^`]*)`")
# Spark takes the folder zip=007 for the number 7, p=1d for a double, and window=7d too.
TEXT_OF_FOLDERS = "spark.sql.sources.partitionColumnTypeInference.enabled"
UNREADABLE = ("MALFORMED_RECORD", "TextParsingException", "in CSV header", "CSV header does not")
CAUSE = re.compile(r"^(?:Caused by: |: )[\w.$]+: (.+)$", re.MULTILINE)
# As a plan of Spark writes them.
RANDOM = re.compile(r"\b(?:rand|randn|randstr|uniform|uuid|shuffle|monotonically_increasing_id)\(")


def read_table(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    """
    Read the table, or run the query; of JSON give the messages of its lines.

    Raises:
        ConfigurationError: A folder belongs to a table of another format, or Spark would lose or change records.
    """
    spark.conf.set(TEXT_OF_FOLDERS, "false")
    for view in options.view:
        name, path = view.split("=", 1)
        _load(spark, path, options).createOrReplaceTempView(name)
    if options.sql is not None:
        return _query(spark, options.sql)
    if is_json(options):
        return _lines(spark, options)
    if options.format == "table":
        return spark.table(options.table)
    return _load(spark, options.table, options)


def has_files(table: DataFrame) -> bool:
    """Whether the rows of a table are read from files as they are, which are known by row then."""
    plan: Any = table._jdf.queryExecution().analyzed()  # noqa: SLF001 - there is no public way to ask
    return bool(plan.getClass().getSimpleName() == "LogicalRelation")


def is_json(options: argparse.Namespace) -> bool:
    """Whether the job sends lines of JSON."""
    return options.format.lower() in JSON


def _lines(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    for argument in ("select", "schema"):
        if getattr(options, argument) not in (None, "*"):
            name = f"--{argument.replace('_', '-')}"
            problem = (
                f"{name} is about columns, and a line of JSON goes out as it stands; leave {name} out, or write a "
                f"DataFrame with the schema that you mean"
            )
            raise ConfigurationError([problem], source=SOURCE)
    lines = JsonLines(
        id=None if options.id is None else JsonPath.of(options.id, "--id"),
        group=None if options.group_by is None else JsonPath.of(options.group_by, "--group-by"),
        order=[JsonPath.of(key.expression, "--order-by") for key in options.order_by],
    )
    path, given = _literal(spark, options.table), given_options(options)
    messages = lines.messages(spark, path, given)
    _check_files(spark, path, spark.read.format("text").options(**given).load(path), "json", given)
    return messages


def _check_files(
    spark: SparkSession, path: str, table: DataFrame, named: str, options: Mapping[str, str]
) -> None:
    """
    Refuse files of a table of another format, folders that Spark passes over, and values of folders that lines lack.

    Raises:
        ConfigurationError: There are such files.
    """
    folders = sorted({unquote(one).rpartition("/")[0] for one in table.inputFiles()})
    # The log of a table is above the folders with values of its columns.
    above = dict.fromkeys(re.sub(r"/[^/]*=.*", "", one) for one in folders)
    check_formats([(named, one) for one in (path, *above)], cache(lambda one: entries_of(spark, one)))
    valued = next((part for one in folders for part in one.split("/") if "=" in part), None)
    if named == "json" and valued is not None and set(table.columns) != {"value"}:
        problem = (
            f"{path!r} has a value in the name of the folder {valued!r}, which its lines lack; write a DataFrame with "
            f"it, or send the lines as they are: --reader-option recursiveFileLookup=true"
        )
        raise ConfigurationError([problem], source=SOURCE)
    listing = {name: value for name, value in options.items() if name.lower() in OF_FILES}
    listing["recursiveFileLookup"] = "true"
    everything = spark.read.format("binaryFile").options(**listing).load(path).inputFiles()
    if unread := sorted(
        {unquote(one).split("/")[-2] for one in {*everything}.difference(table.inputFiles())}
    ):
        problem = (
            f"{path!r} has the folder {unread[0]!r}, of which Spark would read nothing; give --reader-option "
            f"recursiveFileLookup=true to read it too, or a pattern of files to leave it out: '{path}/*.*'"
        )
        raise ConfigurationError([problem], source=SOURCE)


def _literal(spark: SparkSession, path: str) -> str:
    """Give a path as Spark reads it: with its letters of patterns escaped, if a file has exactly this name."""
    if not GLOB.search(path) or not entries_of(spark, path, of_file=True):
        return path
    return re.sub(r"([*?\[\]{}])", r"\\\1", path)


def entries_of(spark: SparkSession, path: str, *, of_file: bool = False) -> list[str]:
    """Give the names in a folder of any file system of Spark; of a file one name if you ask for it, else none."""
    hadoop: Any = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]  # noqa: SLF001 - as pyspark does it
    place = hadoop.Path(path)
    files = place.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
    if not files.exists(place) or not (of_file or files.getFileStatus(place).isDirectory()):
        return []
    return [place.getName()] if of_file else [one.getPath().getName() for one in files.listStatus(place)]


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
    if isinstance(error, AnalysisException):
        # Its further lines are the plan of the query.
        return report.strip().splitlines()[0]
    if "Traceback (most recent call last)" in report:
        return reason_of(report)
    cause = _cause(report)
    if any(sign in report for sign in UNREADABLE):
        return (
            f"{cause}: write the file with the columns of the first one or of --schema; to take columns by their place "
            "give --reader-option enforceSchema=true, and to send nulls in place of unreadable values --reader-option "
            "mode=PERMISSIVE"
        )
    return cause


def _cause(report: str) -> str:
    """Give the first and the last cause in a trace of Java, in one line."""
    causes = CAUSE.findall(report) or report.strip().splitlines()[:1]
    return " ".join(dict.fromkeys((causes[0], causes[-1])))


def _query(spark: SparkSession, query: str) -> DataFrame:
    # As in: SELECT * FROM parquet.`s3://bucket/folder`
    if found := IN_QUERY.search(query):
        problem = (
            f"{found[2]!r} in the query would be read with Spark's defaults, which lose records; give it a name: "
            f"--view rows={found[2]}, and that in the query"
        )
        raise ConfigurationError([problem], source=SOURCE)
    return spark.sql(query)


_NO_QUERY = (
    "a query of JSON would have types that Spark infers from other rows; register a DataFrame with the schema that you "
    "mean and write that, or convert the file to Parquet"
)


def _load(spark: SparkSession, path: str, options: argparse.Namespace) -> DataFrame:
    named = options.format.lower()
    if named in JSON:
        raise ConfigurationError([_NO_QUERY], source=SOURCE)
    if named in READERS:
        return _reader(spark, options).load(path)
    literal = _literal(spark, path)
    table = _reader(spark, options).load(literal)
    _check_files(spark, literal, table, named, given_options(options))
    if named == "csv":
        of_folders = {
            part.partition("=")[0] for one in table.inputFiles() for part in one.split("/") if "=" in part
        }
        fields = len([name for name in table.columns if name not in of_folders])
        check = CsvCheck.of(_reader_options(options), fields=fields)
        if check is not None:
            check.run(spark, literal, given_options(options))
    return table


def _reader(spark: SparkSession, options: argparse.Namespace) -> DataFrameReader:
    reader = spark.read.format(options.format).options(**_reader_options(options))
    return reader if options.schema is None else reader.schema(options.schema)


def given_options(options: argparse.Namespace) -> dict[str, str]:
    """Give the options of the reader that the arguments set."""
    return dict(pair.split("=", 1) for pair in options.reader_option)


def _reader_options(options: argparse.Namespace) -> dict[str, str]:
    given = given_options(options)
    # Names of options have no case, and the later one would not always win.
    names = {name.lower() for name in given}
    usual = READER_OPTIONS.get(options.format.lower(), {})
    return {name: value for name, value in usual.items() if name.lower() not in names} | given
