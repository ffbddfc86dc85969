"""
Records of CSV and JSON as they are in their files: Spark's readers pass over some of their faults without a word.

Letters that are not UTF-8 become the same mark in all rows, text after the first value of a line of JSON is left out,
and a quotation mark that is never closed takes the rest of its line, or with multiLine of its file.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lanes.message import LARGEST_BODY_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

LARGEST_FIELD = 16 * LARGEST_BODY_BYTES
MAX_QUOTED = 100
OPEN_QUOTE = "unexpected end of data"
EXTRA = "Extra data"


@dataclass(frozen=True, slots=True)
class RecordCheck:
    """
    Finds the first record that Spark would not read as it is.

    Attributes:
        problem: Gives the problem of a text, empty for none.
        whole: Whether the texts are whole files, not lines.
    """

    problem: Callable[[str], str]
    whole: bool

    @classmethod
    def of(cls, named: str, options: Mapping[str, str]) -> RecordCheck | None:
        """
        Give the check of a format; None if there is none, or the options of the reader allow its findings.

        Args:
            named: The format, in small letters.
            options: Options of the reader.
        """
        given = {name.lower(): value for name, value in options.items()}
        is_utf8 = given.get("encoding", given.get("charset", "utf-8")).lower() in ("utf-8", "utf8")
        if not is_utf8 or given.get("mode", "").upper() != "FAILFAST":
            return None
        whole = given.get("multiline", "").lower() == "true"
        if named == "json":
            return cls(_json_problem, whole)
        return cls(_csv_problem(given), whole) if named == "csv" else None

    def first(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the first problem of Arrow batches with the columns `text`, in bytes, and `file`; runs in the task."""
        for batch in batches:
            for text, file in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if problem := self._of(text):
                    yield pa.RecordBatch.from_arrays([pa.array([f"{file}: {problem}"])], ["problem"])
                    return

    def _of(self, text: bytes) -> str:
        try:
            # Of JSON that fills a file, Spark's reader finds the encoding, as this does.
            named: str = json.detect_encoding(text) if self.whole else "utf-8"
            return self.problem(text.decode("utf-8-sig" if named == "utf-8" else named))
        except UnicodeDecodeError as error:
            around = text[max(0, error.start - MAX_QUOTED // 2) : error.start + MAX_QUOTED // 2]
            return (
                f"it is not UTF-8: {error.reason} in {around!r}; save it as UTF-8, or name its encoding: "
                f"--reader-option encoding=ISO-8859-1"
            )


def _json_problem(text: str) -> str:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        # The reader refuses others itself, or allows them.
        if error.msg == EXTRA:
            return (
                f"there is more than one JSON value in {_quoted(text)}, or something behind it, of which Spark reads "
                f"the first alone; write one value on each line"
            )
    except (ValueError, RecursionError):
        pass
    return ""


def _csv_problem(options: Mapping[str, str]) -> Callable[[str], str]:
    quote, escape = options.get("quote", '"'), options.get("escape", "\\")
    separator, comment = options.get("sep", options.get("delimiter", ",")), options.get("comment", "")
    strip = options.get("ignoreleadingwhitespace", "").lower() == "true"
    is_known = len(separator) == len(quote) == len(escape) == 1

    def problem(text: str) -> str:
        if not is_known or quote not in text or (comment and text.startswith(comment)):
            return ""
        csv.field_size_limit(LARGEST_FIELD)
        rows = csv.reader(
            io.StringIO(text, newline=""),
            delimiter=separator,
            quotechar=quote,
            doublequote=escape == quote,
            escapechar=None if escape == quote else escape,
            skipinitialspace=strip,
            strict=True,
        )
        try:
            for _ in rows:
                pass
        except csv.Error as error:
            # The reader refuses others itself.
            if str(error) == OPEN_QUOTE:
                return (
                    f"a quotation mark is not closed in {_quoted(text)}; for line breaks in fields give "
                    f"--reader-option multiLine=true"
                )
        return ""

    return problem


def _quoted(text: str) -> str:
    return repr(text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}...")
