"""
The outer forms of the consumer: answers, log lines, metrics, visibilities, messages sent, and items of its table.

Each scene is one golden file under `data`. Renew them on purpose with `RENEW_GOLDEN=1 pytest tests/golden`.
"""

import pytest
from moto import mock_aws

from lanes.aws.table.audit import DynamoDBAuditTrail, RedriveRecords
from lanes.operate.history.audit import AuditEntry
from tests.golden.golden import check
from tests.golden.stage import TABLE, Stage

TWO_LANES = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN"}]


@pytest.fixture(autouse=True)
def _aws():
    """Start with an empty account."""
    with mock_aws():
        yield


def test_outcomes_of_records():
    """Handled, failed, retried, given up, returned behind its group, no event, and of an unknown kind."""
    stage = Stage({"consumer": {"max_attempts": 2}})
    stage.send("HIGH", "good", group="a")
    stage.send("HIGH", "fails-once", "fail", group="b")
    stage.send("HIGH", "behind", group="b")
    stage.send("HIGH", "retries", "retry", group="c")
    stage.send("HIGH", "unwanted", "dead", group="d")
    stage.send("HIGH", "exhausted", "fail", "fail", group="e")
    stage.send("HIGH", "unknown", group="f", kind="nobody.knows")
    stage.send_body("HIGH", '{"specversion": "1.0", "id": "no-kind"}', group="h")
    stage.send_body("HIGH", "no event", group="i")
    stage.step("each outcome once", "HIGH")
    stage.advance(60)
    stage.step("what failed comes again, and what was behind it", "HIGH")

    check("outcomes", stage.steps)


def test_yield_and_wake():
    """A batch yields between its records and in mid-work; it is woken when the higher lane is empty."""
    stage = Stage({"lanes": TWO_LANES})
    stage.send("MAIN", "first", group="a")
    stage.send("MAIN", "second", "checkpoint", group="b")
    stage.send("MAIN", "third", group="c")
    stage.during["first"] = lambda: _sent_unnoticed(stage, "HIGH", "urgent-1", group="u")
    stage.step("the higher lane gets a message while the first record is handled", "MAIN")
    stage.step("the higher lane is served, and the rest is woken", "HIGH")
    stage.during["second"] = lambda: _sent_unnoticed(stage, "HIGH", "urgent-2", group="u")
    stage.step("a checkpoint yields in mid-work", "MAIN")
    stage.step(
        "yields without a record begun", "MAIN", messages=_sent_now(stage, "MAIN", "fourth", group="d")
    )
    stage.step("the higher lane is served again", "HIGH")
    stage.step("the rest is handled", "MAIN")

    check("yield_and_wake", stage.steps)


def _sent_unnoticed(stage, lane, id, *, group):
    stage.send(lane, id, group=group)
    stage.advance(1)  # longer than the backlog of the higher lanes is remembered


def _sent_now(stage, lane, id, *, group):
    stage.send(lane, id, group=group)
    return stage.receive(lane)


def test_yield_and_wake_with_several_slots():
    """With several slots each environment publishes its status, and parked records are known to all."""
    lanes = [{"name": "HIGH", "threshold": 50, "batch_size": 2}, {"name": "MAIN"}]
    stage = Stage({"lanes": lanes, "consumer": {"reserved_concurrency": 2}}, environments=2)
    stage.send("MAIN", "first", group="a")
    stage.send("MAIN", "second", group="b")
    stage.send("MAIN", "third", group="c")

    def urgent():
        for number in range(5):
            stage.send("HIGH", f"urgent-{number}", group=f"u{number}")
        stage.step("the other environment takes a batch of the higher lane", "HIGH", environment=2)

    stage.during["first"] = urgent
    stage.step("the rest yields", "MAIN")
    stage.step("the higher lane is served", "HIGH", environment=2)
    stage.advance(1)
    stage.step("the higher lane is empty, and the rest is woken", "HIGH")
    stage.step("the rest is handled", "MAIN", environment=2)
    check("several_slots", stage.steps)


def test_idempotency():
    """An effect is begun and done; a repeat is skipped, and one that runs elsewhere is waited for."""
    stage = Stage({"consumer": {"idempotency": True, "max_attempts": 2}}, environments=2)
    stage.send("HIGH", "once", group="a")
    stage.during["once"] = lambda: stage.note("while the handler runs")
    stage.step("handled", "HIGH")
    stage.advance(600)
    stage.send("HIGH", "once", group="a")
    stage.step("the duplicate is skipped", "HIGH")
    stage.send("HIGH", "both", group="b")

    def again():
        stage.send("HIGH", "both", group="c")
        stage.step("a second delivery of the id meanwhile", "HIGH", environment=2)

    stage.advance(600)
    stage.during["both"] = again
    stage.step("handled once", "HIGH")
    stage.send("HIGH", "fails", "fail", "fail", group="d")
    stage.step("the first attempt fails", "HIGH")
    stage.advance(60)
    stage.step("and the second, which is the last", "HIGH")

    check("idempotency", stage.steps)


