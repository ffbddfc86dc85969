"""
A run that is followed to its end: its messages carry its mark, and its members are the ids in its manifest.

The driver opens the run before the first task and seals it after the last. A message of a killed task, a slow copy or a
failed session is a member once the manifest names it, and a rerun seals them all.
"""

from __future__ import annotations

from contextlib import closing
from threading import Lock
from time import sleep
from typing import TYPE_CHECKING

from lanes.aws.bulk.manifest_files import OF_TASK
from lanes.aws.clients import Clients
from lanes.errors import ConfigurationError
from lanes.producer import Producer
from lanes.producer.seal import open_run, seal
from lanes.runs import Head, chunks_for, place

from .manifest.sent_before import new_table
from .manifest.task import read_ids
from .options import SOURCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lanes.config.deployment import Deployment
    from lanes.message import Message
    from lanes.runs import Mark, RunTable

    from .manifest.storage import Storage
    from .options import WriterOptions


class FiledMembers:
    """Members in a temporary file, so that any number of them takes constant memory; close it when done."""

    def __init__(self, mark: Mark) -> None:
        self._mark = mark
        self._lock = Lock()
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
        yield from self._table.execute("SELECT chunk, fingerprint FROM member ORDER BY chunk, fingerprint")

    def of(self, chunk: int) -> frozenset[bytes]:
        """Give the fingerprints of a chunk."""
        with self._lock:
            found = self._table.execute("SELECT fingerprint FROM member WHERE chunk = ?", (chunk,))
            return frozenset(one for (one,) in found)

    def close(self) -> None:
        """Delete the file."""
        self._table.close()


def begin(options: WriterOptions, deployment: Deployment, storage: Storage) -> Mark:
    """
    Open the run, and give the mark of its messages; runs on the driver.

    Raises:
        ConfigurationError: Messages of the run were sent without its mark.
        RunError: The run is sealed or closed.
        AwsError: A call failed.
    """
    table, name = runs_of(options, deployment), str(options.run_id)
    if table.head(name) is None and next(_sent(storage, name), None) is not None:
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
    return open_run(table, head)


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
        LanesError: A call failed, also after repeats.
    """
    with closing(FiledMembers(mark)) as members:
        members.add_all(read_ids(storage, _sent(storage, mark.name)))
        # After the reading: another session that is at work has members which it may have missed.
        check()

        def announce(message: Message) -> None:
            sender_of(options, deployment).send_many([message])

        seal(runs_of(options, deployment), mark, members, announce=announce, pause=sleep)
        return len(members)


def runs_of(options: WriterOptions, deployment: Deployment) -> RunTable:
    """Give the table of runs."""
    from lanes.aws.table.runs import DynamoDBRuns

    clients = Clients(region=options.region, endpoint_url=options.endpoint_url)
    return DynamoDBRuns(table=deployment.table, client=clients.dynamodb())


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
