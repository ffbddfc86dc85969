"""
The outbox: the cost of a claim at any backlog, and the speed of a relay: `python -m benchmarks.outbox`.

Costs are counted: read units in DynamoDB, rows and buffers in PostgreSQL, each at a long backlog over a short one. The
relay takes turns with a plain loop over the same server, with and without groups, while a send takes no time and 10 ms;
writers of entries take turns with writers of bare rows.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock

import boto3
import sqlalchemy as sa
from moto import mock_aws
from moto.dynamodb.models import dynamodb_backends
from sqlalchemy.dialects import postgresql

from benchmarks.figures import Row, least, most, show
from lanes.config import LanesConfig
from lanes.message import Message
from lanes.outbox import SqlOutbox
from lanes.outbox.dynamodb.store import DynamoDBOutboxStore
from lanes.outbox.dynamodb.table import create_table, item_bytes, item_of
from lanes.outbox.relay import Relay
from lanes.outbox.rules import lane_shares, refused
from lanes.outbox.sql.bridges import Bridge
from lanes.outbox.sql.schema import OutboxTables
from lanes.outbox.sql.store import SqlOutboxStore
from lanes.outbox.sql.writing import write as write_entries
from lanes.producer.outgoing import SentMessage
from tests.support.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lanes.outbox.entry import Entry

CONFIG = LanesConfig.from_dict({"outbox": {"batch": 100}})
REGION, UNIT_BYTES = "eu-central-1", 4096
CLAIM, BATCH, ROWS = 25, 100, 5_000
"""Entries of a measured claim, of a round of both relays, and of an insert."""

NOW, LOCKED_UNTIL = 2_000_000_000.0, 2_000_000_300.0
SIZES, TURNS, COMMITS, MANY_GROUPS = (100, 10_000, 100_000), 5, 20, 1_000
CLAIM_GOALS = {"read_units_per_claim": 1.05, "rows_per_claim": 1.05, "buffers_per_claim": 1.2}
"""At a long backlog over a short one."""

RATE_GOALS = {0.0: 0.6, 0.01: 0.8}
"""The relay's rate over the plain loop's, by the seconds of a send."""

WRITERS, COMMIT_GOAL = (1, 8, 32), 1.15
"""Clients that write, and how many times more bare rows they may commit than entries."""

P50_GOAL, LONGEST_GOAL = 0.15, 0.4
"""Seconds from a commit to the send of an idle relay."""


def backlog(count: int) -> Iterator[Entry]:
    """
    Yield entries of all lanes; half of them have a group, four a group, two of these in each of two lanes.

    A claim meets the same mixture at the top of any backlog, so that only its length differs.
    """
    outbox = SqlOutbox(config=CONFIG)
    for number in range(count):
        group = f"customer-{number // 8}" if number % 2 else None
        priority = (-100, 0, 1, 100)[number % 4]
        yield outbox.prepare("order.placed", {"number": number}, group=group, priority=priority)


class ReadMeter:
    """
    A client of DynamoDB that counts the read units of its queries.

    AWS: a query costs the sizes of the items that it reads, as the index holds them, rounded up to 4 KB, half of that
    where it is read eventually, and at least one unit or half of one (DynamoDB, "Read and write operations"). The local
    DynamoDB does not count them, so they are computed here from the items that each call read.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self.units = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def query(self, **parameters: Any) -> Any:
        """Pass a query on and count it."""
        answer = self._client.query(**parameters)
        if answer["ScannedCount"] != answer["Count"]:
            raise RuntimeError(
                "a claim filtered the items that it had read; its cost is more than its result"
            )
        units = max(1, math.ceil(sum(item_bytes(item) for item in answer["Items"]) / UNIT_BYTES))
        self.units += units if parameters.get("ConsistentRead") else units / 2
        return answer


