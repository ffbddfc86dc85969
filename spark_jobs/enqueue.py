"""
Send each row of a table as a message: Parquet, CSV, JSON, any other format of Spark, or a query.

    python -m spark_jobs.enqueue --table build/customers --kind customer.remind --id customer_id --check
    python -m spark_jobs.enqueue --table s3://bucket/customers --kind customer.remind --id customer_id --stack MyStack

The last line on standard output is a JSON object: the summary of the run, or with `--check` a description of it.
"""

from __future__ import annotations

import json
import re
import sys
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import TimestampType

from lanes.errors import ConfigurationError, LanesError, MessageError

from .arguments import enqueue_parser as parser
from .arguments import in_arguments, writer_options
from .arrow import rows_of_batches
from .columns import check_columns
from .contents import EACH, Contents, one_each
from .options import WriterOptions
from .partitions import map_in_arrow, report, write_partitions
from .rows import RowReader, UnreadableRow
from .session import job_session
from .tables import check_ids, given_options, has_files, is_json, read_table, readable
from .text_files import SOURCE, line_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

ORDER = "order_"
PLACE = "place"
NO_ORDER = "none; a table of several files has no order within a group: name one with --order-by"
MAX_NAMED = 10
MAX_QUOTED = 200
NAMES = (PLACE, "id", "group")
OF_RUN = ("skipped", "quarantined", "run", "session", "members")
VALUES = re.compile(r"'(?:[^'\\]|\\.)*'|\"[^\"]*\"|-?\d[\d.e+-]*|\bnan\b|\b-?inf\b")


def messages_of(table: DataFrame, options: argparse.Namespace) -> DataFrame:
    """Make the columns of the writer from the table, and those of the order, `order_0` and so on."""
    from pyspark.sql import functions as f

    if is_json(options) and options.sql is None:
        return table
    names = {"id": options.id, "group": options.group_by}
    columns = [_text(table, text).alias(name) for name, text in names.items() if text is not None]
    order = [f.expr(key.expression).alias(f"{ORDER}{place}") for place, key in enumerate(options.order_by)]
    data = f.expr(f"struct({options.select})").alias("data")
    place = [_place(options).alias(PLACE)] if options.check and has_files(table) else []
    return table.select(data, *columns, *order, *place)


def _place(options: argparse.Namespace) -> Column:
    """Give the file of a row, and its number where the format has one."""
    from pyspark.sql import functions as f

    file = f.col("_metadata.file_path")
    if options.format.lower() != "parquet":
        return file
    return f.concat(file, f.lit(", row "), (f.col("_metadata.row_index") + 1).cast("string"))


def _text(table: DataFrame, expression: str) -> Column:
    """Give the text of an id or group; that of a time is the same in each time zone of the session."""
    from pyspark.sql import functions as f

    value = f.expr(expression)
    if not isinstance(table.select(value).schema[0].dataType, TimestampType):
        return value.cast("string")
    exact = f.to_json(
        f.struct(value.alias("at")), {"timeZone": "UTC", "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS"}
    )
    # As a cast writes it where the zone of the session is UTC.
    return f.regexp_replace(f.get_json_object(exact, "$.at"), r"\.?0+$", "")


def arranged(messages: DataFrame, options: argparse.Namespace) -> DataFrame:
    """Put the rows of a group into one partition, in the order that was named, and drop the columns of the order."""
    from pyspark.sql import functions as f

    if options.group_by is not None and options.ordering != "none":
        messages = messages.repartition("group")
        if options.order_by:
            columns = [f.col(f"{ORDER}{place}") for place in range(len(options.order_by))]
            messages = messages.sortWithinPartitions(
                *[
                    column.desc() if key.descends else column.asc()
                    for column, key in zip(columns, options.order_by, strict=True)
                ]
            )
    return sendable(messages)


def sendable(messages: DataFrame) -> DataFrame:
    """Drop the columns of order and places."""
    return unordered(messages).drop(PLACE)


def unordered(messages: DataFrame) -> DataFrame:
    """Drop the columns of the order."""
    return messages.drop(*[name for name in messages.columns if name.startswith(ORDER)])


def describe(messages: DataFrame, options: argparse.Namespace) -> dict[str, Any]:
    """Describe the run: rows, messages, groups and the largest of them."""
    from pyspark.sql import functions as f

    contents = Contents.of(messages)
    description: dict[str, Any] = {
        "check": True,
        "kind": options.kind,
        "rows": contents.rows,
        "equal_rows": contents.equal_rows,
    }
    if "group" in messages.columns:
        groups = messages.groupBy("group").count()
        top = groups.orderBy(f.desc("count"), "group").limit(MAX_NAMED).collect()
        description |= {
            "groups": groups.count(),
            "largest_groups": {row["group"]: row["count"] for row in top},
        }
    return description


def run(spark: SparkSession, options: argparse.Namespace) -> dict[str, Any]:
    """
    Run the job and give its summary.

    Raises:
        ConfigurationError: An option, a column or the name of the run is wrong, ids repeat, or a record cannot be read.
    """
    with readable():
        return _run(spark, options)


def _run(spark: SparkSession, options: argparse.Namespace) -> dict[str, Any]:
    table = messages_of(read_table(spark, options), options)
    messages = sendable(table)
    check_columns(messages.schema, kind=options.kind)
    check_ids(messages)
    if options.check:
        reader = RowReader(kind=options.kind, priority=0)
        described = describe(messages, options) | trial(unordered(table), reader) | order_of(options)
        return _with_lines(spark, described, options)
    writer = writer_options(options)
    WriterOptions.from_options(writer)
    check_lines(spark, table, options)
    contents = Contents.of(messages)
    table = one_each(table, contents, identity=options.id, equal_rows=options.equal_rows)
    sent = contents.rows if options.equal_rows == EACH else contents.messages
    counts = {"rows": contents.rows, "equal_rows": contents.equal_rows}
    purpose = purpose_of(options) | {"contents": counts}
    started = time.monotonic()
    done = write_partitions(arranged(table, options), writer, count=sent, purpose=purpose)
    seconds = time.monotonic() - started
    return {
        "kind": options.kind,
        **counts,
        **order_of(options),
        "sent": done["messages"],
        **{name: done[name] for name in OF_RUN if name in done and "run" in done},
        "seconds": round(seconds, 2),
        "messages_per_second": round(done["messages"] / seconds, 1),
    }


