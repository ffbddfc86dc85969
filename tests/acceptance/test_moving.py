"""`lanes prioritize`, `lanes cancel` and `lanes overrides` as an operator types them."""

import pytest
import sqlalchemy as sa

from lanes.aws.overrides import OVERRIDE, OVERRIDES_KEY, DynamoDBOverrides
from lanes.outbox import SqlOutbox
from lanes.overrides import Cancelled
from tests.support.operating import drain


@pytest.fixture
def overrides(client, deployment):
    """The overrides, none active."""
    client("dynamodb").delete_item(TableName=deployment.table, Key={"pk": {"S": "overrides"}})
    return DynamoDBOverrides(table=deployment.table, client=client("dynamodb"))


@pytest.fixture
def empty_queues(client, deployment):
    """Take away what other tests left."""
    for queues in deployment.queues.values():
        drain(client("sqs"), queues.url)


@pytest.fixture
def database(tmp_path, typed):
    """An outbox in SQLite with two entries."""
    address = f"sqlite:///{tmp_path / 'app.db'}"
    assert typed("outbox", "--database", address, "setup").returncode == 0
    engine, outbox = sa.create_engine(address), SqlOutbox()
    with engine.begin() as connection:
        outbox.add(connection, "mail.sent", {"n": 1}, id="e1", priority=-100)
        outbox.add(connection, "order.placed", {"n": 1}, id="e2", priority=-100)
    engine.dispose()
    return address


def send(typed, lane_priority, name, kind="mail.sent"):
    """Send one message."""
    sent = typed("send", kind, "null", "--priority", str(lane_priority), "--id", name)
    assert sent.returncode == 0, sent.stderr


def entries(typed, database):
    """Give state and priority of the outbox's entries by id."""
    rows = typed.json("outbox", "--database", database, "list", "--state", "PENDING", "--state", "CANCELLED")
    return {row["id"]: (row["state"], row["priority"]) for row in rows}


@pytest.mark.usefixtures("empty_queues")
def test_one_command_changes_the_outbox_at_once_and_asks_the_consumer_for_the_rest(
    lanes, typed, overrides, database, request
):
    """It says what it did where, and leaves an entry in the audit trail."""
    for number in range(3):
        send(typed, -100, f"{request.node.name}-{number}"[-60:])

    done = lanes.json(
        "prioritize", "60", "--kind", "mail.*", "--database", database, "--why", "late", "--yes"
    )

    assert (done["entries_found"], done["entries_changed"], done["messages_waiting"]) == (1, 1, 3)
    assert entries(typed, database) == {"e1": ("PENDING", 60), "e2": ("PENDING", -100)}
    (override,) = overrides.active().overrides
    assert (override.id, override.action, override.priority, override.why) == (
        done["override"],
        "prioritize",
        60,
        "late",
    )
    assert override.wanted.kind == "mail.*"
    (audit,) = typed.json("audit", "--limit", "1")
    assert (audit["action"], audit["outcome"]) == ("prioritize", "done")


def test_cancelling_says_so_for_both(typed, overrides, database):
    """The entry is cancelled, the override stands."""
    done = typed.json("cancel", "--id", "e1", "--database", database, "--yes")

    assert done["entries_changed"] == 1
    assert entries(typed, database)["e1"][0] == "CANCELLED"
    assert [one.wanted.ids for one in overrides.active().overrides] == [("e1",)]


@pytest.mark.parametrize("place", ["both", "outbox"])
@pytest.mark.parametrize("verb", [("prioritize", "60"), ("cancel",)])
def test_a_dry_run_changes_nothing(typed, overrides, database, verb, place):
    """It counts, wherever it looks."""
    done = typed.json(*verb, "--all", "--in", place, "--database", database, "--dry-run")

    assert (done["entries_found"], done["entries_changed"], done["override"]) == (2, 0, None)
    assert overrides.active().overrides == ()
    assert entries(typed, database)["e1"] == ("PENDING", -100)


