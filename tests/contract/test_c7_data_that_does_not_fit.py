"""C7: data that does not fit its handler is dead-lettered at once, with the reason and without an attempt."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar

import msgspec
import pydantic
import pytest

from lanes import Consumer, LanesConfig, Message
from lanes.testing import InMemoryLanes
from tests.support.memory import World, consumer_of


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

    config = LanesConfig.from_dict({"consumer": {**consumer_of(engine), **consumer_settings}})
    return InMemoryLanes(consumer, config=config), reached


@pytest.mark.parametrize("idempotency", [False, True])
def test_data_that_does_not_fit_never_reaches_the_handler(engine, idempotency):
    """Its dead letter has the reason and no attempt; the next message of its group is handled."""
    lanes, reached = lanes_with_a_handler(engine, idempotency=idempotency)
    lanes.producer.send("order.placed", {"order": "seven"}, group="g")
    lanes.producer.send("order.placed", {"order": 8}, group="g")
    lanes.run_until_idle()

    assert [message.data for message in reached] == [Order(8)]
    lanes.assert_dead_lettered("order.placed", reason="data.order: Expected `int`, got `str`")
    (letter,) = lanes.journal.dead_lettered
    assert letter.attempts == 0
    assert not lanes.journal.failed
    lanes.assert_handled("order.placed", order=8)
    lanes.assert_nothing_waiting()


class StrictOrder(msgspec.Struct, forbid_unknown_fields=True):
    """The data of a handler whose type refuses fields that it lacks."""

    order: int


@pytest.mark.parametrize(
    ("wanted", "reasons"),
    [(Order, []), (StrictOrder, ["data: Object contains unknown field `gift`"])],
)
def test_a_field_that_the_type_lacks_is_ignored_unless_the_type_is_strict(engine, wanted, reasons):
    """A newer sender may have added it."""
    world = World(engine=engine)
    reached = []

    def place(message):
        reached.append(message.data)

    place.__annotations__["message"] = Message[wanted]
    world.consumer.handler("order.placed")(place)
    message_id = world.send("MAIN", "order.placed", {"order": 7, "gift": True})
    world.step("MAIN")

    assert [note.reason for note in world.queues.notes.values()] == reasons
    assert reached == ([] if reasons else [wanted(order=7)])
    assert not reasons or world.queues.notes[message_id].attempts == 0


def test_a_reason_with_half_a_character_can_still_be_sent(engine):
    """JSON can escape half of a surrogate pair, which SQS and DynamoDB refuse."""
    lanes, reached = lanes_with_a_handler(engine)
    event = {"specversion": "1.0", "type": "order.placed", "id": "1", "source": "s"}
    lanes.send_body("MAIN", json.dumps(event | {"data": {"order": 7, "note": "\ud800"}}))
    lanes.run_until_idle()

    (letter,) = lanes.journal.dead_lettered
    assert not reached
    assert letter.reason.encode() == b"data: no note but ?"


class Folder(pydantic.BaseModel):
    """Data that holds data of its own type."""

    folders: list[Folder] = []


def nested(levels):
    """Return the JSON of folders in folders."""
    return json.loads('{"folders":[' * levels + "]}" * levels)


@dataclass(frozen=True)
class Checked:
    """Data, the check of which raises the error that it is given."""

    word: str
    error: ClassVar[BaseException]

    def __post_init__(self):
        if self.word == "bad":
            raise self.error


class PanicError(BaseException):
    """As validators in Rust raise it when they panic."""


@pytest.mark.parametrize(
    ("wanted", "bad", "error", "reason"),
    [
        (Folder, nested(300), None, "data: Invalid JSON: recursion limit exceeded"),
        (Checked, {"word": "bad"}, PanicError("overflow"), "PanicError: overflow"),
        (Checked, {"word": "bad"}, SystemExit(2), "data: SystemExit: 2"),
    ],
    ids=["too deep", "panic", "exit"],
)
def test_whatever_reading_the_data_raises_is_a_dead_letter(engine, wanted, bad, error, reason):
    """Otherwise its batch would be interrupted at each receive, without an attempt to count."""
    consumer, reached = Consumer(), []
    Checked.error = error

    def place(message):
        reached.append(message.id)

    place.__annotations__["message"] = Message[wanted]
    consumer.handler("order.placed")(place)
    lanes = InMemoryLanes(consumer, config=LanesConfig.from_dict({"consumer": {**consumer_of(engine)}}))
    lanes.producer.send("order.placed", bad, group="g", id="bad")
    lanes.producer.send("order.placed", {"word": "good"}, group="g", id="good")
    lanes.run_for(60)

    lanes.assert_dead_lettered("order.placed", reason=reason)
    assert reached == ["good"]
    lanes.assert_nothing_waiting()
