"""
The arguments of the jobs, and the writer options that they become.

`lanes bulk submit` reads them with these parsers too, where Spark is not installed.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass

from lanes.errors import ConfigurationError

from .options import SOURCE, WRITE_OPTIONS, field_of

KEY = re.compile(r"(?P<expression>.+?)(\s+(?P<direction>asc|desc))?", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class OrderKey:
    """A column or expression by which rows are sorted."""

    expression: str
    descends: bool = False

    def __str__(self) -> str:
        """Write the key as `order_keys` reads it."""
        return f"{self.expression} DESC" if self.descends else self.expression


def order_keys(text: str) -> list[OrderKey]:
    """
    Read the keys of an order, divided by commas, each with ASC or DESC if need be.

    Raises:
        ValueError: A key is empty.
    """
    found = [KEY.fullmatch(part.strip()) for part in _parts(text)]
    if not all(found):
        raise ValueError(f"{text!r} has an empty key; give columns such as 'day, seq DESC'")
    return [
        OrderKey(key["expression"], (key["direction"] or "").upper() == "DESC")
        for key in found
        if key is not None
    ]


def _parts(text: str) -> list[str]:
    """Divide a text at its commas outside of brackets and quotes."""
    parts, depth, quoted = [""], 0, ""
    for letter in text:
        if quoted or letter in "'\"`":
            quoted = "" if letter == quoted else quoted or letter
        depth += 0 if quoted else {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not quoted and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


RENAMED = {"runId": "run", "manifestPath": "manifest"}
# Options of the writer by argument.
OPTIONS = {RENAMED.get(option, field_of(option)): option for option in WRITE_OPTIONS}
ARGUMENTS = {option: f"--{name.replace('_', '-')}" for name, option in OPTIONS.items()}
# A name that is also a word is meant only after "option"; a value is in quotes.
NAMED = re.compile(
    r"(?:\bthe )?\boptions? ({all})\b(?: and ({all})\b)?|(?<![\w'/.-])({long})\b".format(
        all="|".join(ARGUMENTS), long="|".join(name for name in ARGUMENTS if not name.islower())
    )
)


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
    arguments.add_argument(
        "--check",
        action="store_true",
        help="send nothing: make each message, describe the run, and name the first rows that can't be sent, by cause",
    )
    for name, option in WRITE_OPTIONS.items():
        if option.help:
            flag = {"action": "store_const", "const": "true"} if option.is_flag else {}
            arguments.add_argument(ARGUMENTS[name], help=option.help, **flag)  # type: ignore[arg-type]
    arguments.add_argument(
        "--master", default="local[2]", help="master without spark-submit (default local[2])"
    )
    return arguments