def dynamodb_costs(sizes: Sequence[int]) -> dict[int, dict[str, float]]:
    """Return the read units of a claim by the number of waiting entries."""
    place = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", "AWS_DEFAULT_REGION": REGION}
    with mock.patch.dict(os.environ, place), mock_aws():
        return {size: _dynamodb_cost(size) for size in sizes}


def _dynamodb_cost(size: int) -> dict[str, float]:
    client = boto3.client("dynamodb", region_name=REGION)
    name = f"outbox-{size}"
    create_table(client, name)
    # Straight into the table: a hundred thousand requests would take minutes and measure nothing.
    table = next(iter(dynamodb_backends.values()))[REGION].get_table(name)
    table.stream_shard = None
    for entry in backlog(size):
        table.put_item(item_of(entry))
    meter = ReadMeter(client)
    store = DynamoDBOutboxStore(table=name, client=meter, concurrency=1)  # type: ignore[arg-type]
    claim = store.claim(lane_shares(CONFIG), owner="bench", now=NOW, locked_until=LOCKED_UNTIL, limit=CLAIM)
    return {"read_units_per_claim": meter.units, "claimed": len(claim.entries)}


def postgresql_costs(url: str, sizes: Sequence[int]) -> dict[int, dict[str, float]]:
    """Return statements, rows and buffers of a claim by the number of waiting entries."""
    return {size: _postgresql_cost(new_store(url, f"claims_{size}"), backlog(size)) for size in sizes}


def _postgresql_cost(store: SqlOutboxStore, entries: Iterator[Entry]) -> dict[str, float]:
    write(store, [*entries])
    with explained(store) as plans:
        store.claim(lane_shares(CONFIG), owner="bench", now=NOW, locked_until=LOCKED_UNTIL, limit=CLAIM)
    store.engine.dispose()
    return {
        "statements": len(plans),
        "rows_per_claim": sum(map(_rows, plans)),
        "buffers_per_claim": sum(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in plans),
    }


