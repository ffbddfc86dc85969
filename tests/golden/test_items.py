"""The outer form of the ledger's table: every kind of item, as two releases that meet in a deploy have to read it."""

import boto3
import pytest
from moto import mock_aws

from lanes.aws.audit import DynamoDBAuditTrail, RedriveRecords
from lanes.aws.ledger import DynamoDBLedger
from lanes.aws.overrides import DynamoDBOverrides
from lanes.aws.runs import DynamoDBRuns
from lanes.aws.slots import DynamoDBPauses, DynamoDBSlots
from lanes.consumer.engines.presence import Presence
from lanes.consumer.ledger import Blocking, Ending, Entry, Park
from lanes.message_filter import MessageFilter
from lanes.operate.audit import AuditEntry
from lanes.overrides import Action, Cancelled, GroupRedirect, Override
from lanes.runs import Counts, End, Head
from tests.golden.golden import check
from tests.golden.stage import items_in
from tests.support.operating import TABLE, create_table

NOW = 1_800_000_000.0
WHO = "arn:aws:sts::1:assumed-role/ops/alice"
OVERRIDE = Override(
    id="o", action=Action.CANCEL, wanted=MessageFilter(ids=("unwanted",)), created_at=NOW, expires_at=NOW + 60,
    who=WHO, why="as asked",
)  # fmt: skip
FAILED = Entry(
    lane="MAIN", message_id="failed", attempts=3, yields=40, returns=5, ending=Ending.FAILED, noted_receive=49,
    suspect=True, last_error="ValueError: wrong", given_up="not wanted", noted_at=NOW, first_received_at=NOW - 9,
    unknown_since=NOW - 5, away_since=NOW - 6, blocking=Blocking(group="g", kind="k", id="i", since=NOW - 7),
    park=Park.REST, parked_until=NOW + 30, batch="request-1",
)  # fmt: skip
CANCELLED = Cancelled(
    lane="MAIN", message_id="unwanted", id="i", kind="k", group="g", source="shop", sent_at=NOW, receive_count=1,
    cancelled_at=NOW, override="o", who=WHO, why="as asked",
)  # fmt: skip
CHANGE = AuditEntry(
    id="change", at=NOW, who=WHO, action="pause", target="MAIN", details={"mapping": "m-1"}, outcome="done"
)


@pytest.fixture
def client():
    """A client of an account with the table."""
    with mock_aws():
        create_table()
        yield boto3.client("dynamodb")


def test_items(client):
    """Each as its own part writes it."""
    place, timed = (
        {"table": TABLE, "client": client},
        {"table": TABLE, "client": client, "clock": lambda: NOW},
    )
    ledger, overrides, runs = DynamoDBLedger(**timed), DynamoDBOverrides(**timed), DynamoDBRuns(**timed)
    ledger.note([FAILED, Entry(lane="MAIN", message_id="empty")])
    for effect in ("shop#k#begun", "shop#k#done", "long" * 300):
        ledger.begin_effect(effect, owner="m/1", now=NOW, until=NOW + 33)
    ledger.finish_effect("shop#k#done", owner="m/1", lane="MAIN", now=NOW, keep_until=NOW + 86_400)
    overrides.add(OVERRIDE)
    overrides.redirect(GroupRedirect(lane="MAIN", group="g", overrides=("o",), expires_at=NOW + 60))
    overrides.cancelled(CANCELLED)
    present = Presence(environment="e", lane="MAIN", records=3, busy=True, until=NOW + 33, tenant="t")
    DynamoDBSlots(**place).publish(present, now=NOW, parked_until={"MAIN": NOW + 30})
    DynamoDBPauses(**place).pause("MAIN")
    DynamoDBAuditTrail(table=TABLE, client=client, sts=None).write(CHANGE)
    RedriveRecords(**timed).add("MAIN", ["m"])
    head = runs.open_run(
        Head(name="r", chunks=3, key="0123456789abcdef", on_complete="over", source="shop", priority=60)
    )
    runs.fix_members("r", total=1, members="digest")
    runs.seal_chunk(head.mark, 0, frozenset({b"12345678"}))
    runs.sealed("r")
    runs.add_end(head.mark, 0, End.DONE, b"12345678")
    runs.add_child(head.mark, 1, 0, 2, Counts())
    runs.end_run(head.mark, Counts())
    runs.announced("r")

    check("items", items_in(client, TABLE))
