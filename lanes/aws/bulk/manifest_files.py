"""
Names of the files in a bulk run's manifest, which hold the counts: a listing is enough to see how far a run is.

    <run>/sent/<session>/p00003-a17-0001-1000.json          1,000 messages of partition 3, attempt 17
    <run>/quarantine/<session>/p00003-a17-0002-2.jsonl      2 rows of it that cannot be sent
    <run>/ended/<session>/p00003-a17.json                   rows that it skipped, or the reason of its failure
    <run>/streams/<query>/batch-7/sent/...                  the same for a batch of a stream
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

OF_TASK = re.compile(
    r"(?P<place>.*)/(?P<kind>sent|quarantine|ended)/(?P<session>[^/]+)/p(?P<partition>\d+)-a(?P<attempt>\d+)"
    r"(-(?P<number>\d+)-(?P<rows>\d+))?\.jsonl?"
)
OF_SESSION = re.compile(r"(?P<place>.*)/sessions/(?P<session>[^/]+)\.json")


class ManifestCounts(NamedTuple):
    """The messages that all sessions of a run have sent, and the rows that its last session has set aside."""

    sent: int
    quarantined: int


def counts_of(names: Iterable[str]) -> ManifestCounts:
    """
    Count messages and rows from the names of all files of a run.

    A row that cannot be sent is set aside by each session and each attempt at its partition. It counts once: in the
    last session of its part of the run, and there by the attempt that set most rows aside.
    """
    sent = 0
    last: dict[str, str] = {}
    aside: dict[tuple[str, str], dict[tuple[str, str], int]] = defaultdict(Counter)
    for name in names:
        found = OF_TASK.fullmatch(name) or OF_SESSION.fullmatch(name)
        if found is None:
            continue
        place, session = found["place"], found["session"]
        last[place] = max(last.get(place, ""), session)
        if found.re is OF_SESSION or found["rows"] is None:
            continue
        if found["kind"] == "sent":
            sent += int(found["rows"])
        else:
            aside[place, session][found["partition"], found["attempt"]] += int(found["rows"])
    return ManifestCounts(sent, sum(_by_partition(aside[place]).total() for place in last.items()))


def task_of(name: str) -> tuple[str, str]:
    """
    Return partition, with the part of the run that it belongs to, and attempt of a file that a task has written.

    Raises:
        ValueError: the name has another form.
    """
    found = OF_TASK.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} is not the name of a task's file")
    return f"{found['place']}/{found['partition']}", found["attempt"]


def last_attempts(names: Iterable[str]) -> list[str]:
    """Return the file of the last attempt at each partition, in the order of the partitions."""
    last: dict[str, tuple[int, str]] = {}
    for name in names:
        partition, attempt = task_of(name)
        last[partition] = max(last.get(partition, (-1, "")), (int(attempt), name))
    return [name for _, (_, name) in sorted(last.items())]


def _by_partition(attempts: dict[tuple[str, str], int]) -> Counter[str]:
    most: Counter[str] = Counter()
    for (partition, _), rows in attempts.items():
        most[partition] = max(most[partition], rows)
    return most
