"""
Every reader gets the next version of its format: unknown fields, unknown values, values of another type.

The page docs/reference/formats.md describes the treatment of each.
"""

import copy
import json

import pytest

from lanes.aws.audit import DynamoDBAuditTrail, RedriveRecords
from lanes.aws.ledger import DynamoDBLedger
from lanes.aws.overrides import DynamoDBOverrides
from lanes.aws.slots import DynamoDBPauses, DynamoDBSlots
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from lanes.consumer.engines.presence import Presence
from lanes.consumer.ledger import Blocking, Effect, Ending, Entry, Park
from lanes.errors import ConfigurationError
from lanes.message import Message
from lanes.message_filter import MessageFilter
from lanes.operate.audit import AuditEntry
from lanes.operate.descriptions import describe
from lanes.operate.log import EventFilter, LogLine, read_event
from lanes.outbox.dynamodb.table import entry_of as outbox_entry_of
from lanes.outbox.dynamodb.table import item_of as outbox_item_of
from lanes.outbox.entry import Entry as OutboxEntry
from lanes.overrides import Action, Cancelled, GroupRedirect, Override
from tests.support.operating import TABLE
from tests.support.scenario import Scenario

NOW = 1_800_000_000.0
ANOTHER = {"M": {"form": {"S": "of a later release"}}}
UNKNOWN = {"format": {"N": "2"}, "shard": {"S": "7"}, "steps": {"L": [{"S": "one"}]}}

# Attributes that no later release may give another meaning: they are the table's keys.
KEYS = {"pk", "parked_lane", "parked_until"}


@pytest.fixture
def ledger(dynamodb):
    """Return the ledger of this release."""
    return DynamoDBLedger(table=TABLE, client=dynamodb, clock=lambda: NOW)


def rewrite(dynamodb, change):
    """Replace every item by a later release's."""
    for item in dynamodb.scan(TableName=TABLE)["Items"]:
        dynamodb.put_item(TableName=TABLE, Item={**change(copy.deepcopy(item)), **UNKNOWN})


def with_other_types(item):
    """Give each attribute a form that this release can't read; the end of its life it does not have any more."""
    return {name: value if name in KEYS else ANOTHER for name, value in item.items() if name != "expires_at"}


def with_unknown_fields(item):
    """Add fields within the attributes of presence; `rewrite` adds those of the item."""
    return {name: {"M": {**value["M"], **UNKNOWN}} if "M" in value else value for name, value in item.items()}


ENTRY = Entry(
    lane="MAIN",
    message_id="m#1",
    attempts=2,
    yields=7,
    ending=Ending.FAILED,
    noted_receive=9,
    last_error="ValueError: too bad",
    noted_at=NOW,
    first_received_at=NOW - 60,
    blocking=Blocking(group="g", kind="k", id="i", since=NOW),
    park=Park.YIELD,
    parked_until=NOW + 5,
    batch="request-1",
    receipt_handle="receipt",
)
OVERRIDE = Override(
    id="one",
    action=Action.CANCEL,
    wanted=MessageFilter(kind="mail.*"),
    created_at=NOW,
    expires_at=NOW + 3600,
    who="arn",
    why="spam",
)
REDIRECT = GroupRedirect(lane="MAIN", group="a#b", overrides=("one",), expires_at=NOW + 3600)
CANCELLED = Cancelled(
    lane="MAIN",
    message_id="m1",
    id="order-1",
    kind="mail",
    group="g",
    source="shop",
    sent_at=NOW,
    receive_count=1,
    cancelled_at=NOW,
    override="one",
    who="arn",
    why="spam",
)
AUDIT = AuditEntry(id="one", at=NOW, who="arn", action="pause", target="MAIN", details={"why": "load"})


def presence(environment="old"):
    return Presence(environment=environment, lane="MAIN", records=3, busy=True, until=NOW + 30, tenant="acme")


