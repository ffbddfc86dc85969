"""Outboxes beside lanes in memory: entries of the application's transactions reach the lanes when these run."""

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from lanes import Consumer, LanesConfig, PriorityRules
from lanes.outbox.sql.store import SqlOutboxStore
from lanes.testing import InMemoryLanes


@pytest.fixture
def engine():
    """A database in memory."""
    engine = sa.create_engine("sqlite://")
    yield engine
    engine.dispose()


def lanes_beside(engine, raw=None):
    """Make lanes that handle orders and publish from an outbox in the database."""
    consumer = Consumer()
    consumer.handler("order.placed")(lambda _message: None)
    lanes = InMemoryLanes(consumer, config=LanesConfig.from_dict(raw or {}))
    store = SqlOutboxStore(engine)
    store.setup()
    lanes.publish_from(store)
    return lanes


def test_what_was_committed_is_published_and_handled(engine):
    """Rules decide the priority when the entry is written, the most urgent goes first."""
    lanes = lanes_beside(engine)
    outbox = lanes.new_outbox(rules=PriorityRules({"order.placed": lambda message: message.data["urgency"]}))
    with Session(engine) as session, session.begin():
        outbox.add(session, "order.placed", {"order": 1, "urgency": 0}, group="g")
        outbox.add(session, "order.placed", {"order": 2, "urgency": 50}, group="g")
    lanes.run_until_idle()

    lanes.assert_sent("order.placed", lane="HIGH", order=2, priority=50)
    assert [one.message.data["order"] for one in lanes.journal.handled] == [2, 1]
    lanes.assert_nothing_waiting()


def test_what_was_rolled_back_is_never_sent(engine):
    """The point of an outbox."""
    lanes = lanes_beside(engine)
    with Session(engine) as session:
        lanes.new_outbox().add(session, "order.placed", {"order": 1})
        session.rollback()
    lanes.run_until_idle()

    lanes.assert_not_sent("order.placed")


def test_an_entry_that_waits_is_told(engine):
    """Before the lanes have run, it is neither sent nor forgotten."""
    lanes = lanes_beside(engine)
    with Session(engine) as session, session.begin():
        lanes.new_outbox().add(session, "order.placed", {"order": 1})

    with pytest.raises(AssertionError, match="entries of an outbox that are PENDING: 1"):
        lanes.assert_nothing_waiting()


def test_a_handler_that_writes_to_the_outbox_keeps_the_lanes_running(engine):
    """Until nothing is left on either side."""
    lanes = lanes_beside(engine)
    outbox = lanes.new_outbox()
    consumer = Consumer()

    @consumer.handler("order.placed")
    def _place(message):
        if message.data["left"]:
            with Session(engine) as session, session.begin():
                outbox.add(session, "order.placed", {"left": message.data["left"] - 1})

    lanes.serve(consumer)
    lanes.producer.send("order.placed", {"left": 3})
    lanes.run_until_idle()

    assert [one.message.data["left"] for one in lanes.journal.handled] == [3, 2, 1, 0]


def test_the_relay_keeps_to_the_lanes_window(engine):
    """What has no room yet is published as the lane drains."""
    one_by_one = {"lanes": [{"name": "MEDIUM", "batch_size": 1}], "outbox": {"lane_window": {"MEDIUM": 2}}}
    lanes = lanes_beside(engine, one_by_one)
    with Session(engine) as session, session.begin():
        for order in range(6):
            lanes.new_outbox().add(session, "order.placed", {"order": order})
    waiting = []
    lanes.run_until(lambda: waiting.append(len(lanes.journal.waiting)))

    assert max(waiting) <= 2
    assert len(lanes.journal.handled) == 6