def _with_lines(
    spark: SparkSession, described: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """Name the lines of refused rows by their numbers in their files."""
    for cause in described["causes"] if is_json(options) else ():
        for row in cause["first"]:
            row[PLACE] = line_of(spark, row[PLACE], options.table, given_options(options))
    return described


def check_lines(spark: SparkSession, messages: DataFrame, options: argparse.Namespace) -> None:
    """
    Refuse lines that can't be sent, before any is, unless they are to be set aside.

    Raises:
        ConfigurationError: The first such lines, each with its file and number; or no line has the group or the order.
    """
    from pyspark.sql import functions as f

    if PLACE not in messages.columns:
        return
    refused = messages.where("refused IS NOT NULL").select("place", "refused")
    found = [] if options.on_error == "quarantine" else refused.take(MAX_NAMED)
    problems = [
        f"{line_of(spark, place, options.table, given_options(options))}: {reason}" for place, reason in found
    ]
    if problems:
        raise ConfigurationError(problems, source=SOURCE)
    paths = {f"{ORDER}{place}": key.expression for place, key in enumerate(options.order_by)}
    paths |= {} if options.group_by is None else {"group": options.group_by}
    if not paths:
        return
    lines, *values = messages.agg(f.count(f.lit(1)), *[f.count(name) for name in paths]).collect()[0]
    missing = [path for path, count in zip(paths.values(), values, strict=True) if lines and not count]
    if missing:
        raise ConfigurationError([f"no line has {missing[0]!r}"], source=SOURCE)


def purpose_of(options: argparse.Namespace) -> dict[str, Any]:
    """Give the selection of the job: a run under the same name must have the same."""
    names = ("table", "sql", "format", "view", "select", "id", "group_by", "equal_rows")
    return {name: getattr(options, name) for name in names} | {"order_by": order_by(options)}


def order_of(options: argparse.Namespace) -> dict[str, Any]:
    """Give the order within groups for the summary."""
    if options.group_by is None or options.ordering == "none":
        return {}
    if not options.order_by:
        return {"order": NO_ORDER}
    return {"order": order_by(options)}


def order_by(options: argparse.Namespace) -> str:
    """Write the order within a group."""
    return ", ".join(map(str, options.order_by))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job."""
    options = parser().parse_args(argv)
    if (options.manifest is None) != (options.run is None) and not options.check:
        parser().error(
            "--run and --manifest belong together: a rerun finds the sent ids under the name of the run"
        )
    if options.order_by and (options.group_by is None or options.ordering == "none"):
        parser().error(
            "--order-by is the order within a group: name one with --group-by, without --ordering none"
        )
    if options.equal_rows == EACH and options.id is not None:
        parser().error("--equal-rows each derives the ids of equal rows; leave --id out")
    try:
        with job_session(f"enqueue {options.kind}", options) as spark:
            summary = run(spark, options)
    except LanesError as error:
        return report(in_arguments(error))
    sys.stdout.write(json.dumps(summary) + "\n")
    return 1 if summary.get("refused") else 0


def trial(messages: DataFrame, reader: RowReader) -> dict[str, Any]:
    """Make the message of each row; give the number of rows without one, and by cause their number and the first."""
    tried = map_in_arrow(messages, lambda batches: _tried(batches, reader), "refused string").collect()
    causes: dict[str, dict[str, Any]] = {}
    for (part,) in tried:
        for cause, found in json.loads(part).items():
            known = causes.setdefault(cause, {"rows": 0, "first": []})
            known["rows"] += found["rows"]
            known["first"] = (known["first"] + found["first"])[:MAX_NAMED]
    return {
        "refused": sum(found["rows"] for found in causes.values()),
        "causes": sorted(causes.values(), key=lambda found: -int(found["rows"])),
    }


def _tried(batches: Iterable[pa.RecordBatch], reader: RowReader) -> Iterator[pa.RecordBatch]:
    causes: dict[str, dict[str, Any]] = {}
    position = 0
    for rows in rows_of_batches(batches):
        for row in rows:
            position += 1
            reason = _refusal(row, reader, position)
            if reason is None:
                continue
            # The values in a reason are those of the row.
            found = causes.setdefault(VALUES.sub("*", reason), {"rows": 0, "first": []})
            found["rows"] += 1
            if len(found["first"]) < MAX_NAMED:
                known: Mapping[str, Any] = row.row if isinstance(row, UnreadableRow) else row
                named = {name: known[name] for name in NAMES if known.get(name) is not None}
                found["first"].append({**named, "row": _short(known.get("data")), "reason": reason})
    yield pa.RecordBatch.from_arrays([pa.array([json.dumps(causes)])], ["refused"])


def _short(data: object) -> str:
    text = data if isinstance(data, str) else repr(data)
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."


def _refusal(row: Mapping[str, Any] | UnreadableRow, reader: RowReader, position: int) -> str | None:
    if isinstance(row, UnreadableRow):
        return row.reason
    try:
        reader.item(row, position)
    except (ValueError, MessageError) as error:
        return str(error)
    return None


if __name__ == "__main__":
    sys.exit(main())
