"""Overrides: what waits in a queue is cancelled, or sent on to another lane with the order of its group kept."""

import json

import pytest

from lanes.consumer.overrides import BOARD_AGE, KNOWN_AFTER
from lanes.message import Message
from tests.support.memory import aws_error
from tests.support.overriding import Overridden

SLOTS = [1, 3]


@pytest.fixture
def story():
    """One slot, three lanes, nothing in them."""
    return Overridden()


def send_some(story, lane="MAIN", *, groups=2, count=6, first=0):
    """Send messages with numbers, spread over groups in turn."""
    for number in range(first, first + count):
        story.send(lane, f"m{number}", group=f"g{number % groups}")


def test_a_cancelled_message_is_recorded_and_never_handled(story):
    """Which one, when, by whom and why."""
    send_some(story)
    override = story.put("cancel", ids=("m2", "m5"))

    story.drain()

    assert set(story.done) == {"m0", "m1", "m3", "m4"}
    records = list(story.world.overrides.gone.values())
    assert [(one.id, one.group, one.lane) for one in records] == [("m2", "g0", "MAIN"), ("m5", "g1", "MAIN")]
    assert {(one.who, one.why, one.override) for one in records} == {("arn:ops", "as asked", override.id)}
    assert all(one.cancelled_at > override.created_at for one in records)
    assert [one["id"] for one in story.world.recorder.named("message_cancelled")] == ["m2", "m5"]
    story.check_each_ended_once()


def test_only_what_waited_is_cancelled(story):
    """A message of the same kind that is sent later is none of those that the operator saw."""
    story.send("MAIN", "before")
    story.put("cancel", kind="work", after=BOARD_AGE)
    story.send("MAIN", "after")

    story.drain()

    assert (story.done, story.cancelled()) == (["after"], ["before"])


def test_what_an_outbox_publishes_after_the_override_is_cancelled_too(story):
    """It was written before: its event tells the time."""
    story.put("cancel", kind="work", after=0)
    message = Message(kind="work", data={"does": ["ok"]}, id="late", group="g")
    story.world.clock.advance(30)
    body = json.loads(message.to_body())
    body["time"] = "2020-01-01T00:00:00+00:00"
    story.world.send_body("MAIN", json.dumps(body))

    story.drain()

    assert (story.done, story.cancelled()) == ([], ["late"])


def test_a_body_that_is_no_event_is_cancelled_by_its_group_alone(story):
    """Its kind can't be known, so a filter that asks for one leaves it."""
    story.world.send_body("MAIN", "plain", group="raw")
    story.put("cancel", kind=".*")
    story.drain()
    assert story.cancelled() == []

    story.world.send_body("MAIN", "plain again", group="raw")
    story.put("cancel", group="raw")
    story.drain()

    assert [one.group for one in story.world.overrides.gone.values()] == ["raw"]


@pytest.mark.parametrize("slots", SLOTS)
def test_a_promoted_group_moves_in_its_order_with_what_comes_later(slots):
    """Also what producers send to the old lane while the override stands."""
    story = Overridden({"consumer": {"reserved_concurrency": slots}}, environments=slots)
    send_some(story)
    story.put("prioritize", priority=50, group="g1")
    for number in range(6, 10):
        story.send("MAIN", f"m{number}", group=f"g{number % 2}")

    story.drain()

    assert {story.lane_of(f"m{number}") for number in range(1, 10, 2)} == {"HIGH"}
    assert {story.lane_of(f"m{number}") for number in range(0, 10, 2)} == {"MAIN"}
    assert [one for one in story.done if int(one[1:]) % 2] == ["m1", "m3", "m5", "m7", "m9"]
    story.check_each_ended_once()


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("batch_size", [1, 3, 10])
def test_the_rest_of_a_group_follows_a_message_that_was_promoted_by_its_id(batch_size, slots):
    """Those before it were handled before; those after it come after it, in the new lane."""
    lanes = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "batch_size": batch_size}]
    story = Overridden(
        {"lanes": lanes, "consumer": {"reserved_concurrency": slots}}, environments=slots, seed=3
    )
    send_some(story, groups=1)
    story.put("prioritize", priority=50, ids=("m2",))

    story.drain()

    assert [story.lane_of(f"m{number}") for number in range(6)] == ["MAIN"] * 2 + ["HIGH"] * 4
    assert story.done == [f"m{number}" for number in range(6)]


def test_a_message_without_a_group_moves_alone(story):
    """Its group is itself, so nothing has to be written down."""
    message = Message(kind="work", data={"does": ["ok"]}, id="single")
    story.world.send_body("MAIN", message.to_body(), group=message.message_group_id)
    story.put("prioritize", priority=50, kind="work")

    story.drain()

    assert story.lane_of("single") == "HIGH"
    assert story.world.overrides.following == {}


