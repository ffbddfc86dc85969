"""How messages end, and which problems the log has, while calls to AWS fail: one operation at a time."""

import itertools

import pytest
from moto import mock_aws

from tests.golden.golden import check
from tests.golden.stage import Stage

OPERATIONS = (
    "BatchGetItem",
    "BatchWriteItem",
    "ChangeMessageVisibilityBatch",
    "DeleteItem",
    "DeleteMessage",
    "GetItem",
    "GetQueueAttributes",
    "PutItem",
    "Query",
    "SendMessage",
    "TransactWriteItems",
    "UpdateItem",
)
SENT = {
    "good": ("a",),
    "fails": ("b", "fail"),
    "unwanted": ("c", "dead"),
    "cancelled": ("d",),
    "moved": ("e",),
    "held": ("f", "dead"),
    "behind": ("f",),
}
ENDS = {
    "message_handled": "handled",
    "message_dead_lettered": "dead-lettered",
    "message_cancelled": "cancelled",
    "message_moved": "moved",
    "duplicate_skipped": "skipped",
}
OWN_FIELDS = {"lane", "message_id", "records", "trace_id"}


@pytest.fixture(autouse=True)
def _aws():
    """Start with an empty account."""
    with mock_aws():
        yield


@pytest.mark.parametrize(
    ("name", "consumer"),
    [
        ("two_slots", {"reserved_concurrency": 2, "idempotency": True}),
        ("overrides", {"on_dead_letter": {"work.held": "hold"}}),
    ],
)
def test_one_operation_fails_in_every_other_invocation(name, consumer):
    """Each message ends all the same: handled, cancelled, moved or in the dead-letter queue."""
    check(f"faults_{name}", {operation: _outcome(operation, consumer) for operation in OPERATIONS})


def _outcome(operation, consumer):
    """Return how each message ended, and the problems with their fields."""
    lanes = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN"}]
    raw = {"lanes": lanes, "consumer": {"max_attempts": 2, **consumer}}
    stage = Stage(raw, environments=2, name=operation)
    for name, (group, *does) in SENT.items():
        stage.send("MAIN", name, *does, group=group, kind="work.held" if group == "f" else "work")
    if "on_dead_letter" in consumer:
        stage.override("cancel", id="override-1", ids=("cancelled",))
        stage.override("prioritize", id="override-2", priority=50, ids=("moved",))
    stage.during["good"] = lambda: _urgent(stage)
    numbers = itertools.count()
    while not stage.is_empty():
        number = next(numbers)
        lane = "HIGH" if number % 3 == 1 else "MAIN"
        stage.fail(*([operation] if number % 2 == 0 else []))
        stage.advance(0 if lane == "HIGH" else 200)
        if messages := stage.receive(lane):
            stage.step(lane, lane, messages=messages, environment=1 + number // 2 % 2)
    return _summary([line for step in stage.steps for line in step["log"]])


def _summary(lines):
    ends = {}
    for line in lines:
        if line["event"] in ENDS:
            ends.setdefault(line["id"], []).append(ENDS[line["event"]])
    problems = {line["event"]: sorted(OWN_FIELDS & line.keys()) for line in lines if line["level"] != "INFO"}
    return {"ends": {name: ", ".join(end) for name, end in ends.items()}, "problems": problems}


def _urgent(stage):
    stage.send("HIGH", "urgent", group="u")
    stage.advance(1)
