"""Overrides: what waits in a queue is cancelled, or sent on to another lane with the order of its group kept."""

import dataclasses
import json

import pytest

from lanes.consumer.records import RawRecord
from lanes.events import Event
from lanes.message import LARGEST_BODY_BYTES, Message, size_bytes
from lanes.overrides import KNOWN_AFTER, OVERRIDES_AGE, Action
from lanes.testing.function import event_entry
from tests.support.memory import aws_error
from tests.support.overriding import Overridden

SLOTS = [1, 3]
ARN = "arn:aws:sqs:eu-central-1:123456789012:MAIN.fifo"


@pytest.fixture
def scenario():
    """One slot, three lanes, nothing in them."""
    return Overridden()


def send_some(scenario, lane="MAIN", *, groups=2, count=6, first=0):
    """Send messages with numbers, spread over groups in turn."""
    for number in range(first, first + count):
        scenario.send(lane, f"m{number}", group=f"g{number % groups}")


def test_a_cancelled_message_is_recorded_and_never_handled(scenario):
    """Which one, when, by whom and why."""
    send_some(scenario)
    override = scenario.put("cancel", ids=("m2", "m5"))

    scenario.drain()

    assert set(scenario.done) == {"m0", "m1", "m3", "m4"}
    records = list(scenario.world.overrides.gone.values())
    assert [(one.id, one.group, one.lane) for one in records] == [("m2", "g0", "MAIN"), ("m5", "g1", "MAIN")]
    assert {(one.who, one.why, one.override) for one in records} == {("arn:ops", "as asked", override.id)}
    assert all(one.cancelled_at > override.created_at for one in records)
    assert [one["id"] for one in scenario.world.recorder.named("message_cancelled")] == ["m2", "m5"]
    scenario.check_each_ended_once()


@pytest.mark.parametrize("action", ["cancel", "prioritize"])
def test_a_run_is_changed_as_a_whole(scenario, action):
    """Its messages by their mark, and with another condition those alone that meet both."""
    for number in range(6):
        scenario.send("MAIN", f"m{number}", group=f"g{number}", run=("", "2/spring", "2/spring2")[number % 3])
    scenario.put(action, run="spring", **({"priority": 60} if action == "prioritize" else {}))
    scenario.put("cancel", run="spring2", ids=("m0", "m1", "m2"))

    scenario.drain()

    moved = [one["id"] for one in scenario.world.recorder.named("message_moved")]
    changed = moved if action == "prioritize" else scenario.cancelled()
    assert sorted({*changed} - {"m2"}) == ["m1", "m4"]
    assert "m2" in scenario.cancelled()
    assert set(scenario.done) == {f"m{number}" for number in range(6)} - set(scenario.cancelled())


def test_only_what_waited_is_cancelled(scenario):
    """A message of the same kind that is sent later is none of those that the operator saw."""
    scenario.send("MAIN", "before")
    scenario.put("cancel", kind="work", after=OVERRIDES_AGE)
    scenario.send("MAIN", "after")

    scenario.drain()

    assert (scenario.done, scenario.cancelled()) == (["after"], ["before"])


def test_an_entry_in_the_hands_of_a_relay_is_cancelled_too(scenario):
    """It waited in no queue yet, and in the outbox no more: the relay's mark tells."""
    claimed_at = scenario.world.clock.now
    scenario.world.clock.advance(1)
    scenario.put("cancel", kind="work", after=30)
    for name, at in (("before", claimed_at), ("after", scenario.world.clock.now)):
        body = Message(kind="work", data={"does": ["ok"]}, id=name, group="g").to_body()
        scenario.world.send_body("MAIN", body, claimed_at=at)

    scenario.drain()

    assert (scenario.done, scenario.cancelled()) == (["after"], ["before"])


@pytest.mark.parametrize("time", ["2020-01-01T00:00:00+00:00", "2100-01-01T00:00:00+00:00", "now"])
@pytest.mark.parametrize("action", ["cancel", "prioritize"])
def test_a_message_that_was_sent_later_is_none_of_those(scenario, action, time):
    """Replays, sensors and change capture set the time of an event; a redriven dead letter has an old one."""
    scenario.put(action, kind="work", **({"priority": 50} if action == "prioritize" else {}))
    body = json.loads(Message(kind="work", data={"does": ["ok"]}, id="replayed", group="g").to_body())
    scenario.world.send_body("MAIN", json.dumps(body | ({} if time == "now" else {"time": time})))

    scenario.drain()

    assert (scenario.done, scenario.lane_of("replayed")) == (["replayed"], "MAIN")


