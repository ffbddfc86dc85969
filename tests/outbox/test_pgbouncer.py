"""Relays behind a real PgBouncer in transaction mode, where Debian's package is installed."""

import asyncio
import shutil
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from lanes.message import Message
from lanes.outbox import EntryState, SqlOutbox
from lanes.outbox.sql.store import SqlOutboxStore
from lanes.outbox.sql.writing import write
from tests.support.outbox import LOCK, SHARES, published
from tests.support.waiting import answers, until

PROGRAM = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
RELAYS, ENTRIES = 3, 60
# As the page says for applications.
RECIPES = {
    "pg8000": {},
    "psycopg": {"connect_args": {"prepare_threshold": None}},
    "asyncpg": {
        "connect_args": {
            "statement_cache_size": 0,
            "prepared_statement_name_func": lambda: f"s{uuid4()}",
        }
    },
}
QUERIES = {"asyncpg": "?prepared_statement_cache_size=0"}
WRITERS, WRITTEN = 8, 12


@pytest.fixture
def pooler(postgres, tmp_path):
    """Return the port of a pooler with two servers for all clients."""
    if shutil.which(PROGRAM) is None:
        pytest.skip("pgbouncer is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = sa.make_url(postgres.url)
    settings = tmp_path / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n* = host=127.0.0.1 port={server.port} user=postgres\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
        "pool_mode = transaction\ndefault_pool_size = 2\nuser = nobody\n"
    )
    with subprocess.Popen([PROGRAM, str(settings)], stderr=subprocess.DEVNULL) as process:
        until(lambda: answers(port), why="pgbouncer did not start")
        yield port
        process.terminate()


@pytest.mark.parametrize("driver", ["pg8000", "psycopg"])
def test_relays_behind_a_pooler_publish_everything(postgresql_subject, pooler, driver):
    """With the driver's statements, which no server knows that another one has prepared."""
    pytest.importorskip(driver, reason=f"{driver} is not installed")
    url = f"postgresql+{driver}://postgres@127.0.0.1:{pooler}/postgres"
    tables, outbox, sent, errors = postgresql_subject.tables, SqlOutbox(), [], []

    def relay(number):
        store = SqlOutboxStore.from_url(url, table=tables.entries.name)
        try:
            for turn in range(ENTRIES):
                entries = [outbox.prepare("k", None, group=f"g{number}")]
                with store.writing() as connection:
                    write(connection, tables, entries)
                owner = f"{number}/{turn}"
                claim = store.claim(SHARES, owner=owner, now=1.0, locked_until=1.0 + LOCK, limit=5)
                sent.extend(entry.id for entry in claim.entries)
                store.settle([published(entry) for entry in claim.entries], owner=owner, now=1.0)
        except BaseException as error:
            errors.append(error)
            raise
        finally:
            store.engine.dispose()

    threads = [threading.Thread(target=relay, args=(number,)) for number in range(RELAYS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert len(sent) == len(set(sent))
    claim = postgresql_subject.store.claim(SHARES, owner="last", now=1.0, locked_until=2.0, limit=500)
    assert len(sent) + len(claim.entries) == RELAYS * ENTRIES


@pytest.mark.parametrize("driver", RECIPES)
def test_every_recipe_for_an_application_writes_through_a_pooler(postgresql_subject, pooler, driver):
    """Many writers with a pool of connections, each of whose transactions may have another server."""
    pytest.importorskip(driver, reason=f"{driver} is not installed")
    url = f"postgresql+{driver}://postgres@127.0.0.1:{pooler}/postgres{QUERIES.get(driver, '')}"
    outbox = SqlOutbox(tables=postgresql_subject.tables)
    if driver == "asyncpg":
        asyncio.run(write_many_async(create_async_engine(url, **RECIPES[driver]), outbox))
    else:
        engine = sa.create_engine(url, **RECIPES[driver])
        with ThreadPoolExecutor(WRITERS) as threads:
            list(threads.map(lambda writer: write_many(engine, outbox, writer), range(WRITERS)))
        engine.dispose()

    written = postgresql_subject.operations.entries(frozenset(EntryState))
    assert len(list(written)) == 2 * WRITERS * WRITTEN


def write_many(engine, outbox, writer):
    """Write in transactions of their own, with a lock and without."""
    for _ in range(WRITTEN):
        with engine.begin() as connection:
            outbox.lock_group(connection, f"g{writer}")
            outbox.add(connection, "k", None, group=f"g{writer}")
        with engine.begin() as connection:
            outbox.add_many(connection, [Message(kind="k")])


async def write_many_async(engine, outbox):
    """Do the same with tasks."""

    async def write_some(writer):
        for _ in range(WRITTEN):
            async with engine.begin() as connection:
                await outbox.lock_group_async(connection, f"g{writer}")
                await outbox.add_async(connection, "k", None, group=f"g{writer}")
            async with engine.begin() as connection:
                await outbox.add_many_async(connection, [Message(kind="k")])

    await asyncio.gather(*(write_some(writer) for writer in range(WRITERS)))
    await engine.dispose()
