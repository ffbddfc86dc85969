"""
A run that is followed to its end: its messages carry its mark, and its members are the ids in its manifest.

The driver opens the run before the first task and seals it after the last: a million members take it half a minute. A
message of a killed task, a slow copy or a failed session is a member once the manifest names it, and a rerun seals them
all.
"""

from __future__ import annotations

from contextlib import closing
from time import sleep
from typing import TYPE_CHECKING

from lanes.errors import ConfigurationError
from lanes.producer import Producer
from lanes.producer.run import open_run, seal
from lanes.runs import Head, chunks_for, place

from .manifest.task import new_table, read_ids
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


def begin(
    options: WriterOptions, deployment: Deployment, storage: Storage, *, count: Callable[[], int]
) -> tuple[Mark, int | None]:
    """
    Open the run, and give the mark of its messages; runs on the driver.

    A run whose members an earlier session has fixed is sealed to the end, before anything more is sent. Its number of
    members is given then: no other row joins it.

    Args:
        options: The options.
        deployment: The lanes.
        storage: The folder of all manifests.
        count: Gives about the number of members of a new run; it may have 250 times as many, but each end costs more
            then.

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
    if found is None and next(iter(storage.names(f"{name}/sent/")), None) is not None:
        problem = (
            f"option follow is 'true', and run {name!r} has sent messages without its mark, which nobody can follow; "
            "give the run another name, or leave follow out"
        )
        raise ConfigurationError([problem], source=SOURCE)
    head = Head(
        name=name,
        chunks=chunks_for(max(1, count())),
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
    with closing(FiledMembers(mark)) as members:
        members.add_all(read_ids(storage, storage.names(f"{mark.name}/sent/")))
        # After the reading: another running session has members which it may have missed.
        check()

        def announce(message: Message) -> None:
            sender_of(options, deployment).send_many([message])

        seal(runs_of(options, deployment), mark, members, announce=announce, pause=sleep)
        return len(members)


def runs_of(options: WriterOptions, deployment: Deployment) -> RunTable:
    """Give the table of runs."""
    from lanes.aws.runs import DynamoDBRuns

    return DynamoDBRuns(table=deployment.table, client=options.clients().dynamodb())


def sender_of(options: WriterOptions, deployment: Deployment) -> Producer:
    """Give a producer for the message of the end."""
    return Producer.from_deployment(
        deployment, region=options.region, endpoint_url=options.endpoint_url, source=options.source
    )
