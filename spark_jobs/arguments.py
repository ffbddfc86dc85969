"""
The arguments of the jobs, and the writer options that they become.

`lanes bulk submit` reads them with these parsers too, where Spark is not installed.
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from lanes.errors import ConfigurationError

from .customers import MAX_CUSTOMERS
from .options import SOURCE, WRITE_OPTIONS, field_of
from .order import OrderKey, order_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RENAMED = {"runId": "run", "manifestPath": "manifest"}
# Options of the writer by argument. A job sorts its rows and counts its messages itself.
OPTIONS = {
    RENAMED.get(option, field_of(option)): option
    for option in WRITE_OPTIONS
    if option not in ("orderBy", "expected")
}
ARGUMENTS = {
    option: f"--{name.replace('_', '-')}" for name, option in (OPTIONS | {"order_by": "orderBy"}).items()
}
# A name that is also a word is meant only after "option"; a value is in quotes.
NAMED = re.compile(
    r"(?:\bthe )?\boptions? ({all})\b(?: and ({all})\b)?|(?<![\w'/.-])({long})\b".format(
        all="|".join(ARGUMENTS), long="|".join(name for name in ARGUMENTS if not name.islower())
    )
)


def add_writer_arguments(arguments: argparse.ArgumentParser) -> None:
    """Add the arguments for lanes, flow, reruns and Spark."""
    arguments.add_argument(
        "--source", help="CloudEvents source of the messages, a part of their identity (default spark)"
    )
    _add_lanes(arguments)
    _add_flow(arguments)
    _add_reruns(arguments)
    _add_following(arguments)
    _add_spark(arguments)


def _add_lanes(arguments: argparse.ArgumentParser) -> None:
    lanes = arguments.add_argument_group("lanes")
    lanes.add_argument("--stack", help="send to the lanes of this stack")
    lanes.add_argument(
        "--deployment",
        metavar="DOCUMENT",
        help="send to the lanes of this deployment document: JSON, its base64 form, or a file with it",
    )
    lanes.add_argument("--region", help="AWS region of the lanes")
    lanes.add_argument("--endpoint-url", metavar="URL", help="endpoint of AWS, if it is local")


def _add_parts(arguments: argparse.ArgumentParser) -> None:
    parts = arguments.add_argument_group("parts of a large table")
    parts.add_argument(
        "--split-by",
        metavar="COLUMN",
        help="send the table in parts, by ranges of this column or expression; a rerun goes on with the next part",
    )


def _add_flow(arguments: argparse.ArgumentParser) -> None:
    flow = arguments.add_argument_group("flow")
    flow.add_argument("--shards", metavar="N", help="spread rows without a group over N groups")
    flow.add_argument(
        "--ordering",
        choices=["group", "none"],
        help="keep the order within a group, or not (default group)",
    )
    flow.add_argument("--max-send-rate", metavar="R", help="maximum messages a second of the whole job")
    flow.add_argument("--max-backlog", metavar="N", help="pause while more messages wait in a lane")


def _add_reruns(arguments: argparse.ArgumentParser) -> None:
    reruns = arguments.add_argument_group("reruns")
    reruns.add_argument(
        "--manifest",
        metavar="DIR",
        help="folder, local or s3://, to record sent ids in; a rerun sends the rest",
    )
    reruns.add_argument(
        "--take-over",
        action="store_const",
        const="true",
        help="begin although an earlier session of the run has not ended: after a crash",
    )
    reruns.add_argument(
        "--on-error",
        choices=["fail", "quarantine"],
        help="fail the job at a row that cannot be sent (default), or set such rows aside beside the manifest",
    )


def _add_following(arguments: argparse.ArgumentParser) -> None:
    following = arguments.add_argument_group("to the end")
    following.add_argument(
        "--follow",
        action="store_const",
        const="true",
        help="follow the messages to their end under the name of the run: lanes runs watch NAME",
    )
    following.add_argument(
        "--on-complete", metavar="KIND", help="with --follow: send a message of this kind when all have ended"
    )


def _add_spark(arguments: argparse.ArgumentParser) -> None:
    spark = arguments.add_argument_group("Spark, for a run without spark-submit")
    spark.add_argument("--master", default="local[2]", help="master (default local[2])")


def pair(text: str) -> str:
    """
    Check a name with its value.

    Raises:
        ArgumentTypeError: It has another form.
    """
    name, equals, value = text.partition("=")
    if not (name and equals and value) or any(letter.isspace() for letter in name):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name, an equals sign and a value")
    return text


def order(text: str) -> list[OrderKey]:
    """
    Read the keys of an order.

    Raises:
        ArgumentTypeError: A key is empty.
    """
    try:
        return order_keys(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def writer_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Give the options of the writer that the arguments set."""
    options = {
        option: str(value)
        for name, option in OPTIONS.items()
        if (value := getattr(arguments, name, None)) is not None
    }
    if "manifestPath" not in options:
        # The name of a run only identifies its manifest.
        options.pop("runId", None)
    return options