@pytest.mark.parametrize("place", ["lanes", "outbox"])
def test_in_limits_the_change_to_the_lanes_or_to_the_outbox(typed, overrides, database, place):
    """The other place is neither looked at nor changed."""
    done = typed.json("cancel", "--id", "e2", "--in", place, "--database", database, "--yes")

    assert (done["override"] is None, done["messages_waiting"] is None) == (place == "outbox",) * 2
    assert (done["entries_found"] is None) == (place == "lanes")
    assert entries(typed, database)["e2"][0] == ("CANCELLED" if place == "outbox" else "PENDING")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("cancel", "--yes"), "--all"),
        (("cancel", "--exact", "--yes"), "--all"),
        (("prioritize", "60", "--exact", "--yes"), "--all"),
        (("cancel", "--id", "", "--yes"), "for --id: it has an empty value"),
        (("overrides", "withdraw", ""), "for an argument of withdraw: it has an empty value"),
        (("cancel", "--id", "x", "--in", "queue"), "'lanes', 'outbox', 'both'"),
        (("cancel", "--id", "x", "--in", "outbox", "--why", "late"), "an outbox records no reason"),
        (("cancel", "--id", "x"), "standard input is not a terminal"),
        (("overrides", "withdraw", "nothing"), "no override 'nothing' is active"),
    ],
)
def test_what_cannot_be_meant_is_refused(typed, overrides, arguments, said):
    """Before anything changes."""
    done = typed(*arguments)

    assert done.returncode != 0
    assert said in " ".join(done.stderr.replace("│", " ").split())
    assert overrides.active().overrides == ()


def test_overrides_are_listed_and_withdrawn(lanes, typed, overrides):
    """A withdrawal can be looked at first."""
    name = typed.json("prioritize", "--group", "acme", "--exact", "--yes", "--", "-50")["override"]

    (row,) = lanes.json("overrides", "list")
    wanted = {"group": "acme", "exact": True}
    assert (row["override"], row["filter"], row["priority"]) == (name, wanted, -50)
    assert not typed.json("overrides", "withdraw", name, "--dry-run")["withdrawn"]
    assert typed.json("overrides", "withdraw", name)["withdrawn"]
    assert typed.json("overrides", "list") == []


def test_cancelled_messages_are_listed(typed, overrides):
    """Which, by whom and why."""
    now = overrides.now()
    overrides.cancelled(
        Cancelled(
            lane="MAIN",
            message_id="m",
            id="i",
            kind="k",
            group="g",
            source="s",
            sent_at=now,
            receive_count=1,
            cancelled_at=now,
            override="o",
            who="arn:ops",
            why="asked",
        )
    )

    (row,) = typed.json("overrides", "cancelled", "--limit", "1")
    assert (row["id"], row["override"], row["who"], row["why"]) == ("i", "o", "arn:ops", "asked")


def test_a_priority_may_be_given_by_its_name(typed):
    """As for a message that is sent."""
    asked = typed("prioritize", "high", "--from-priority", "bulk", "--to-priority", "NORMAL", "--dry-run")

    assert asked.returncode == 0, asked.stderr
    assert "priority >= -100, priority <= 0" in asked.stderr
    assert "HIGH" not in asked.stderr.partition("waiting in ")[2]


def test_an_override_of_another_release_is_named_and_can_be_withdrawn(typed, client, deployment):
    """It can't be read, and nobody else would know what to withdraw."""
    client("dynamodb").update_item(
        TableName=deployment.table,
        Key=OVERRIDES_KEY,
        UpdateExpression="SET #new = :new",
        ExpressionAttributeNames={"#new": f"{OVERRIDE}newer"},
        ExpressionAttributeValues={":new": {"S": "{}"}},
    )

    assert "`lanes overrides withdraw newer`" in typed("overrides", "list").stderr
    assert typed.json("overrides", "withdraw", "newer")["withdrawn"]
    assert "newer" not in typed("overrides", "list").stderr
