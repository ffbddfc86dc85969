"""Reports of failed calls: the first of an outage, then one a minute with a count, wherever the call is made."""

from __future__ import annotations

from collections import Counter

import pytest

from lanes.consumer.telemetry import GuardedTelemetry, failed_call
from lanes.errors import AwsError
from lanes.events import Event
from lanes.testing.clock import FakeClock
from tests.support.memory import Recorder, aws_error
from tests.support.scenario import Scenario

MINUTES = 4
SHARE = {"lanes": [{"name": "HIGH", "threshold": 50, "tenant_share": 0.5}, {"name": "MAIN"}]}
IDEMPOTENT = {"consumer": {"idempotency": True}}
PULL = {
    "ledger written": (("PutItem", "BatchWriteItem"), {}),
    "received": (("ReceiveMessage",), {}),
    "deleted": (("DeleteMessageBatch",), {}),
    "visibility": (("ChangeMessageVisibilityBatch",), {}),
    "ring returned": (("ChangeMessageVisibility",), {}),
    "bell rung": (("SendMessageBatch",), {}),
    "dead letters sent": (("SendMessage",), {}),
    "effects": (("UpdateItem", "TransactWriteItems"), IDEMPOTENT),
    "tenants": (("UpdateItem",), SHARE),
    "everything": ((), SHARE),
}
MAPPED = {name: PULL[name] for name in ("ledger written", "visibility", "dead letters sent", "effects")}
MAPPED["ledger read"] = (("BatchGetItem",), {})
MAPPED["presence and counts"] = (("GetQueueAttributes", "PutItem", "Query"), {})
CASES = [("pull", name, *case) for name, case in PULL.items()]
CASES += [("mappings", name, *case) for name, case in MAPPED.items()]


@pytest.fixture
def clock():
    """Return a clock that stands still."""
    return FakeClock()


@pytest.fixture
def recorder():
    """Return the receiver of the reports."""
    return Recorder()


@pytest.fixture
def fail(recorder, clock):
    """Report a failed call."""
    guarded = GuardedTelemetry(recorder, clock)

    def report(problem=Event.LEDGER_NOT_READ, *, error=None, **fields):
        def call():
            raise error or aws_error()

        try:
            call()
        except Exception:  # noqa: BLE001 - as a boundary reports it
            failed_call(guarded, problem, **fields)

    return report


@pytest.mark.parametrize(
    ("engine", "calls", "raw"),
    [case[:1] + case[2:] for case in CASES],
    ids=["-".join(case[:2]) for case in CASES],
)
def test_an_outage_is_reported_once_a_minute(engine, calls, raw):
    """Whatever fails. Each failed call counts for the alarm, and each of the two processes reports for itself."""
    consumer = {"reserved_concurrency": 3, "max_attempts": 3, **raw.get("consumer", {})}
    scenario = Scenario({**raw, "consumer": consumer}, engine=engine, environments=2)
    world, number = scenario.world, 0
    ends_at = world.clock.now + MINUTES * 60
    world.calls.break_if = lambda name, _: aws_error(name) if not calls or name in calls else None
    while world.clock.now < ends_at:
        for lane in ("HIGH", "MAIN"):
            for part in "abc":
                does = ("ok", "fail", "dead", "check")[number % 4]
                scenario.send(lane, f"{lane}{number}{part}", does, group=f"{part}{number % 5}")
            # The second one knows no entries of the first.
            scenario.step(lane, environment=number % 2)
        number += 1
        world.clock.advance(5)

    failed = [(name, fields) for name, fields in world.recorder.problems if name != "handler_failed"]
    # The others name a receive that no other event has: each is reported, with one traceback.
    alike = [(name, fields) for name, fields in failed if "receive_count" not in fields]
    found = Counter((name, fields.get("lane"), fields.get("cause")) for name, fields in alike)
    firsts = Counter((name, fields.get("lane")) for name, fields in failed if "failures" not in fields)
    assert failed
    assert max(found.values(), default=0) <= 2 * (MINUTES + 1), found
    assert max(firsts.values()) <= 2, firsts
    assert world.recorder.counts["ConsumerCallErrors"] >= sum(found.values())


def test_the_next_lines_have_the_number_of_failures_and_the_last_reason(fail, recorder, clock):
    """The first has what the call was for."""
    for second in range(150):
        fail(lane="HIGH", message_id=f"m{second}")
        clock.advance(1)

    (_, first), (_, second), (_, third) = recorder.problems
    assert first == {"lane": "HIGH", "message_id": "m0"}
    assert (second["failures"], second["message_id"], third["failures"]) == (61, "m60", 121)
    assert (second["cause"], second["since"]) == ("InternalError", clock() - 150)
    assert "InternalError" in second["reason"]
    assert recorder.counts["ConsumerCallErrors"] == 150


def test_ten_minutes_without_failures_end_an_outage(fail, recorder, clock):
    """A call that fails every other time is one outage: its successes would make each failure a first one."""
    fail(lane="HIGH")
    clock.advance(599)
    fail(lane="HIGH")
    clock.advance(600)
    fail(lane="HIGH")

    assert [fields.get("failures") for _, fields in recorder.problems] == [None, 2, None]


def test_other_calls_lanes_and_causes_are_other_outages(fail, recorder):
    """What begins to fail in an outage is not hidden by it."""
    denied = AwsError(operation="PutItem", code="AccessDenied", retryable=False)
    for _ in range(3):
        fail(lane="HIGH")
        fail(lane="MAIN")
        fail(lane="HIGH", error=denied)
        fail(lane="HIGH", error=ZeroDivisionError())
        fail(Event.BELL_NOT_RUNG)
        fail(Event.LANE_UNKNOWN, queue="a")
        fail(Event.LANE_UNKNOWN, queue="b")

    assert len(recorder.problems) == 7


def test_an_outage_is_reported_although_the_clock_was_set_back(fail, recorder, clock):
    """The last report would be ten minutes in the future."""
    fail()
    clock.now -= 600
    fail()

    assert [fields.get("failures") for _, fields in recorder.problems] == [None, 2]


def test_each_failed_handler_is_reported():
    """They are no outage of a call, and each has an error of its own."""
    scenario = Scenario()
    for number in range(3):
        scenario.send("HIGH", f"m{number}", "fail", group=f"g{number}")
    scenario.step("HIGH")

    assert [name for name, _ in scenario.world.recorder.problems] == ["handler_failed"] * 3