def in_arguments(error: Exception) -> Exception:
    """Name the arguments in an error about options of the writer; any other error is given as it is."""
    if not isinstance(error, ConfigurationError) or error.source != SOURCE:
        return error
    problems = [
        NAMED.sub(lambda found: " and ".join(ARGUMENTS[name] for name in found.groups() if name), problem)
        for problem in error.problems
    ]
    return ConfigurationError(problems, source="arguments")


def expected(arguments: argparse.Namespace, messages: int) -> dict[str, str]:
    """Give the option of the writer that a counted table sets, if its run is followed."""
    return {} if arguments.follow is None else {"expected": str(max(1, messages))}


def enqueue_parser() -> argparse.ArgumentParser:
    """Describe the arguments of `enqueue`."""
    arguments = argparse.ArgumentParser(
        prog="enqueue", description="Send each row of a table as a message to priority lanes."
    )
    source = arguments.add_mutually_exclusive_group(required=True)
    source.add_argument("--table", metavar="PATH", help="path of the table, or its name with --format table")
    source.add_argument("--sql", metavar="QUERY", help="query to send instead of a table")
    arguments.add_argument(
        "--format",
        default="parquet",
        help="parquet (default), csv, json (one object on each line), table, delta, iceberg, ...",
    )
    arguments.add_argument(
        "--view",
        action="append",
        default=[],
        type=pair,
        metavar="NAME=PATH",
        help="register a table for the query",
    )
    arguments.add_argument(
        "--reader-option",
        action="append",
        default=[],
        type=pair,
        metavar="NAME=VALUE",
        help="option of Spark's reader",
    )
    arguments.add_argument(
        "--select", default="*", metavar="COLUMNS", help="columns that become data (default *)"
    )
    arguments.add_argument("--kind", required=True, help="kind of the messages")
    arguments.add_argument(
        "--group-by", metavar="COLUMN", help="column or expression of the group, of JSON its path"
    )
    arguments.add_argument(
        "--order-by",
        type=order,
        default=[],
        metavar="COLUMNS",
        help="columns or expressions, each with DESC if need be: the order within a group (default: none)",
    )
    arguments.add_argument(
        "--schema", metavar="DDL", help="columns and types of files, such as 'id STRING, n INT'"
    )
    arguments.add_argument(
        "--id",
        metavar="COLUMN",
        help="column or expression of the id, of JSON its path (default: derived from all data)",
    )
    arguments.add_argument(
        "--equal-rows",
        choices=["fail", "one", "each"],
        default="fail",
        help="of rows that are one message, since they are equal or share an id: fail (default), send one, or without "
        "--id each",
    )
    arguments.add_argument("--priority", default="BULK", help="a name or a number (default BULK)")
    _add_parts(arguments)
    arguments.add_argument(
        "--check",
        action="store_true",
        help="send nothing: make each message, describe the run, and name the first rows that can't be sent, by cause",
    )
    arguments.add_argument("--run", metavar="NAME", help="name of the run in the manifest")
    add_writer_arguments(arguments)
    return arguments


def loyalty_parser() -> argparse.ArgumentParser:
    """Describe the arguments of `loyalty_backfill`."""
    arguments = argparse.ArgumentParser(
        prog="loyalty_backfill",
        description="Make a customer table, and send its loyalty tiers to the lanes as bulk work.",
        epilog="Without --stack and --deployment nothing is sent.",
    )
    arguments.add_argument("--table", required=True, metavar="DIR", help="customer table, Parquet")
    arguments.add_argument(
        "--customers", type=_count, metavar="N", help="make the table first, with N customers"
    )
    arguments.add_argument(
        "--seed", type=int, default=1, help="seed of the table and of the faults (default 1)"
    )
    arguments.add_argument("--run", metavar="NAME", help='prefix of every id (default "loyalty-tiers")')
    arguments.add_argument(
        "--groups",
        type=_count,
        metavar="N",
        help="spread the customers over N groups (default: one group each)",
    )
    arguments.add_argument(
        "--poison", type=int, default=0, metavar="N", help="number of messages that always fail"
    )
    arguments.add_argument(
        "--flaky", type=int, default=0, metavar="N", help="number of messages that fail once"
    )
    add_writer_arguments(arguments)
    return arguments


PARSERS: Mapping[str, Callable[[], argparse.ArgumentParser]] = {
    "enqueue": enqueue_parser,
    "loyalty_backfill": loyalty_parser,
}
"""The parser of each job."""


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= MAX_CUSTOMERS:
        raise argparse.ArgumentTypeError(f"a number from 1 to {MAX_CUSTOMERS} is needed")
    return number
