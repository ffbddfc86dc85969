"""
A run that is followed to its end: its messages carry its mark, and its members are the ids in its manifest.

The driver opens the run before the first task and seals it after the last. A message of a killed task, a slow copy or a
failed session is a member once the manifest names it, and a rerun seals them all. Where there are many, tasks share the
seal: each has a range of the chunks, reads and sorts their members, and writes them. The driver fixes the members
before, and ends the seal when all tasks have succeeded.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from time import sleep
from typing import TYPE_CHECKING

from lanes.aws.bulk.manifest_files import OF_TASK, counts_of
from lanes.errors import ConfigurationError, RunError
from lanes.producer import Producer
from lanes.producer.seal import DIGESTS, chunks_of, digest, end_seal, fix_members, open_run, seal, seal_chunks
from lanes.runs import Head, chunks_for, place

from .manifest.sent_before import new_table
from .manifest.task import read_ids
from .options import SOURCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark import RDD, SparkContext

    from lanes.config.deployment import Deployment
    from lanes.message import Message
    from lanes.runs import Mark, RunTable

    from .manifest.storage import Storage
    from .options import WriterOptions


# AWS answers a write in some 5 ms: eight threads of the driver seal a million members, 25,000 chunks, in 16 s, after
# 7 s to read and sort them. Two more jobs of Spark would save little of that.
SHARED_FROM = 1_000_000
"""Number of ids in a manifest from which tasks share the seal."""

MEMBER_BYTES = 16
"""Of a chunk and a fingerprint."""

SHARE = 1_000_000
"""Number of members of each task of the seal, which takes 150 MB of memory for them."""

WRITES = 3
"""
Chunks that a task writes at the same time. The six tasks of three executors write 3,600 units a second then, and a
new table on demand takes 4,000 (DynamoDB developer guide, "On-demand capacity mode"): the consumer writes the ends of
messages to the same table.
"""


class FiledMembers:
    """Members in a temporary file, so that any number of them takes constant memory; close it when done."""

    def __init__(self, mark: Mark) -> None:
        self._mark = mark
        self._table = new_table("member (chunk INTEGER, fingerprint BLOB, PRIMARY KEY (chunk, fingerprint))")

    def add_all(self, lists: Iterable[Iterable[str]]) -> None:
        """Add members by their identities; one that is added twice is one."""
        for identities in lists:
            rows = (place(identity, self._mark.chunks) for identity in identities)
            self._table.executemany("INSERT OR IGNORE INTO member VALUES (?, ?)", rows)
        self._table.commit()

    def __len__(self) -> int:
        """Give their number."""
        return int(self._table.execute("SELECT count(*) FROM member").fetchone()[0])

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Give chunk and fingerprint of each, in this order."""
        return iter(self._table.execute("SELECT chunk, fingerprint FROM member ORDER BY chunk, fingerprint"))

    def close(self) -> None:
        """Delete the file."""
        self._table.close()


def begin(options: WriterOptions, deployment: Deployment, storage: Storage) -> tuple[Mark, int | None]:
    """
    Open the run, and give the mark of its messages; runs on the driver.

    A run whose members an earlier session has fixed is sealed to the end, before anything more is sent. Its number of
    members is given then: no other row joins it.

    Raises:
        ConfigurationError: Messages of the run were sent without its mark.
        RunError: The run is closed.
        AwsError: A call failed.
    """
    table, name = runs_of(options, deployment), str(options.run_id)
    found = table.head(name)
    if found is not None and found.total is not None and not found.closed_at:
        if not found.sealed_at:
            end(options, deployment, storage, found.mark, check=lambda: None)
        return found.mark, found.total
    if found is None and next(_sent(storage, name), None) is not None:
        problem = (
            f"option follow is 'true', and run {name!r} has sent messages without its mark, which nobody can follow; "
            "give the run another name, or leave follow out"
        )
        raise ConfigurationError([problem], source=SOURCE)
    head = Head(
        name=name,
        chunks=chunks_for(options.expected),
        on_complete=options.on_complete,
        source=options.source,
        # A job that may send its rows may send the message of their end to the same lane.
        priority=options.priority,
    )
    return open_run(table, head), None