class Table:
    """Everything that the consumer's table holds, with each reader of it."""

    def __init__(self, dynamodb):
        where = {"table": TABLE, "client": dynamodb}
        self.ledger = DynamoDBLedger(**where, clock=lambda: NOW)
        self.slots = DynamoDBSlots(**where)
        self.overrides = DynamoDBOverrides(**where, clock=lambda: NOW)
        self.audits = DynamoDBAuditTrail(**where, sts=None)
        self.redrives = RedriveRecords(**where, clock=lambda: NOW)
        self.pauses = DynamoDBPauses(**where)

    def fill(self):
        """Write one of each."""
        self.ledger.note([ENTRY])
        self.ledger.finish_effect("shop/1", owner="m1/1", lane="MAIN", now=NOW, keep_until=NOW + 3600)
        self.slots.publish(presence(), now=NOW, parked_until={"MAIN": NOW + 5})
        self.overrides.add(OVERRIDE)
        self.overrides.redirect(REDIRECT)
        self.overrides.cancelled(CANCELLED)
        self.audits.write(AUDIT)
        self.redrives.add("MAIN", ["letter#1"])
        self.pauses.pause("MAIN")

    def read(self):
        """Return the findings of each reader."""
        return {
            "entries": self.ledger.read("MAIN", ["m#1"]),
            "parked": list(self.ledger.parked("MAIN", after=NOW)),
            "effect": self.ledger.begin_effect("shop/1", owner="m2/1", now=NOW, until=NOW + 30),
            "presence": self.slots.read("mine"),
            "active": self.overrides.active(),
            "redirects": self.overrides.redirects("MAIN", ["a#b"]),
            "cancelled": self.overrides.cancellations(since=0, limit=10),
            "audits": self.audits.entries(since=0, limit=10),
            "copied": self.redrives.copied("MAIN", ["letter#1", "another"]),
            "paused": self.pauses.paused(),
        }


def test_every_reader_of_the_table_ignores_unknown_fields(dynamodb):
    """They find exactly the same."""
    table = Table(dynamodb)
    table.fill()
    before = table.read()

    rewrite(dynamodb, with_unknown_fields)

    assert table.read() == before
    assert before["entries"] == {"m#1": ENTRY}
    assert before["active"].overrides == (OVERRIDE,)


def test_no_reader_of_the_table_fails_for_values_of_another_form(dynamodb):
    """One unreadable item must not stop a batch or a command, and on doubt the safe answer counts."""
    table = Table(dynamodb)
    table.fill()

    rewrite(dynamodb, with_other_types)
    found = table.read()

    empty = Blocking(group="", kind="", id="", since=0.0)
    assert found["entries"]["m#1"] == Entry(
        lane="MAIN", message_id="m#1", blocking=empty, parked_until=NOW + 5
    )
    assert [entry.message_id for entry in found["parked"]] == ["m#1"]
    # Done for good: handled again it might have two effects.
    assert found["effect"].effect is Effect.DONE
    assert [peer.until for peer in found["presence"].peers] == [0.0]
    # Followed: a message that passed might overtake its group.
    assert "a#b" in found["redirects"]
    assert found["active"].unread == ("one",)
    assert [one.message_id for one in found["cancelled"]] == ["m1"]
    assert [one.id for one in found["audits"]] == ["one"]
    assert found["copied"] == {"letter#1"}


@pytest.mark.parametrize(("name", "value"), [("ending", "suspended"), ("park", "siesta")])
def test_an_unknown_value_of_an_entry_keeps_its_other_fields(dynamodb, ledger, name, value):
    """The count of attempts above all; an unknown park is left to end by itself."""
    ledger.note([ENTRY])
    rewrite(dynamodb, lambda item: {**item, name: {"S": value}})

    (entry,) = ledger.read("MAIN", ["m#1"]).values()

    assert (entry.attempts, entry.yields, entry.noted_receive) == (2, 7, 9)
    assert entry.ending is (Ending.NONE if name == "ending" else Ending.FAILED)
    assert entry.park is (Park.REST if name == "park" else Park.YIELD)


def test_a_living_presence_record_of_another_form_stays(dynamodb):
    """A later release wrote it, and its peers of that release need it; an old one of this release leaves."""
    slots = DynamoDBSlots(table=TABLE, client=dynamodb)
    slots.publish(presence("later"), now=NOW, parked_until={})
    rewrite(dynamodb, with_other_types)
    slots.publish(presence("gone"), now=NOW, parked_until={})

    for _ in range(2):
        slots.publish(presence("mine"), now=NOW + 3600, parked_until={})

    assert [peer.environment for peer in slots.read("mine").peers] == ["later"]


@pytest.mark.parametrize("idempotency", [False, True])
@pytest.mark.parametrize("ending", ["suspended", "later", ""])
def test_a_message_with_an_unknown_ending_is_handled_once_and_keeps_its_count(dynamodb, ending, idempotency):
    """Neither lost nor handled twice, and no failing batch: its next attempt is the third and last."""
    scenario = Scenario({"consumer": {"max_attempts": 3, "idempotency": idempotency}}, engine="mappings")
    scenario.world.ledger = DynamoDBLedger(table=TABLE, client=dynamodb, clock=scenario.world.clock)
    scenario.send("MAIN", "poor", "fail", group="one")
    scenario.send("MAIN", "good", "fail", "ok", group="two")
    for _ in range(2):
        scenario.environments = [scenario._new_environment()]
        scenario.step("MAIN")
        scenario.world.clock.advance(600)
        rewrite(dynamodb, lambda item: {**item, "ending": {"S": ending}} if "ending" in item else item)

    scenario.environments = [scenario._new_environment()]
    scenario.drain()

    assert [start.attempt for start in scenario.starts if start.id == "poor"] == [1, 2, 3]
    assert scenario.done == ["good"]
    assert set(scenario.dead()) == {"poor"}
    assert {name for name, _ in scenario.world.recorder.problems} == {"handler_failed"}


