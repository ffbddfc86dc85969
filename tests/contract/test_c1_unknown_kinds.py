"""C1, section 2: a kind without a handler waits for the code that has one, and only then is a dead letter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lanes import Consumer, LanesConfig, Message
from lanes.testing import InMemoryLanes
from tests.support import memory


def lanes_with(engine, *kinds, **settings):
    """Return lanes whose function handles these kinds."""
    config = LanesConfig.from_dict({"consumer": {**memory.consumer_of(engine), **settings}})
    return InMemoryLanes(consumer_of(*kinds), config=config)


def consumer_of(*kinds):
    consumer = Consumer()
    for kind in kinds:
        consumer.handler(kind)(lambda _message: None)
    return consumer


@pytest.mark.parametrize("idempotency", [False, True])
def test_an_unknown_kind_waits_an_hour_without_an_attempt(engine, idempotency):
    """Then its dead letter has the reason; other groups are handled meanwhile, its own waits behind it."""
    lanes = lanes_with(engine, "order.placed", idempotency=idempotency)
    # Long ago by the sender's own word, which decides nothing.
    long_ago = datetime(2000, 1, 1, tzinfo=UTC)
    lanes.producer.send_many(
        [
            Message(kind="order.lost", data={}, group="g", time=long_ago),
            Message(kind="order.placed", data={"order": 1}, group="g"),
            Message(kind="order.placed", data={"order": 2}, group="other"),
        ]
    )
    lanes.run_for(timedelta(minutes=59))

    assert [one.message.data for one in lanes.journal.handled] == [{"order": 2}]
    assert not lanes.journal.dead_lettered
    lanes.run_for(timedelta(minutes=3))

    lanes.assert_dead_lettered("order.lost", reason="no handler for kind 'order.lost'")
    assert lanes.journal.dead_lettered[0].attempts == 0
    assert lanes.journal.dead_lettered[0].receives < 100
    lanes.assert_handled("order.placed", order=1)
    assert not lanes.journal.failed


def test_code_that_knows_the_kind_handles_it_within_a_minute(engine):
    """At its first attempt."""
    lanes = lanes_with(engine, "order.placed")
    lanes.producer.send("order.new", {"order": 1}, group="g")
    lanes.run_for(timedelta(minutes=40))
    lanes.serve(consumer_of("order.placed", "order.new"))
    lanes.run_for(timedelta(seconds=62))

    lanes.assert_handled("order.new", attempt=1)
    lanes.assert_nothing_waiting()


def test_the_hour_begins_when_old_code_meets_the_message(engine):
    """After a rollback, messages that have waited or failed for hours wait once more, and again after another one."""
    lanes = lanes_with(engine, "order.new", backoff_base=600, backoff_max=3600, max_attempts=50)
    new = Consumer()

    @new.handler("order.new")
    def fail(_message):
        raise ValueError("not yet")

    lanes.producer.send("order.new", {"order": 1})
    lanes.serve(new)
    lanes.run_for(timedelta(hours=6))
    for _ in range(2):
        lanes.serve(consumer_of("order.placed"))
        lanes.run_for(timedelta(minutes=58))
        lanes.serve(new)
        lanes.run_for(timedelta(hours=1))
    assert not lanes.journal.dead_lettered

    lanes.serve(consumer_of("order.new"))
    lanes.run_until_idle()

    lanes.assert_handled("order.new")


@pytest.mark.parametrize(("limit", "minutes"), [("0s", 0), ("10m", 10), ("7d", 7 * 24 * 60)])
def test_the_wait_is_a_setting(engine, limit, minutes):
    """With 0 it is a dead letter at once; a long one costs few receives."""
    lanes = lanes_with(engine, "order.placed", unknown_kind_for=limit)
    lanes.producer.send("order.lost", {}, group="g")
    started = lanes.clock.now
    lanes.run_until_idle(most_handlings=10_000)

    waited = lanes.journal.dead_lettered[0].at.timestamp() - started
    # The pause grows with the receives, so that SQS does not move it by itself.
    assert minutes * 60 <= waited <= minutes * 60 + 61 + minutes / 3
    assert lanes.journal.dead_lettered[0].receives < 1000
