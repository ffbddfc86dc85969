"""C4: a call that fails for a day dead-letters no message by itself: back-off grows with the receives."""

import pytest

from lanes.testing.table import OVERRIDES_READ
from tests.support.memory import aws_error, consumer_of
from tests.support.overriding import Overridden

# A thousand invocations each.
pytestmark = pytest.mark.deep

DAY = 86_400.0
NATIVE = 1000
WRITES = ("PutItem", "BatchWriteItem")
TABLE = (*WRITES, "BatchGetItem", "UpdateItem", "TransactWriteItems", "DeleteItem", "Query", OVERRIDES_READ)
IDEMPOTENT = {"consumer": {"idempotency": True}}
OUTAGES = {
    "ledger read": (("BatchGetItem",), {}),
    "ledger written": (WRITES, {}),
    "counts": (("GetQueueAttributes",), {}),
    "visibility": (("ChangeMessageVisibilityBatch",), {}),
    "dead letters sent": (("SendMessage",), {}),
    "overrides": ((OVERRIDES_READ,), {}),
    "effects": (("UpdateItem",), IDEMPOTENT),
    "table": (TABLE, IDEMPOTENT),
}
IN_TABLE = ("ledger read", "ledger written", "effects")
"""Outages that `table` has as well."""


def outage(calls, raw, *, engine, fates, cancelled=False):
    """Let calls fail for a day while messages with these fates are in the lanes, then drain the lanes."""
    consumer = {**consumer_of(engine), **raw.get("consumer", {})}
    scenario = Overridden({"consumer": consumer}, native=NATIVE, engine=engine)
    world, ends_at = scenario.world, scenario.world.clock.now + DAY
    for lane in ("HIGH", "MAIN"):
        for fate in fates:
            scenario.send(lane, f"{lane}-{fate}", *fate.split("-"), group=f"{lane}-{fate}")
    if cancelled:
        scenario.put("cancel", group="MAIN-ok", after=0)
    world.calls.break_if = lambda operation, _position: (
        aws_error() if operation in calls and world.clock.now < ends_at else None
    )
    scenario.drain(most_steps=1_000_000)
    return scenario


def letters_of_sqs(scenario):
    """Return the number of messages that SQS itself dead-lettered, without a reason."""
    queues = scenario.world.queues
    return sum(queue.counts().visible for queue in queues.dead.values()) - len(queues.notes)


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=pytest.mark.nightly if what in IN_TABLE else ()) for what in OUTAGES]
)
def test_an_outage_of_a_day_dead_letters_nothing(engine, what):
    """Every message is handled afterwards, or dead-lettered by the consumer with its reason."""
    calls, raw = OUTAGES[what]

    scenario = outage(calls, raw, engine=engine, fates=("ok", "fail-ok", "crash-ok", "dead"))

    assert letters_of_sqs(scenario) == 0
    assert set(scenario.dead()) <= {"HIGH-dead", "MAIN-dead"}
    scenario.check_kept()


def test_a_message_that_can_not_be_cancelled_for_a_day_is_cancelled_then(engine):
    """The record of its cancellation is written first."""
    scenario = outage(WRITES, {}, engine=engine, fates=("ok",), cancelled=True)

    assert letters_of_sqs(scenario) == 0
    assert (scenario.done, scenario.cancelled()) == (["HIGH-ok"], ["MAIN-ok"])