def test_a_redriven_dead_letter_is_none_of_those(scenario):
    """The operator who redrives it decides later."""
    scenario = Overridden({"consumer": {"max_attempts": 1}})
    scenario.send("MAIN", "m", "fail", "ok")
    scenario.drain()
    assert scenario.letters("MAIN") == ["m"]
    scenario.put("cancel", kind="work")
    scenario.redrive()

    scenario.drain()

    assert (scenario.done, scenario.cancelled()) == (["m"], [])


def test_a_moved_message_is_cancelled_by_what_came_before_its_move_was_known(scenario):
    """It has waited since it was sent, not since it was moved."""
    scenario.send("MAIN", "m")
    scenario.put("prioritize", priority=50, kind="work")
    scenario.world.clock.advance(1)
    cancel = scenario.put("cancel", kind="work", after=0)
    # An environment that has read the overrides before moves it.
    (record,) = scenario.world.receive("MAIN")
    scenario.world.queues.live["MAIN"].delete(record.receipt_handle)
    scenario.world.clock.advance(3)
    moved = scenario.world.overrides.active().of(Action.PRIORITIZE)[0]
    raw = RawRecord.from_event(event_entry("HIGH", record))
    scenario.world.send_body(
        "HIGH", record.body, group=record.group, deduplication_id=moved.moved_id(raw, since=raw.sent_at)
    )

    scenario.drain()

    assert raw.sent_at <= cancel.created_at
    assert (scenario.done, scenario.cancelled()) == ([], ["m"])


def test_a_body_that_is_no_event_is_cancelled_by_its_group_alone(scenario):
    """Its kind can't be known, so a filter that asks for one leaves it."""
    scenario.world.send_body("MAIN", "plain", group="raw")
    scenario.put("cancel", kind="*")
    scenario.drain()
    assert scenario.cancelled() == []

    scenario.world.send_body("MAIN", "plain again", group="raw")
    scenario.put("cancel", group="raw")
    scenario.drain()

    assert [one.group for one in scenario.world.overrides.gone.values()] == ["raw"]


@pytest.mark.parametrize("engine", ["mappings", "pull"])
@pytest.mark.parametrize("action", ["cancel", "prioritize"])
def test_a_filter_of_everything_means_bodies_that_are_no_events_too(action, engine):
    """`--all` selects everything, as it says."""
    scenario = Overridden(engine=engine)
    scenario.world.send_body("MAIN", "plain", group="raw")
    scenario.world.send_body("MAIN", "plain too", group="raw")
    scenario.put(action, priority=50)
    scenario.drain()

    if action == "cancel":
        assert [one.group for one in scenario.world.overrides.gone.values()] == ["raw", "raw"]
    else:
        moved = scenario.world.recorder.named("message_moved")
        assert [(one["group"], one["to_lane"]) for one in moved] == [("raw", "HIGH")] * 2


@pytest.mark.parametrize("slots", SLOTS)
def test_a_promoted_group_moves_in_its_order_with_what_comes_later(slots):
    """Also what producers send to the old lane while the override stands."""
    scenario = Overridden({"consumer": {"reserved_concurrency": slots}}, environments=slots)
    send_some(scenario)
    scenario.put("prioritize", priority=50, group="g1")
    for number in range(6, 10):
        scenario.send("MAIN", f"m{number}", group=f"g{number % 2}")

    scenario.drain()

    assert {scenario.lane_of(f"m{number}") for number in range(1, 10, 2)} == {"HIGH"}
    assert {scenario.lane_of(f"m{number}") for number in range(0, 10, 2)} == {"MAIN"}
    assert [one for one in scenario.done if int(one[1:]) % 2] == ["m1", "m3", "m5", "m7", "m9"]
    scenario.check_each_ended_once()


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("batch_size", [1, 3, 10])
def test_the_rest_of_a_group_follows_a_message_that_was_promoted_by_its_id(batch_size, slots):
    """Those before it were handled before; those after it come after it, in the new lane."""
    lanes = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "batch_size": batch_size}]
    scenario = Overridden(
        {"lanes": lanes, "consumer": {"reserved_concurrency": slots}}, environments=slots, seed=3
    )
    send_some(scenario, groups=1)
    scenario.put("prioritize", priority=50, ids=("m2",))

    scenario.drain()

    assert [scenario.lane_of(f"m{number}") for number in range(6)] == ["MAIN"] * 2 + ["HIGH"] * 4
    assert scenario.done == [f"m{number}" for number in range(6)]


def test_a_message_without_a_group_moves_alone(scenario):
    """Its group is itself, so nothing has to be written down."""
    message = Message(kind="work", data={"does": ["ok"]}, id="single")
    scenario.world.send_body("MAIN", message.to_body(), group=message.message_group_id)
    scenario.put("prioritize", priority=50, kind="work")

    scenario.drain()

    assert scenario.lane_of("single") == "HIGH"
    assert scenario.world.overrides.following == {}


