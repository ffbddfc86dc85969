"""The cost of a claim at different backlogs: read units in DynamoDB, rows and buffers in PostgreSQL."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any
from unittest import mock

import boto3
import sqlalchemy as sa
from moto import mock_aws
from moto.dynamodb.models import dynamodb_backends

from lanes.config import LanesConfig
from lanes.outbox.dynamodb.item import item_bytes, item_of
from lanes.outbox.dynamodb.store import DynamoDBOutboxStore
from lanes.outbox.dynamodb.table import create_table
from lanes.outbox.outbox import Outbox
from lanes.outbox.rules import lane_shares
from lanes.outbox.sql.schema import OutboxTables, row_of
from lanes.outbox.sql.store import SqlOutboxStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lanes.outbox.entry import Entry

CONFIG = LanesConfig()
BATCH = 25
REGION = "eu-central-1"
UNIT_BYTES = 4096
NOW, LOCKED_UNTIL = 2_000_000_000.0, 2_000_000_300.0


def backlog(count: int) -> Iterator[Entry]:
    """
    Give entries of all lanes; half of them have a group, four a group, two of these in each of two lanes.

    A claim meets the same mixture at the top of any backlog, so that only its length differs.
    """
    outbox = Outbox(config=CONFIG)
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
        self.items = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def query(self, **parameters: Any) -> Any:
        """Pass a query on and count it."""
        answer = self._client.query(**parameters)
        if answer["ScannedCount"] != answer["Count"]:
            raise RuntimeError("a claim filtered what it had read; its cost is more than what it returned")
        size = sum(item_bytes(item) for item in answer["Items"])
        units = max(1, math.ceil(size / UNIT_BYTES))
        self.units += units if parameters.get("ConsistentRead") else units / 2
        self.items += answer["ScannedCount"]
        return answer


def dynamodb_costs(sizes: Sequence[int]) -> dict[int, dict[str, float]]:
    """Measure claims on tables with so many waiting entries; give units and items a claim."""
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
    claim = store.claim(lane_shares(CONFIG), owner="bench", now=NOW, locked_until=LOCKED_UNTIL, limit=BATCH)
    return {
        "read_units_per_claim": meter.units,
        "items_read_per_claim": meter.items,
        "claimed": len(claim.entries),
    }


def postgresql_costs(url: str, sizes: Sequence[int]) -> dict[int, dict[str, float]]:
    """Measure one claim on tables with so many waiting entries; give rows and buffers of all its statements."""
    return {size: _postgresql_cost(url, size) for size in sizes}


def _postgresql_cost(url: str, size: int) -> dict[str, float]:
    engine = sa.create_engine(url)
    tables = OutboxTables(f"claims_{size}")
    store = SqlOutboxStore(engine, tables)
    store.setup()
    rows = [row_of(entry) for entry in backlog(size)]
    with engine.begin() as connection:
        for start in range(0, size, 5000):
            connection.execute(tables.entries.insert(), rows[start : start + 5000])
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(f"VACUUM ANALYZE {tables.entries.name}")
    plans: list[dict[str, Any]] = []

    def explain(_connection: Any, cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        if tables.entries.name in statement:
            # In its place, and undone: after the claim the table would be another.
            cursor.execute("SAVEPOINT explained")
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", parameters)
            (explained,) = cursor.fetchone()
            cursor.execute("ROLLBACK TO SAVEPOINT explained")
            plans.append((json.loads(explained) if isinstance(explained, str) else explained)[0]["Plan"])

    sa.event.listen(engine, "before_cursor_execute", explain)
    store.claim(lane_shares(CONFIG), owner="bench", now=NOW, locked_until=LOCKED_UNTIL, limit=BATCH)
    sa.event.remove(engine, "before_cursor_execute", explain)
    engine.dispose()
    return {
        "statements": len(plans),
        "rows_per_claim": sum(map(_rows, plans)),
        "buffers_per_claim": sum(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in plans),
    }


def _rows(plan: dict[str, Any]) -> int:
    """Add up the rows read by the scans of a plan, kept or not."""
    inner = sum(_rows(child) for child in plan.get("Plans", ()))
    if "Scan" not in plan["Node Type"]:
        return inner
    read = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
    return inner + int(read * plan["Actual Loops"])
