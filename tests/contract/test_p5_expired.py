"""Section 4, expired: a message past its time is not handled; it is counted, logged and listed, never silently gone."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from lanes import Consumer, LanesConfig, Message
from lanes.errors import InvalidMessageError, MessageDecodeError
from lanes.testing import InMemoryLanes
from tests.support.followed import KIND, NAME, OVER, Followed
from tests.support.memory import consumer_of
from tests.support.scenario import Scenario

MINUTE = timedelta(minutes=1)


class Desk:
    """Lanes in memory, with a handler that fails while it is told to."""

    def __init__(self, engine, **settings):
        self.calls, self.failures = [], 0
        consumer = Consumer()
        consumer.handler("remind")(self.remind)
        config = LanesConfig.from_dict({"consumer": {**consumer_of(engine), **settings}})
        self.lanes = InMemoryLanes(consumer, config=config)

    def remind(self, message):
        self.calls.append(message.data)
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not now")

    def send(self, data, *, expires=None, id=None):
        self.lanes.producer.send("remind", data, group="g", expires=expires, id=id)


@pytest.mark.parametrize("idempotency", [False, True])
def test_a_message_past_its_time_reaches_no_handler(engine, idempotency):
    """It leaves its lane without an attempt, and the next ones of its group follow."""
    desk = Desk(engine, idempotency=idempotency)
    desk.send("late", expires=5 * MINUTE)
    desk.send("later", expires=desk.lanes.clock.time + 6 * MINUTE)
    desk.send("in time", expires=timedelta(hours=1))
    desk.send("always")
    desk.lanes.clock.advance(10 * MINUTE)
    desk.lanes.run_until_idle()

    assert desk.calls == ["in time", "always"]
    desk.lanes.assert_nothing_waiting()
    assert desk.lanes.journal.failed == desk.lanes.journal.dead_lettered == []


def test_a_message_whose_attempts_failed_reaches_no_handler_after_its_time(engine):
    """Its last attempts would come too late."""
    desk = Desk(engine, max_attempts=100)
    desk.failures = 100
    desk.send("late", expires=2 * MINUTE)
    desk.lanes.run_until_idle()

    assert 1 < len(desk.calls) < 100
    assert not desk.lanes.journal.dead_lettered


def test_the_same_id_with_a_new_time_is_handled_under_idempotency(engine):
    """Only what a handler did counts as done."""
    desk = Desk(engine, idempotency=True)
    desk.send("late", expires=MINUTE, id="r-1")
    desk.lanes.clock.advance(10 * MINUTE)
    desk.lanes.run_until_idle()
    desk.send("again", expires=timedelta(hours=1), id="r-1")
    desk.lanes.run_until_idle()

    assert desk.calls == ["again"]


def test_it_is_counted_and_logged(engine):
    """With its id, its group and its time."""
    scenario = Scenario({}, engine=engine)
    expires = datetime.fromtimestamp(scenario.world.clock(), UTC) + MINUTE
    body = Message(kind="work", data={}, id="w-1", group="g", expires=expires).to_body()
    scenario.world.queues.live["HIGH"].send(body, group="g", deduplication_id="w-1")
    scenario.world.clock.advance(61)
    scenario.drain()

    (logged,) = scenario.world.recorder.named("message_expired")
    assert (logged["id"], logged["group"], logged["expires_at"]) == ("w-1", "g", expires.timestamp())
    assert scenario.world.recorder.counts["ExpiredMessages"] == 1
    assert scenario.world.recorder.counts["DeadLetteredMessages"] == 0
    assert scenario.done == []


def test_an_outbox_writes_the_time_too(engine):
    """And a relay passes it on as it was written."""
    desk = Desk(engine)
    entry = desk.lanes.new_outbox().prepare("remind", "x", expires=MINUTE)

    expected = (desk.lanes.clock.time + MINUTE).isoformat()
    assert json.loads(entry.message().to_body())["expirytime"] == expected


def test_the_time_is_read_as_cloudevents_writes_it():
    """Other programs may send it; without a zone it is UTC."""
    sent = Message(kind="remind", data=1, expires=datetime(2026, 1, 31, 12, tzinfo=UTC))
    event = json.loads(sent.to_body())

    assert event["expirytime"] == "2026-01-31T12:00:00+00:00"
    assert Message.from_body(sent.to_body()) == sent
    for text in ("2026-01-31T12:00:00Z", "2026-01-31t13:00:00+01:00", "2026-01-31T12:00:00"):
        assert Message.from_body(json.dumps(event | {"expirytime": text})).expires == sent.expires
    assert "expirytime" not in Message(kind="remind").to_body()


@pytest.mark.parametrize("expires", [timedelta.max, timedelta.min], ids=["max", "min"])
def test_a_time_that_no_calendar_has_is_refused_by_name(expires):
    """Wherever a message begins; `timedelta.max` may be meant for never."""
    desk = Desk("pull")
    for begin in (desk.send, partial(desk.lanes.new_outbox().prepare, "remind")):
        with pytest.raises(
            InvalidMessageError, match=rf"expires is {expires} from now, outside the years .*; omit it"
        ):
            begin("x", expires=expires)


@pytest.mark.parametrize("expires", [datetime(2026, 1, 31), "tomorrow", 7, MINUTE], ids=repr)  # noqa: DTZ001
def test_a_time_that_is_none_is_refused_by_name(expires):
    """Before any call; in a message it is a time, with its zone."""
    with pytest.raises(InvalidMessageError, match=r"expires is .* it must be a datetime with a time zone"):
        Message(kind="remind", expires=expires).to_body()


@pytest.mark.parametrize("text", ["soon", 7, ""])
def test_a_body_with_another_time_is_no_message(text):
    """It becomes a dead letter with the reason: nothing is lost for a typing error."""
    with pytest.raises(MessageDecodeError, match=r"expirytime is .* it must be an RFC 3339 time"):
        Message.from_body(json.dumps(json.loads(Message(kind="a").to_body()) | {"expirytime": text}))


def test_it_is_an_end_of_a_member_of_a_run(engine):
    """A run that is followed ends with it."""
    run = Followed(engine, chunks=2)
    expires = datetime.fromtimestamp(run.world.clock(), UTC) + MINUTE
    with run.world.producer(source="shop").run(NAME, expected=2, on_complete=OVER) as sending:
        sending.send(KIND, "a", id="a", expires=expires)
        sending.send(KIND, "b", id="b")
    run.world.clock.advance(120)
    run.drain()

    counts = run.progress().counts
    assert (counts.done, counts.expired) == (1, 1)
    assert len(run.announced) == 1
