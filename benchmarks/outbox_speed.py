"""How fast a relay is: beside a naive loop, from commit to queue, and for urgent entries behind a backlog."""

from __future__ import annotations

import json
import queue
import random
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from lanes.aws.clients import Clients
from lanes.config import LanesConfig
from lanes.events import Event
from lanes.message import Message
from lanes.outbox.dynamodb.relay_function import relay_producer
from lanes.outbox.outbox import Outbox
from lanes.outbox.relay import Relay
from lanes.outbox.sql.schema import OutboxTables, row_of
from lanes.outbox.sql.store import SqlOutboxStore
from lanes.producer.report import SentMessage
from local.deploy import CdkApp
from local.deployed import make_session
from local.installed import ROOT
from local.platform import Platform
from local.server import AwsServer
from tests.support.lanes_server import LanesOnServer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.outbox.entry import Entry
    from lanes.producer import Producer

# What a loop of an afternoon does, and what examples on the web show: a look every half second, ten at a time.
NAIVE_PAUSE_SECONDS, NAIVE_BATCH = 0.5, 10
# Of the relay and of the plain loop; each takes so many turns.
BATCH, TURNS = 100, 5
STAGE = "outbox"


def new_store(url: str, name: str) -> SqlOutboxStore:
    """Make empty tables."""
    store = SqlOutboxStore(sa.create_engine(url), OutboxTables(name))
    store.setup()
    return store


def write(store: SqlOutboxStore, entries: Sequence[Entry]) -> None:
    """Commit entries."""
    with store.engine.begin() as connection:
        for start in range(0, len(entries), 5000):
            rows = [row_of(entry) for entry in entries[start : start + 5000]]
            connection.execute(store.tables.entries.insert(), rows)


def everyday(count: int, *, priority: int = 0) -> list[Entry]:
    """Make entries that are each their own group."""
    outbox = Outbox()
    return [outbox.prepare("order.placed", {"number": number}, priority=priority) for number in range(count)]