def end(
    options: WriterOptions,
    deployment: Deployment,
    storage: Storage,
    mark: Mark,
    *,
    check: Callable[[], None],
) -> int:
    """
    Seal the run with the ids in its manifest, and give their number; runs on the driver, after the last task.

    Args:
        options: The options.
        deployment: The lanes.
        storage: The folder of all manifests.
        mark: The mark of the run.
        check: Raises if another session has taken the run over.

    Raises:
        TakenOverError: Another session has taken the run over.
        RunError: The run was sealed with other members, or closed.
        LanesError: A call failed, even after repeats.
    """
    names = list(_sent(storage, mark.name))
    sent = counts_of(names).sent
    spark = _spark() if sent >= SHARED_FROM else None
    if spark is not None:
        shared = SharedSeal(options=options, deployment=deployment, mark=mark, shares=-(-sent // SHARE))
        return shared.seal(spark, names, check=check)
    with closing(FiledMembers(mark)) as members:
        members.add_all(read_ids(storage, names))
        # After the reading: another running session has members which it may have missed.
        check()
        announce = Announcement(options, deployment)
        seal(runs_of(options, deployment), mark, members, announce=announce, pause=sleep)
        return len(members)


@dataclass(frozen=True, slots=True)
class Announcement:
    """Sends the message of the end of a run, from the process that finds it."""

    options: WriterOptions
    deployment: Deployment

    def __call__(self, message: Message) -> None:
        """Send it."""
        sender_of(self.options, self.deployment).send_many([message])


@dataclass(frozen=True, slots=True)
class Share:
    """The members in the chunks of one task: their number, and a digest of them."""

    members: int
    digest: int


@dataclass(frozen=True, kw_only=True)
class SharedSeal:
    """
    The seal of a run by tasks; Spark copies it to each.

    Attributes:
        options: The options of the writer.
        deployment: The lanes.
        mark: The mark of the run.
        shares: Number of ranges of its chunks.
    """

    options: WriterOptions
    deployment: Deployment
    mark: Mark
    shares: int

    def seal(self, spark: SparkContext, names: Sequence[str], *, check: Callable[[], None]) -> int:
        """
        Seal the run with the ids in these files of its manifest, and give their number; runs on the driver.

        Every step may be repeated, so a task that was killed is tried again by Spark, and a killed driver by a rerun.
        """
        files = spark.parallelize(names, self.shares)
        # Both jobs read the sorted members of the first: Spark keeps the files of a shuffle for later jobs.
        members = files.mapPartitions(self.sort).partitionBy(self.shares, _itself)
        shares = members.mapPartitionsWithIndex(self.count).collect()
        check()
        table, total = runs_of(self.options, self.deployment), sum(share.members for share in shares)
        everything = sum(share.digest for share in shares) % DIGESTS
        fix_members(table, self.mark, total=total, digest=everything, pause=sleep)
        self._write(members, shares)
        end_seal(table, self.mark, pause=sleep)
        return total

    def _write(self, members: RDD[tuple[int, bytes]], shares: Sequence[Share]) -> None:
        def write(share: int, lists: Iterable[tuple[int, bytes]]) -> Iterator[None]:
            self.write(share, lists, shares[share])
            return iter(())

        members.mapPartitionsWithIndex(write).collect()

    def sort(self, names: Iterable[str]) -> Iterator[tuple[int, bytes]]:
        """Read the ids in some files, and give the members of each share: chunks and fingerprints, in one text."""
        storage = self.options.storage()
        found: dict[int, bytearray] = defaultdict(bytearray)
        for identities in read_ids(storage, names):
            for identity in identities:
                chunk, fingerprint = place(identity, self.mark.chunks)
                found[chunk * self.shares // self.mark.chunks] += chunk.to_bytes(8, "big") + fingerprint
        return ((share, bytes(members)) for share, members in found.items())

    def count(self, _share: int, lists: Iterable[tuple[int, bytes]]) -> Iterator[Share]:
        """Give number and digest of the members of a share."""
        yield _counted(_distinct(lists))

    def write(self, share: int, lists: Iterable[tuple[int, bytes]], counted: Share) -> None:
        """
        Write the members of a share into its chunks.

        Raises:
            RunError: They are not those that were fixed.
        """
        members = _distinct(lists)
        # Spark reads the manifest again if an executor with sorted members is lost.
        if _counted(members) != counted:
            raise RunError(f"the manifest of the run {self.mark.name!r} has changed while it was sealed")
        seal_chunks(
            runs_of(self.options, self.deployment),
            self.mark,
            chunks_of(_pairs(members), self.range_of(share)),
            announce=Announcement(self.options, self.deployment),
            concurrency=WRITES,
            pause=sleep,
        )

    def range_of(self, share: int) -> range:
        """Give the chunks of a share: those that `chunk * shares // chunks` gives it."""
        return range(
            -(-share * self.mark.chunks // self.shares), -(-(share + 1) * self.mark.chunks // self.shares)
        )


def _distinct(lists: Iterable[tuple[int, bytes]]) -> list[bytes]:
    """Give the members of a share in the order of chunk and fingerprint, each once."""
    found: set[bytes] = set()
    for _, text in lists:
        found.update(text[start : start + MEMBER_BYTES] for start in range(0, len(text), MEMBER_BYTES))
    return sorted(found)


def _pairs(members: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    return ((int.from_bytes(one[:8], "big"), one[8:]) for one in members)


def _counted(members: list[bytes]) -> Share:
    return Share(len(members), digest(_pairs(members)))


def _itself(share: int) -> int:
    return share


def _spark() -> SparkContext | None:
    """Give the cluster of this driver. The process that commits for `format("lanes")`, and a file, have none."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        return None
    session = SparkSession.getActiveSession()
    return None if session is None else session.sparkContext


def runs_of(options: WriterOptions, deployment: Deployment) -> RunTable:
    """Give the table of runs."""
    from lanes.aws.table.runs import DynamoDBRuns

    return DynamoDBRuns(table=deployment.table, client=options.clients().dynamodb())


def sender_of(options: WriterOptions, deployment: Deployment) -> Producer:
    """Give a producer for the message of the end."""
    return Producer.from_deployment(
        deployment, region=options.region, endpoint_url=options.endpoint_url, source=options.source
    )


def _sent(storage: Storage, run_id: str) -> Iterator[str]:
    """Give the files with the ids that all sessions have sent, those of all parts of the table included."""
    for folder in ("sent", "parts"):
        for name in storage.names(f"{run_id}/{folder}/"):
            found = OF_TASK.fullmatch(name)
            if found is not None and found["kind"] == "sent":
                yield name