class explained:  # noqa: N801 - a context manager, used like a function
    """Collect the plan of each statement on the entries while it runs: its rows, buffers and time."""

    def __init__(self, store: SqlOutboxStore) -> None:
        self._engine = store.engine
        self._table = store.tables.entries.name
        self._plans: list[dict[str, Any]] = []

    def __enter__(self) -> list[dict[str, Any]]:
        sa.event.listen(self._engine, "before_cursor_execute", self._explain)
        return self._plans

    def __exit__(self, *_: object) -> None:
        sa.event.remove(self._engine, "before_cursor_execute", self._explain)

    def _explain(self, _connection: Any, cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        if self._table in statement:
            # In its place, and undone: after the claim the table would be another. A look is no transaction.
            is_change = not statement.startswith("SELECT")
            if is_change:
                cursor.execute("SAVEPOINT explained")
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", parameters)
            (found,) = cursor.fetchone()
            if is_change:
                cursor.execute("ROLLBACK TO SAVEPOINT explained")
            self._plans.append((json.loads(found) if isinstance(found, str) else found)[0]["Plan"])


def _rows(plan: dict[str, Any]) -> int:
    """Add up the rows read by the scans of a plan, kept or not."""
    inner = sum(_rows(child) for child in plan.get("Plans", ()))
    if "Scan" not in plan["Node Type"]:
        return inner
    read = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
    return inner + int(read * plan["Actual Loops"])


def new_store(url: str, name: str) -> SqlOutboxStore:
    """Make empty tables."""
    store = SqlOutboxStore(sa.create_engine(url), OutboxTables(name))
    store.setup()
    return store


def write(store: SqlOutboxStore, entries: Sequence[Entry]) -> None:
    """Commit entries, and let the planner know them."""
    with store.engine.begin() as connection:
        for start in range(0, len(entries), ROWS):
            write_entries(connection, store.tables, entries[start : start + ROWS])
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for table in (store.tables.entries, store.tables.groups):
            connection.exec_driver_sql(f"VACUUM ANALYZE {table.name}")


def everyday(count: int, *, groups: int = 0) -> list[Entry]:
    """Make entries in so many groups, or each in its own."""
    outbox = SqlOutbox(config=CONFIG)
    return [
        outbox.prepare(
            "order.placed", {"number": number}, group=f"g{number % groups}" if groups else None, priority=0
        )
        for number in range(count)
    ]


class Producer:
    """Accept messages after some seconds a call of ten, and note when each batch was sent."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self._sent = threading.Condition()
        self._times: list[float] = []

    def send_many(self, messages: Sequence[Message], **_options: object) -> list[SentMessage]:
        """Accept the messages."""
        if self._seconds:
            time.sleep(self._seconds)
        with self._sent:
            self._times += [time.perf_counter()] * len(messages)
            self._sent.notify_all()
        return [
            SentMessage(id=message.id, lane="MEDIUM", message_id=message.id, sequence_number="1")
            for message in messages
        ]

    def time_of(self, number: int) -> float:
        """Wait for so many messages and return when the last of them was sent."""
        with self._sent:
            if not self._sent.wait_for(lambda: len(self._times) >= number, 60):
                raise RuntimeError(f"message {number} was not sent")
            return self._times[number - 1]


class PlainTable:
    """
    A queue in PostgreSQL as articles show it: one transaction selects with SKIP LOCKED, sends, and marks.

    No priorities, no order of groups, no retries; its rows are locked while they are sent. Its batches have the relay's
    size, so that the difference is that of the tables.
    """

    def __init__(self, url: str, name: str, entries: Sequence[Entry]) -> None:
        self.engine = sa.create_engine(url)
        self.table = sa.Table(
            name,
            sa.MetaData(),
            sa.Column("id", sa.String(128), primary_key=True),
            sa.Column("position", sa.BigInteger),
            sa.Column("body", sa.Text),
            sa.Column("is_published", sa.Boolean),
        )
        sa.Index(f"{name}_waiting", self.table.c.position, postgresql_where=~self.table.c.is_published)
        self.table.create(self.engine)
        rows = [
            {"id": one.id, "position": one.position, "body": one.body, "is_published": False}
            for one in entries
        ]
        with self.engine.begin() as connection:
            connection.execute(self.table.insert(), rows)

    def publish(self, producer: Producer) -> int:
        """Publish everything; return the number of messages."""
        column, sent = self.table.c, 0
        waiting = sa.select(column.id, column.body).where(~column.is_published).order_by(column.position)
        claim = waiting.limit(BATCH).with_for_update(skip_locked=True)
        while True:
            with self.engine.begin() as connection:
                rows = connection.execute(claim).all()
                if not rows:
                    return sent
                sent += len(producer.send_many([Message.from_body(row.body, group=None) for row in rows]))
                ids = [row.id for row in rows]
                connection.execute(sa.update(self.table).where(column.id.in_(ids)).values(is_published=True))


def rates(url: str, count: int, *, seconds: float, groups: int) -> Row:
    """Publish the same entries with the relay and with a plain loop, in turn: other work slows down whichever runs."""
    ratios, ours = [], []
    for turn in range(TURNS):
        name, entries = f"{turn}_{groups}_{int(seconds * 1000)}", everyday(count, groups=groups)
        store = new_store(url, f"relay_{name}")
        write(store, entries)
        relay = Relay(
            store=store,
            producer=Producer(seconds),  # type: ignore[arg-type]
            config=CONFIG,
            sender=ThreadPoolExecutor(1),
        )
        plain = PlainTable(url, f"plain_{name}", entries)
        ours.append(_rate(partial(_drain, relay)))
        ratios.append(ours[-1] / _rate(partial(plain.publish, Producer(seconds))))
    return {
        "case": f"publish, {groups or 'no'} groups, a send of {seconds * 1000:g} ms",
        "a second": round(statistics.median(ours)),
        "over the loop": least(statistics.median(ratios), RATE_GOALS[seconds]),
    }


def _drain(relay: Relay) -> int:
    return relay.run_until(float("inf")).published


def _rate(publish: Callable[[], int]) -> float:
    started = time.perf_counter()
    return publish() / (time.perf_counter() - started)


def commit_to_send(url: str, count: int) -> Row:
    """Time from a commit in PostgreSQL until an idle relay sends the message."""
    store, producer, stopped = new_store(url, "commits"), Producer(), threading.Event()
    relay, outbox = (
        Relay(store=store, producer=producer, config=LanesConfig()),
        SqlOutbox(tables=store.tables),
    )  # type: ignore[arg-type]
    run = {"should_stop": stopped.is_set, "pause": lambda length: stopped.wait(length.total_seconds())}
    thread = threading.Thread(target=relay.run, kwargs=run)
    thread.start()
    chance, waits = random.Random(0), []  # noqa: S311 - pauses, not secrets
    for number in range(count + 1):
        time.sleep(0.5 + chance.random())
        with store.engine.begin() as connection:
            outbox.add(connection, "order.placed", {"number": number})
        committed = time.perf_counter()
        waits.append(producer.time_of(number + 1) - committed)
    stopped.set()
    thread.join()
    # The first one opens the connections.
    return {
        "case": "commit to send, idle",
        "p50 s": most(statistics.median(waits[1:]), P50_GOAL),
        "longest s": most(max(waits[1:]), LONGEST_GOAL),
    }


def commits_beside_bare_rows(server: PostgresServer, clients: int, seconds: int) -> Row:
    """Commits a second of a business row and a bare row, over those of the row and an entry; in turn."""
    engine, table = sa.create_engine(server.url), f"writers_{clients}"
    store = new_store(server.url, f"{table}_outbox")
    with engine.begin() as connection:
        for name in ("orders", "bare"):
            connection.exec_driver_sql(
                f"CREATE TABLE {table}_{name} (id bigserial PRIMARY KEY, body text NOT NULL)"
            )
    order, bare_row = (
        str(sa.insert(sa.table(f"{table}_{name}", sa.column("body"))).values(body=sa.text(f"'{'x' * 300}'")))
        + ";\n"
        for name in ("orders", "bare")
    )
    bare, entry = (f"BEGIN;\n{order}{other}COMMIT;\n" for other in (bare_row, _insert_of_entry(store)))
    ratios = []
    for _ in range(3):
        ours = server.pgbench(entry, clients=clients, seconds=seconds)
        ratios.append(server.pgbench(bare, clients=clients, seconds=seconds) / ours)
    store.engine.dispose()
    engine.dispose()
    return {
        "case": f"commits of {clients} writers, bare rows over entries",
        "a second": round(ours),
        "ratio": most(statistics.median(ratios), COMMIT_GOAL),
    }


def _insert_of_entry(store: SqlOutboxStore) -> str:
    """Return the statement of `SqlOutbox.add` for pgbench, with an id and a group of each transaction's own."""
    said: list[tuple[str, dict[str, Any]]] = []

    def keep(statement: str, parameters: dict[str, Any]) -> list[tuple[int, bool]]:
        said.append((statement, parameters))
        return [(1, False)]

    dialect = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]
    bridge = Bridge(name="pgbench", dialect=dialect, run=keep, problem=str)
    SqlOutbox(tables=store.tables).add(bridge, "order.placed", {"number": 7}, group="g", id="i")
    ((statement, parameters),) = said
    own = {"i": "md5(random()::text)", "g": "'g' || :client_id", "MEDIUM#g": "'MEDIUM#g' || :client_id"}
    # The longest names first: one may begin another.
    for name in sorted(parameters, key=len, reverse=True):
        value = parameters[name]
        literal = own.get(value) if isinstance(value, str) else None
        if literal is None:
            literal = (
                "NULL"
                if value is None
                else str(sa.literal(value).compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
            )
        statement = statement.replace(f":{name}", literal)
    return " ".join(statement.split()) + ";\n"


def claim_beside_failing_group(url: str, sizes: Sequence[int]) -> Row:
    """Buffers of a claim while the first entry of a group fails, at a short and at a long group."""
    buffers = []
    for size in sizes:
        store = new_store(url, f"failing_{size}")
        outbox = SqlOutbox(config=CONFIG)
        write(store, [outbox.prepare("order.placed", None, group="big") for _ in range(size)])
        shares = lane_shares(CONFIG)
        claim = store.claim(shares, owner="bench", now=NOW, locked_until=LOCKED_UNTIL, limit=1)
        failed = refused(claim.entries[0], CONFIG.outbox, now=NOW, reason="no", chance=0.5)
        store.settle([failed], owner="bench", now=NOW)
        write(store, everyday(CLAIM))
        with explained(store) as plans:
            found = store.claim(shares, owner="bench", now=NOW, locked_until=LOCKED_UNTIL, limit=CLAIM)
        if len(found.entries) != CLAIM:
            raise RuntimeError("the claim found other entries than those beside the group")
        buffers.append(sum(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in plans))
        store.engine.dispose()
    return {
        "case": "PostgreSQL: buffers of a claim beside a failing group",
        f"at {sizes[0]}": buffers[0],
        f"at {sizes[-1]}": buffers[-1],
        "ratio": most(buffers[-1] / buffers[0], CLAIM_GOALS["buffers_per_claim"]),
    }


def idle_poll(url: str) -> Row:
    """Statements and buffers of a poll that finds nothing."""
    store = new_store(url, "idle")
    write(store, [])
    shares = lane_shares(CONFIG)
    with explained(store) as plans:
        store.claim(shares, owner="bench", now=NOW, locked_until=LOCKED_UNTIL, limit=BATCH)
    buffers = sum(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in plans)
    store.engine.dispose()
    return {
        "case": "PostgreSQL: an idle poll",
        "statements": most(len(plans), 1),
        "buffers": most(buffers, 5),
    }


def measure(sizes: Sequence[int], published: int, commits: int, seconds: int) -> Iterator[Row]:
    """Yield the rows of claims, rates, commits and latency."""
    with PostgresServer(is_durable=True) as server:
        for clients in WRITERS:
            yield commits_beside_bare_rows(server, clients, seconds)
    with PostgresServer() as server:
        yield idle_poll(server.url)
        yield claim_beside_failing_group(server.url, sizes)
        costs = {"DynamoDB": dynamodb_costs(sizes), "PostgreSQL": postgresql_costs(server.url, sizes)}
        for store, cost in costs.items():
            for what, goal in CLAIM_GOALS.items():
                if what not in cost[sizes[0]]:
                    continue
                few, many = cost[sizes[0]][what], cost[sizes[-1]][what]
                yield {
                    "case": f"{store}: {what.partition('_per_')[0].replace('_', ' ')} of a claim",
                    f"at {sizes[0]}": few,
                    f"at {sizes[-1]}": many,
                    "ratio": most(many / few, goal),
                }
        for taken in RATE_GOALS:
            for groups in (0, MANY_GROUPS):
                yield rates(server.url, published, seconds=taken, groups=groups)
        yield commit_to_send(server.url, commits)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.outbox", description="Costs and speed of the outbox."
    )
    parser.add_argument("--json", action="store_true", help="print the JSON line only")
    parser.add_argument("--quick", action="store_true", help="small sizes, to check that it runs")
    options = parser.parse_args()
    rows = measure(SIZES[:2], 200, 3, 1) if options.quick else measure(SIZES, 2_000, COMMITS, 5)
    show("outbox", list(rows), only_json=options.json)


if __name__ == "__main__":
    main()