def deployment():
    """Return a document of this release."""
    config = LanesConfig.from_dict({"consumer": {"reserved_concurrency": 3}, "outbox": {"batch": 7}})
    queues = {lane.name: LaneQueues(url=f"u/{lane.name}", dead_letter_url="d") for lane in config.lanes}
    return Deployment(config=config, queues=queues, table="ledger")


def later(change):
    """Return the text of the document after a change."""
    document = json.loads(deployment().to_json())
    change(document)
    return json.dumps(document)


def test_a_deployment_document_is_read_without_what_is_unknown():
    """A producer or an operator of this release works on with the lanes that a later one deployed."""

    def change(document):
        document["region"] = "eu-central-1"
        document["config"]["mesh"] = {"on": True}
        document["config"]["consumer"]["turbo"] = 3
        document["config"]["outbox"]["parts"] = 16
        for lane in document["config"]["lanes"]:
            lane["colour"] = "red"
        document["queues"]["AUDIT"] = {"url": "u/AUDIT"}
        document["queues"]["MAIN"]["region"] = "eu-west-1"

    assert Deployment.from_json(later(change)) == deployment()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda document: document.update(version=2),
            "version 2 is not supported, only 1; install the release",
        ),
        (
            lambda document: document["config"]["consumer"].update(engine="push"),
            "engine is the string 'push'",
        ),
        (lambda document: document["config"]["lanes"][0].update(threshold="high"), "threshold is the string"),
        (lambda document: document["queues"].pop("MAIN"), "MAIN has no url"),
    ],
)
def test_a_deployment_document_that_could_be_misread_is_refused(change, problem):
    """Known settings with unknown values decide where messages go: a clear error comes before any call."""
    with pytest.raises(ConfigurationError, match=problem):
        Deployment.from_json(later(change))


def test_a_file_keeps_refusing_unknown_keys():
    """There they are mistakes."""
    with pytest.raises(ConfigurationError, match="unknown key 'turbo'"):
        LanesConfig.from_dict({"consumer": {"turbo": 3}})


@pytest.mark.parametrize(
    "fields",
    [
        {"event": "batch_teleported", "lane": "MAIN", "messages": [{"message_id": "m1", "kind": "x"}, "m2"]},
        {"event": "batch_teleported", "lane": "MAIN", "message_ids": ["m1"], "format": 2},
        {
            "event": "message_done",
            "lane": "MAIN",
            "message_id": "m1",
            "attempt": "first",
            "seconds": {"p": 1},
        },
        {
            "event": "message_failed",
            "lane": ["MAIN"],
            "message_id": "m1",
            "delay": "soon",
            "receive_count": "2",
        },
        {
            "event": "batch_yielded",
            "lane": "MAIN",
            "message_id": "m1",
            "to_lane": {"name": "HIGH"},
            "delay": {},
        },
    ],
)
def test_an_event_of_the_log_is_shown(fields):
    """Each line on its own: with the names of unknown events, and without the unreadable ones."""
    event = read_event(LogLine(id="1", at=NOW, text=json.dumps(fields)))

    assert [one.message_id for one in EventFilter().select(event)] == ["m1"]
    label, reason = describe(event.name, event.fields)
    assert label
    assert isinstance(reason, str)


def test_a_message_is_read_without_unknown_attributes():
    """A sender of any language may add extension attributes; another version of CloudEvents is refused."""
    message = Message(kind="order.placed", data={"id": 1}, group="g", priority=50)
    event = json.loads(message.to_body())

    assert Message.from_body(json.dumps({**event, "tier": "gold", "shard": 7}), group="g") == message


def test_an_entry_of_the_outbox_is_read_without_unknown_attributes():
    """Also with a state of a later release, which a relay writes anew when it locks the entry."""
    entry = OutboxEntry(
        id="1",
        kind="k",
        source="s",
        group="g",
        body="{}",
        priority=5,
        lane="MAIN",
        position=7,
        created_at=7e-6,
        changed_at=7e-6,
    )
    item = {**outbox_item_of(entry), **UNKNOWN}

    assert outbox_entry_of(item) == entry
    assert outbox_entry_of({**item, "state": {"S": "RESTING"}}).id == "1"
