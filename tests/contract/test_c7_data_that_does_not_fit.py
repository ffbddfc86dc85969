"""C7: data that does not fit its handler is dead-lettered at once, with the reason and without an attempt."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from lanes import Consumer, LanesConfig, Message
from lanes.testing import InMemoryLanes
from tests.support.memory import World


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


@pytest.mark.parametrize("strict", [False, True])
def test_a_field_that_the_type_lacks_is_ignored_and_counted_unless_the_handler_is_strict(engine, strict):
    """A newer sender may have added it."""
    world = World(engine=engine)
    reached = []

    @world.consumer.handler("order.placed", strict=strict)
    def place(message: Message[Order]) -> None:
        reached.append(message.data)

    message_id = world.send("MAIN", "order.placed", {"order": 7, "gift": True, "note2": "x"})
    world.step("MAIN")

    reasons = [note.reason for note in world.queues.notes.values()]
    unknown = "data has the unknown field {!r}; Order has order, note"
    if strict:
        assert reasons == ["; ".join(unknown.format(name) for name in ("gift", "note2"))]
        assert world.queues.notes[message_id].attempts == 0
    else:
        assert (reached, reasons) == ([Order(7)], [])
    assert world.recorder.counts["IgnoredFields"] == (0 if strict else 2)


def test_a_reason_with_half_a_character_can_still_be_sent(engine):
    """JSON can escape half of a surrogate pair, which SQS and DynamoDB refuse."""
    lanes, reached = lanes_with_a_handler(engine)
    event = {"specversion": "1.0", "type": "order.placed", "id": "1", "source": "s"}
    lanes.send_body("MAIN", json.dumps(event | {"data": {"order": 7, "note": "\ud800"}}))
    lanes.run_until_idle()

    (letter,) = lanes.journal.dead_lettered
    assert not reached
    assert letter.reason.encode() == b"data: ValueError: no note but ?"


@dataclass(frozen=True)
class Folder:
    """Data that holds data of its own type."""

    folders: list[Folder] = field(default_factory=list)


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
        (Folder, nested(300), None, "data: RecursionError: "),
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
    lanes = InMemoryLanes(consumer, config=LanesConfig.from_dict({"consumer": {"engine": engine}}))
    lanes.producer.send("order.placed", bad, group="g", id="bad")
    lanes.producer.send("order.placed", {"word": "good"}, group="g", id="good")
    lanes.run_for(60)

    lanes.assert_dead_lettered("order.placed", reason=reason)
    assert reached == ["good"]
    lanes.assert_nothing_waiting()