def publish_rates(url: str, count: int) -> dict[str, float]:
    """Publish the same work with the relay, with a plain loop and with a naive one, to the same local SQS."""
    with (
        tempfile.TemporaryDirectory() as folder,
        AwsServer(log_path=Path(folder) / "server.log") as server,
    ):
        lanes = LanesOnServer(server.endpoint_url, stack="Rates", outbox={"batch": BATCH})
        clients = Clients(endpoint_url=server.endpoint_url, session=make_session())
        producer = relay_producer(lanes.deployment, clients)
        relay_rates, plain_rates = [], []
        # In turn, since other work on the machine slows down whichever runs.
        for turn in range(TURNS):
            store = new_store(url, f"rates_relay_{turn}")
            write(store, everyday(count))
            relay = Relay(store=store, producer=producer, config=lanes.deployment.config)
            relay_rates.append(_rate(lambda relay=relay: relay.run_until(float("inf")).published))
            plain = PlainTable(url, f"rates_plain_{turn}")
            plain.write(everyday(count))
            plain_rates.append(_rate(lambda plain=plain: plain.publish(producer)))
        dead = {"relay": dead_tuples(store.engine, store.tables.entries.name, count)}
        dead["plain"] = dead_tuples(plain.engine, plain.table.name, count)
        naive = new_store(url, "rates_naive")
        write(naive, everyday(count // 4))
        naive_rate = _rate(lambda: naive_loop(naive, lanes))
    relay_rate, plain_rate = statistics.median(relay_rates), statistics.median(plain_rates)
    return {
        "publish_per_second": round(relay_rate, 1),
        "skip_locked_publish_per_second": round(plain_rate, 1),
        "publish_over_skip_locked": round(relay_rate / plain_rate, 2),
        "dead_tuples_per_entry": dead["relay"],
        "skip_locked_dead_tuples_per_entry": dead["plain"],
        "naive_publish_per_second": round(naive_rate, 1),
    }


def _rate(publish: Callable[[], int]) -> float:
    started = time.perf_counter()
    return publish() / (time.perf_counter() - started)


class PlainTable:
    """
    A queue in PostgreSQL as articles show it: one transaction selects with SKIP LOCKED, sends, and marks.

    No priorities, no order of groups, no retries; its rows are locked while they are sent. It sends through the same
    producer as the relay, in batches of the same size, so that the difference is that of the tables.
    """

    def __init__(self, url: str, name: str) -> None:
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

    def write(self, entries: Sequence[Entry]) -> None:
        """Commit entries."""
        rows = [
            {"id": entry.id, "position": entry.position, "body": entry.body, "is_published": False}
            for entry in entries
        ]
        with self.engine.begin() as connection:
            connection.execute(self.table.insert(), rows)

    def publish(self, producer: Producer) -> int:
        """Publish everything; return the number of messages."""
        column = self.table.c
        waiting = sa.select(column.id, column.body).where(~column.is_published).order_by(column.position)
        claim = waiting.limit(BATCH).with_for_update(skip_locked=True)
        sent = 0
        while True:
            with self.engine.begin() as connection:
                rows = connection.execute(claim).all()
                if not rows:
                    return sent
                sent += len(producer.send_many([Message.from_body(row.body, group=None) for row in rows]))
                ids = [row.id for row in rows]
                connection.execute(sa.update(self.table).where(column.id.in_(ids)).values(is_published=True))


def dead_tuples(engine: sa.Engine, table: str, count: int) -> float:
    """Return the dead tuples that publishing left for each entry; vacuum would remove them later."""
    engine.dispose()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        # ANALYZE counts them in the table itself; the statistics of a session arrive late.
        connection.exec_driver_sql(f"ANALYZE {table}")
        statement = sa.text("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = :name")
        dead = int(connection.execute(statement, {"name": table}).scalar_one())
    return round(dead / count, 2)


def naive_loop(store: SqlOutboxStore, lanes: LanesOnServer) -> int:
    """Poll, send one by one, mark one by one; end when nothing is left."""
    table = store.tables.entries
    url = lanes.deployment.queues["MEDIUM"].url
    sent = 0
    while True:
        with store.engine.connect() as connection:
            waiting = sa.select(table).where(table.c.state == "PENDING").order_by(table.c.position)
            rows = connection.execute(waiting.limit(NAIVE_BATCH)).mappings().all()
        if not rows:
            return sent
        for row in rows:
            lanes.sqs.send_message(
                QueueUrl=url,
                MessageBody=row["body"],
                MessageGroupId=row["id"],
                MessageDeduplicationId=row["id"],
            )
            with store.engine.begin() as connection:
                connection.execute(sa.update(table).where(table.c.id == row["id"]).values(state="PUBLISHED"))
            sent += 1
        time.sleep(NAIVE_PAUSE_SECONDS)


class _InstantProducer:
    """Accept everything at once, to measure the order of the outbox and not a queue."""

    def __init__(self) -> None:
        self.sent = 0
        self.urgent_left: set[str] = set()

    def send_many(self, messages: Sequence[Message], **_options: object) -> list[SentMessage]:
        """Record the messages."""
        self.urgent_left.difference_update(message.id for message in messages)
        self.sent += len(messages)
        return [
            SentMessage(id=message.id, lane="MEDIUM", message_id=message.id, sequence_number="1")
            for message in messages
        ]


def urgent_behind_backlog(url: str, *, backlog: int, urgent: int) -> dict[str, float]:
    """Time until all urgent entries are published, in priority order and first in, first out."""
    seconds = {}
    for name, priority in (("by_priority", 100), ("first_in_first_out", 0)):
        store = new_store(url, f"urgent_{name}")
        write(store, everyday(backlog))
        late = everyday(urgent, priority=priority)
        write(store, late)
        with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql(f"VACUUM ANALYZE {store.tables.entries.name}")
        producer = _InstantProducer()
        producer.urgent_left = {entry.id for entry in late}
        config = LanesConfig.from_dict({"outbox": {"batch": 100}})
        relay = Relay(store=store, producer=producer, config=config)
        started = time.perf_counter()
        while producer.urgent_left:
            relay.run_once()
        seconds[name] = time.perf_counter() - started
    return {
        "urgent_seconds": round(seconds["by_priority"], 3),
        "urgent_seconds_first_in_first_out": round(seconds["first_in_first_out"], 3),
        "urgent_first_speedup": round(seconds["first_in_first_out"] / seconds["by_priority"], 1),
    }


class _TimedProducer(_InstantProducer):
    """Note when each message is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.times: queue.Queue[float] = queue.Queue()

    def send_many(self, messages: Sequence[Message], **options: object) -> list[SentMessage]:
        """Record the time."""
        for _ in messages:
            self.times.put(time.perf_counter())
        return super().send_many(messages, **options)


def postgresql_commit_to_send(url: str, count: int) -> dict[str, float]:
    """Time from a commit in PostgreSQL until an idle relay sends the message."""
    store, producer, stopped = new_store(url, "commits"), _TimedProducer(), threading.Event()
    relay = Relay(store=store, producer=producer, config=LanesConfig())
    outbox = Outbox(sql=store.tables)
    thread = threading.Thread(
        target=lambda: relay.run(
            should_stop=stopped.is_set,
            pause=lambda length: stopped.wait(length.total_seconds()),
        )
    )
    thread.start()
    chance = random.Random(0)  # noqa: S311 - pauses, not secrets
    waits = []
    for number in range(count + 1):
        time.sleep(0.5 + chance.random())
        with store.engine.begin() as connection:
            outbox.add(connection, "order.placed", {"number": number})
        committed = time.perf_counter()
        waits.append(producer.times.get(timeout=60) - committed)
    stopped.set()
    thread.join()
    # The first one opens the connections.
    return {
        "postgresql_commit_to_send_p50_ms": round(1000 * statistics.median(waits[1:]), 1),
        "postgresql_commit_to_send_max_ms": round(1000 * max(waits[1:]), 1),
    }


def dynamodb_commit_to_send(count: int) -> dict[str, float]:
    """Time from a commit in DynamoDB until the message is in its lane, through stream, mapping and relay function."""
    waits: list[float] = []
    seen: dict[str, float] = {}
    changed = threading.Condition()
    chance = random.Random(0)  # noqa: S311 - pauses, not secrets

    def note(_function: str, line: str) -> None:
        if f'"{Event.MESSAGE_HANDLED}"' in line:
            event: dict[str, Any] = json.loads(line)
            with changed:
                seen[event["id"]] = event["sent_at"]
                changed.notify_all()

    with tempfile.TemporaryDirectory() as folder:
        app = CdkApp(directory=ROOT, stage=STAGE, context={"removal": "destroy"})
        with Platform(app=app, on_line=note, build_directory=Path(folder)) as platform:
            endpoint = platform.endpoint_url
            outbox = Outbox.from_stack(
                f"PriorityLanes-{STAGE}", endpoint_url=endpoint, session=make_session()
            )
            for number in range(count + 1):
                # A commit right after the last message would meet a relay that is still awake.
                time.sleep(0.5 + chance.random())
                with outbox.transaction() as transaction:
                    entry = transaction.add("order.placed", {"number": number})
                committed = time.time()
                with changed:
                    if not changed.wait_for(lambda wanted=entry.id: wanted in seen, 60):
                        raise RuntimeError(f"entry {entry.id} did not arrive")
                    waits.append(seen[entry.id] - committed)
    # The first one starts both functions, which is no matter of the outbox.
    return {
        "dynamodb_commit_to_send_p50_ms": round(1000 * statistics.median(waits[1:]), 1),
        "dynamodb_commit_to_send_max_ms": round(1000 * max(waits[1:]), 1),
    }