def large_message(scenario, *, beside):
    """Send a message that fills a MiB with the attributes beside it, and another of its group behind it."""
    message = Message(kind="work", data={"does": ["ok"], "more": ""}, group="g", id="large")
    room = LARGEST_BODY_BYTES - size_bytes(message.to_body()) - beside
    message = dataclasses.replace(message, data={"does": ["ok"], "more": "x" * room})
    scenario.world.send_body("MAIN", message.to_body(), group="g")
    scenario.send("MAIN", "small", group="g")


@pytest.mark.parametrize("engine", ["mappings", "pull"])
@pytest.mark.parametrize("attributes", [{}, {"trace": {"dataType": "String", "stringValue": "y" * 100_000}}])
def test_a_message_that_its_priority_makes_too_large_is_handled_where_it_is(monkeypatch, engine, attributes):
    """SQS refuses body and attributes over 1 MiB, so it could never be sent on, and its group would wait behind it."""
    scenario = Overridden(engine=engine)
    from_event, forward = RawRecord.from_event, scenario.world.queues.forward
    beside = sum(len(name) + len("String") + len(one["stringValue"]) for name, one in attributes.items())

    def with_attributes(event):
        return from_event({**event, "messageAttributes": attributes})

    def checked(lane, record, *, body, deduplication_id):
        if size_bytes(body) + beside > LARGEST_BODY_BYTES:
            raise aws_error("SendMessage")
        forward(lane, record, body=body, deduplication_id=deduplication_id)

    monkeypatch.setattr(RawRecord, "from_event", with_attributes)
    monkeypatch.setattr(scenario.world.queues, "forward", checked)
    large_message(scenario, beside=beside)
    override = scenario.put("prioritize", priority=50, group="g")

    scenario.drain()

    assert scenario.done == ["large", "small"]
    assert (scenario.lane_of("large"), scenario.lane_of("small")) == ("MAIN", "HIGH")
    (event,) = scenario.world.recorder.named(Event.MESSAGE_NOT_MOVED)
    assert (event["id"], event["to_lane"], event["override"]) == ("large", "HIGH", override.id)
    assert event["size_bytes"] == LARGEST_BODY_BYTES + len('"priority":50,')


def test_a_demoted_message_goes_to_the_lower_lane(scenario):
    """The same mechanism, the other way."""
    scenario.send("HIGH", "m0")
    scenario.put("prioritize", priority=-100, kind="work")

    scenario.drain()

    assert scenario.lane_of("m0") == "MAIN"


def test_a_moved_message_is_the_same_but_for_its_priority(scenario):
    """Id, source, time, data and trace context stay as they were written, and the handler runs in the new priority."""
    seen = []
    scenario.in_handler = seen.append
    event = (
        '{"specversion": "1.0", "id": "m", "source": "shop", "type": "work", "time": "2027-01-15T07:59:00Z", '
        '"data": {"does": ["ok"], "n": 1.10}, "priority": -100, "traceparent": "00-a-b-01", "x": 1e2}'
    )
    scenario.world.send_body("MAIN", event)
    scenario.put("prioritize", priority=60, source="shop")
    scenario.step("MAIN")

    assert scenario.world.queues.live["HIGH"].bodies() == [event.replace("-100", "60")]
    scenario.drain()
    assert [(one.id, one.priority, one.traceparent) for one in seen] == [("m", 60, "00-a-b-01")]


def test_a_message_in_the_right_lane_stays(scenario):
    """Nothing is sent to where it is."""
    scenario.send("HIGH", "m0")
    scenario.put("prioritize", priority=70, kind="work")

    scenario.drain()

    assert scenario.world.recorder.named("message_moved") == []
    assert scenario.done == ["m0"]


def test_the_latest_of_two_overrides_decides(scenario):
    """Up and down again ends below, and nothing goes in circles."""
    send_some(scenario, groups=1)
    scenario.put("prioritize", priority=50, kind="work")
    scenario.step("MAIN")
    scenario.put("prioritize", priority=0, ids=("m3",))

    scenario.drain()

    assert scenario.lane_of("m3") == "MEDIUM"
    assert len(scenario.world.recorder.named("message_moved")) <= 12
    scenario.check_each_ended_once()