def test_a_demoted_message_goes_to_the_lower_lane(story):
    """The same mechanism, the other way."""
    story.send("HIGH", "m0")
    story.put("prioritize", priority=-100, kind="work")

    story.drain()

    assert story.lane_of("m0") == "MAIN"


def test_a_moved_message_is_the_same_but_for_its_priority(story):
    """Id, source, time, data and trace context stay as they were written, and the handler runs in the new priority."""
    seen = []
    story.in_handler = seen.append
    event = (
        '{"specversion": "1.0", "id": "m", "source": "shop", "type": "work", "time": "2027-01-15T07:59:00Z", '
        '"data": {"does": ["ok"], "n": 1.10}, "priority": -100, "traceparent": "00-a-b-01", "x": 1e2}'
    )
    story.world.send_body("MAIN", event)
    story.put("prioritize", priority=60, source="shop")
    story.step("MAIN")

    assert story.world.queues.live["HIGH"].bodies() == [event.replace("-100", "60")]
    story.drain()
    assert [(one.id, one.priority, one.traceparent) for one in seen] == [("m", 60, "00-a-b-01")]


def test_a_message_in_the_right_lane_stays(story):
    """Nothing is sent to where it is."""
    story.send("HIGH", "m0")
    story.put("prioritize", priority=70, kind="work")

    story.drain()

    assert story.world.recorder.named("message_moved") == []
    assert story.done == ["m0"]


def test_the_latest_of_two_overrides_decides(story):
    """Up and down again ends below, and nothing goes in circles."""
    send_some(story, groups=1)
    story.put("prioritize", priority=50, kind="work")
    story.step("MAIN")
    story.put("prioritize", priority=0, ids=("m3",))

    story.drain()

    assert story.lane_of("m3") == "MEDIUM"
    assert len(story.world.recorder.named("message_moved")) <= 12
    story.check_each_ended_once()


def test_nothing_moves_before_every_environment_knows(story):
    """One that went by an old board would handle the second while the first waits in the other lane."""
    send_some(story, groups=1, count=2)
    story.put("prioritize", priority=50, ids=("m0",), after=KNOWN_AFTER - 0.5)
    story.step("MAIN", most=1)
    assert story.lane_of("m0") == "MAIN"


def test_what_is_sent_on_need_not_wait_for_its_turn_behind_a_yield(story):
    """A batch is looked through before any of it makes way."""
    story.send("HIGH", "urgent")
    send_some(story, groups=6)
    story.put("prioritize", priority=50, ids=("m4",))
    story.world.receive("HIGH")

    story.step("MAIN")

    assert story.done == []
    assert story.waiting("HIGH") == ["urgent", "m4"]


@pytest.mark.parametrize("ends", ["expires", "is withdrawn"])
def test_an_override_that_is_over_changes_nothing(story, ends):
    """Nor do groups follow that followed it before."""
    send_some(story, groups=1, count=2)
    override = story.put("prioritize", priority=50, ids=("m0",))
    story.drain()
    if ends == "expires":
        story.world.clock.now = override.expires_at + 1
    else:
        story.world.overrides.withdraw(override.id)
        story.world.clock.advance(BOARD_AGE + 1)
    story.send("MAIN", "later", group="g0")

    story.drain()

    assert [story.lane_of(one) for one in ("m0", "m1", "later")] == ["HIGH", "HIGH", "MAIN"]


def test_a_board_that_cannot_be_read_keeps_the_batch(story):
    """Handling a message that was cancelled can't be undone."""
    story.send("MAIN", "m0")
    story.put("cancel", ids=("m0",))
    story.world.calls.break_if = lambda operation, _at: aws_error() if "board" in operation else None

    story.step("MAIN")

    assert story.done == []
    assert [name for name, _ in story.world.recorder.problems] == ["overrides_not_read"]
    story.world.calls.break_if = lambda _operation, _at: None
    story.drain()
    story.check_each_ended_once()


def test_while_nothing_stands_a_message_costs_no_call(story):
    """And while only cancellations stand, none either."""
    send_some(story, "HIGH", groups=6)
    story.step("HIGH")
    story.put("cancel", ids=("none",))
    send_some(story, "HIGH", groups=6, first=6)
    story.step("HIGH")

    assert len(story.done) == 12
    assert set(story.world.calls.counts) == {"GetItem board"}
    assert story.world.calls.counts["GetItem board"] == 2


@pytest.mark.parametrize("room", [False, True])
def test_what_is_sent_on_waits_for_no_slot(room):
    """Where nothing of a batch is left, no slot is taken, with or without a waiting room."""
    story = Overridden({"consumer": {"reserved_concurrency": 2, "waiting_room": room}}, environments=2)
    send_some(story, groups=2)
    story.put("prioritize", priority=50, group="g.")
    story.put("cancel", ids=("m0",))

    story.step("MAIN")

    assert sorted(story.waiting("HIGH")) == ["m1", "m2", "m3", "m4", "m5"]
    assert story.cancelled() == ["m0"]
    assert story.world.calls.counts["UpdateItem"] == 1
