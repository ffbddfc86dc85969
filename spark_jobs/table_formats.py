"""Folders of table formats, which keep deleted and old rows in files that other readers take for rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