@pytest.mark.parametrize(
    "second",
    [{"group": "g"}, {"ids": ("m7",)}, {"kind": "work"}],
    ids=["the group", "one message", "the kind"],
)
@pytest.mark.parametrize("first", [{"group": "g"}, {"ids": ("m1",)}], ids=["the group", "one message"])
def test_a_second_override_does_not_split_a_group(first, second):
    """All messages follow the same way: none overtakes those that the first one has moved."""
    lanes = [
        {"name": "HIGH", "threshold": 50},
        {"name": "MEDIUM", "threshold": 0},
        {"name": "MAIN", "batch_size": 2},
    ]
    scenario = Overridden({"lanes": lanes})
    names = [f"m{number}" for number in range(10)]
    for name in names:
        scenario.send("MAIN", name)
    scenario.put("prioritize", priority=0, **first)
    for _ in range(2):
        scenario.step("MAIN")
    assert scenario.waiting("MEDIUM")
    scenario.put("prioritize", priority=60, **second)

    while scenario.waiting("MAIN") or scenario.waiting("HIGH"):
        scenario.step("HIGH")
        scenario.step("MAIN")
        scenario.world.clock.advance(1)
    scenario.drain()

    assert scenario.done == names
    assert scenario.lane_of("m9") == "HIGH"


def test_nothing_moves_before_every_environment_knows(scenario):
    """One that went by old overrides would handle the second while the first waits in the other lane."""
    send_some(scenario, groups=1, count=2)
    scenario.put("prioritize", priority=50, ids=("m0",), after=KNOWN_AFTER - 0.5)
    scenario.step("MAIN", most=1)
    assert scenario.lane_of("m0") == "MAIN"


def test_what_is_sent_on_need_not_wait_for_its_turn_behind_a_yield(scenario):
    """A batch is looked through before any of it makes way."""
    scenario.send("HIGH", "urgent")
    send_some(scenario, groups=6)
    scenario.put("prioritize", priority=50, ids=("m4",))
    scenario.world.receive("HIGH")

    scenario.step("MAIN")

    assert scenario.done == []
    assert scenario.waiting("HIGH") == ["urgent", "m4"]


@pytest.mark.parametrize("ends", ["expires", "is withdrawn"])
def test_an_override_that_is_over_changes_nothing(scenario, ends):
    """Nor do groups follow that followed it before."""
    send_some(scenario, groups=1, count=2)
    override = scenario.put("prioritize", priority=50, ids=("m0",))
    scenario.drain()
    if ends == "expires":
        scenario.world.clock.now = override.expires_at + 1
    else:
        scenario.world.overrides.withdraw(override.id)
        scenario.world.clock.advance(OVERRIDES_AGE + 1)
    scenario.send("MAIN", "later", group="g0")

    scenario.drain()

    assert [scenario.lane_of(one) for one in ("m0", "m1", "later")] == ["HIGH", "HIGH", "MAIN"]


def test_overrides_that_cannot_be_read_keep_the_batch(scenario):
    """Handling a message that was cancelled can't be undone."""
    scenario.send("MAIN", "m0")
    scenario.put("cancel", ids=("m0",))
    scenario.world.calls.break_if = lambda operation, _at: aws_error() if "overrides" in operation else None

    scenario.step("MAIN")

    assert scenario.done == []
    assert [name for name, _ in scenario.world.recorder.problems] == ["overrides_not_read"]
    scenario.world.calls.break_if = lambda _operation, _at: None
    scenario.drain()
    scenario.check_each_ended_once()


def test_while_nothing_stands_a_message_costs_no_call_for_overrides(scenario):
    """And while only cancellations stand, none either."""
    send_some(scenario, "HIGH", groups=6)
    scenario.step("HIGH")
    scenario.put("cancel", ids=("none",))
    send_some(scenario, "HIGH", groups=6, first=6)
    scenario.step("HIGH")

    assert len(scenario.done) == 12
    assert scenario.world.calls.counts == {"GetItem overrides": 2, "ChangeMessageVisibilityBatch": 2}


def test_cancelled_and_moved_messages_need_no_reading_of_the_higher_lanes():
    """Nothing of the batch is left to handle or to yield: no queue is read, and no record is parked."""
    scenario = Overridden({"consumer": {"reserved_concurrency": 2}}, environments=2)
    send_some(scenario, groups=2)
    scenario.put("prioritize", priority=50, group="g*")
    scenario.put("cancel", ids=("m0",))

    scenario.step("MAIN")

    assert sorted(scenario.waiting("HIGH")) == ["m1", "m2", "m3", "m4", "m5"]
    assert scenario.cancelled() == ["m0"]
    assert scenario.world.calls.counts["GetQueueAttributes"] == 0


@pytest.mark.parametrize(
    "foreign", ["moved-99999999999999-x", "moved-1-x", "moved-x", f"moved-{'9' * 100}-x"]
)
def test_a_sender_cannot_keep_its_messages_out_of_an_override(scenario, foreign):
    """A raw sender may choose any deduplication id, those of moved messages too."""
    body = Message(kind="work", data={"does": ["ok"]}, id="sly", group="g").to_body()
    scenario.world.send_body("MAIN", body, group="g", deduplication_id=foreign)
    scenario.put("prioritize", priority=50, group="g")

    scenario.drain()

    assert scenario.lane_of("sly") == "HIGH"