def test_a_suspect_message():
    """A receive without an explanation makes a message suspect: its attempts are written down before they begin."""
    stage = Stage()
    stage.send("HIGH", "crashes", "succeed", "fail", group="a")
    stage.receive("HIGH")
    stage.advance(200)
    stage.during["crashes"] = lambda: stage.note("while the handler runs")
    stage.step("its receive is unexplained", "HIGH")
    stage.send("HIGH", "fails", "fail", group="b")
    stage.receive("HIGH")
    stage.advance(200)
    stage.step("a suspect message fails", "HIGH")

    check("suspect", stage.steps)


def test_failed_calls():
    """What is logged and written when AWS fails: a dead letter that can't be sent, entries that can't be read."""
    stage = Stage({"consumer": {"max_attempts": 1}})
    stage.send("HIGH", "unwanted", "dead", group="a")
    stage.fail("SendMessage")
    stage.step("the dead letter can't be sent", "HIGH")
    stage.fail()
    stage.advance(200)
    stage.step("it is sent later, without another attempt", "HIGH")
    stage.send("MAIN", "waits", group="b")
    stage.fail("GetQueueAttributes")
    stage.step("the backlog of the higher lanes is unknown", "MAIN")
    stage.advance(60)
    stage.fail("BatchGetItem", "GetItem")
    stage.step("the overrides can't be read", "MAIN")
    stage.fail()
    stage.advance(60)
    stage.step("handled in the end", "MAIN")
    stage.send("HIGH", "late-1", group="c")
    stage.send("HIGH", "late-2", group="d")
    stage.step("too little time for the second record", "HIGH", seconds=1.4)

    check("failed_calls", stage.steps)


def test_overrides():
    """Cancelled, moved to another lane with the rest of its group, and an override that can't be read."""
    stage = Stage({"lanes": TWO_LANES})
    stage.send("MAIN", "unwanted", group="a")
    stage.send("MAIN", "wanted", group="b")
    stage.send("MAIN", "follows", group="b")
    stage.send("MAIN", "stays", group="c")
    stage.override("cancel", id="override-1", ids=("unwanted",))
    stage.override("prioritize", id="override-2", priority=50, ids=("wanted",))
    _break_an_override(stage)
    stage.note("two overrides and one of another release")
    stage.step("cancelled and moved", "MAIN")
    stage.step("handled in the higher lane", "HIGH")
    stage.step("and the rest", "MAIN")

    check("overrides", stage.steps)


def _break_an_override(stage):
    stage.dynamodb.update_item(
        TableName=TABLE,
        Key={"pk": {"S": "overrides"}},
        UpdateExpression="SET #one = :one",
        ExpressionAttributeNames={"#one": "override#override-3"},
        ExpressionAttributeValues={":one": {"S": "{}"}},
    )


def test_a_held_group():
    """A dead letter holds its group; redriven messages pass, and the hold ends with the last of them."""
    stage = Stage({"consumer": {"max_attempts": 1, "on_dead_letter": {"work.held": "hold"}}})
    stage.send("HIGH", "leader", "fail", group="a", kind="work.held")
    stage.send("HIGH", "follower", group="a", kind="work.held")
    stage.step("the group is held, and its dead letter waits until all know", "HIGH")
    stage.advance(10)
    stage.step("both are dead-lettered", "HIGH")
    stage.holds.open("HIGH", "a", opening="a1")
    stage.holds.sending("HIGH", "a", copy="redrive-a1-1-sqs-1", opening="a1")
    stage.note("a redrive lets copies pass")
    (hold,) = stage.holds.held("HIGH")
    stage.holds.let_go(hold)
    stage.note("no dead letter is left")
    stage.send("HIGH", "later", group="a", kind="work.held")
    stage.step("a later message is sent behind the copies", "HIGH")
    stage.step("it is handled there", "HIGH")
    stage.note("and ends the hold")

    check("held_group", stage.steps)


def test_the_reserve():
    """An overdue record is served although a higher lane waits."""
    lanes = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "max_wait": 60}]
    stage = Stage({"lanes": lanes})
    stage.send("MAIN", "warms-up")
    stage.step("an environment saves its reserve up from its first batch on", "MAIN")
    stage.send("MAIN", "overdue", group="a")
    stage.send("MAIN", "overdue-too", group="b")
    stage.advance(120)
    stage.send("HIGH", "urgent", group="u")
    stage.receive("HIGH")  # by its mapping, which finds no slot
    stage.during["overdue"] = lambda: stage.advance(4)  # more than the reserve has
    stage.step("one is served from the reserve, the other yields", "MAIN")

    check("reserve", stage.steps)


def test_items_that_operators_write():
    """The audit trail, and notes of copied dead letters."""
    stage = Stage()
    DynamoDBAuditTrail(table=TABLE, client=stage.dynamodb, sts=None).write(
        AuditEntry(
            id="entry-1",
            at=stage.clock.now,
            who="arn:aws:sts::1:assumed-role/ops/alice",
            action="pause",
            target="MAIN",
            details={"mapping": "m-1"},
            outcome="done",
        )
    )
    RedriveRecords(table=TABLE, client=stage.dynamodb, clock=stage.clock).add("MAIN", ["sqs-7"])
    stage.note("a change and a copied dead letter")

    check("operators_items", stage.steps)
