"""C7: data that does not fit its handler is dead-lettered at once, with the reason and without an attempt."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from lanes import Consumer, LanesConfig, Message
from lanes.testing import InMemoryLanes


@dataclass(frozen=True)
class Order:
    """The data of the handler's messages."""

    order: int
    note: str = ""

    def __post_init__(self):
        if self.note:
            raise ValueError(f"no note but {self.note}")


def lanes_with_a_handler(engine, **consumer_settings):
    """Return lanes with a handler of orders, and the messages that reached it."""
    consumer, reached = Consumer(), []

    @consumer.handler("order.placed")
    def place(message: Message[Order]) -> None:
        reached.append(message)

    config = LanesConfig.from_dict({"consumer": {"engine": engine, **consumer_settings}})
    return InMemoryLanes(consumer, config=config), reached


@pytest.mark.parametrize("idempotency", [False, True])
def test_data_that_does_not_fit_never_reaches_the_handler(engine, idempotency):
    """Its dead letter has the reason and no attempt; the next message of its group is handled."""
    lanes, reached = lanes_with_a_handler(engine, idempotency=idempotency)
    lanes.producer.send("order.placed", {"order": "seven"}, group="g")
    lanes.producer.send("order.placed", {"order": 8}, group="g")
    lanes.run_until_idle()

    assert [message.data for message in reached] == [Order(8)]
    lanes.assert_dead_lettered("order.placed", reason="data.order must be an integer, not a string")
    (letter,) = lanes.journal.dead_lettered
    assert letter.attempts == 0
    assert not lanes.journal.failed
    lanes.assert_handled("order.placed", order=8)
    lanes.assert_nothing_waiting()


def test_a_reason_with_half_a_character_can_still_be_sent(engine):
    """JSON can escape half of a surrogate pair, which SQS and DynamoDB refuse."""
    lanes, reached = lanes_with_a_handler(engine)
    event = {"specversion": "1.0", "type": "order.placed", "id": "1", "source": "s"}
    lanes.send_body("MAIN", json.dumps(event | {"data": {"order": 7, "note": "\ud800"}}))
    lanes.run_until_idle()

    (letter,) = lanes.journal.dead_lettered
    assert not reached
    assert letter.reason.encode() == b"data: ValueError: no note but ?"
