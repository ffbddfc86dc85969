"""Bodies of other programs: a decoder makes them messages for every part of the consumer."""

import dataclasses
import json
import sys
from datetime import UTC, datetime

import pytest

from lanes import Consumer, Decoded, current_priority
from lanes.errors import DeadLetter, DuplicateHandlerError
from lanes.message import LARGEST_BODY_BYTES, Message
from lanes.testing import InMemoryLanes
from tests.support.memory import World
from tests.support.overriding import Overridden

ENGINES = pytest.mark.parametrize("engine", ["mappings", "pull"])
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@dataclasses.dataclass
class Order:
    """Data of the handler below."""

    number: str
    amount: int


def read_order(record):
    """Read the JSON of an older sender."""
    order = json.loads(record.body)
    return Decoded(
        kind="order.placed",
        id=order["number"],
        data=order,
        priority=order.get("urgency"),
        source="shop",
        traceparent=order.get("trace"),
    )


def old_body(number, **members):
    """Give a body of the older sender."""
    return json.dumps({"number": number, "amount": 5, **members})


def world_of(engine="mappings", *, lane=None, raw=None):
    """Give lanes with the decoder and a handler of its kind, and what the handler got."""
    world, seen = World(raw, engine=engine), []
    world.consumer.decoder(lane=lane)(read_order)

    @world.consumer.handler("order.placed")
    def place(message: Message[Order], context):
        seen.append((message, context, current_priority()))

    return world, seen


@ENGINES
def test_a_decoded_body_is_a_message_like_any_other(engine):
    """Kind, typed data, id, priority and trace are the decoder's; group and time are those of SQS."""
    world, seen = world_of(engine)
    world.clock.advance(1_000_000)
    world.send_body("HIGH", old_body("o-7", urgency=50, trace=f"00-{TRACE}-00f067aa0ba902b7-01"), group="g7")
    sent_at = datetime.fromtimestamp(world.clock.now, UTC)

    assert world.step("HIGH") == set()

    ((message, context, priority),) = seen
    assert message.data == Order(number="o-7", amount=5)
    assert (message.id, message.source, message.group, message.time) == ("o-7", "shop", "g7", sent_at)
    assert (message.priority, priority) == (50, 50)
    assert TRACE in context.traceparent


def test_old_and_new_senders_share_a_lane():
    """A CloudEvent is left to itself, so that producers are switched one by one."""
    world, seen = world_of()
    world.send_body("HIGH", old_body("o-1"))
    world.send("HIGH", "order.placed", {"number": "o-2", "amount": 6}, id="o-2")

    assert world.step("HIGH") == set()

    assert [message.data.number for message, _, _ in seen] == ["o-1", "o-2"]


@ENGINES
def test_a_decoded_id_has_one_effect(engine):
    """Idempotency knows the id of the decoder, also where SQS no longer knows the sender's."""
    world, seen = world_of(engine, raw={"consumer": {"idempotency": True}})
    for _ in range(2):
        world.send_body("HIGH", old_body("o-7"))
        assert world.step("HIGH") == set()
        world.clock.advance(600)

    assert [message.id for message, _, _ in seen] == ["o-7"]


def test_a_message_sent_in_both_forms_has_one_effect():
    """By a program that was switched while it repeated its last messages."""
    world, seen = world_of(raw={"consumer": {"idempotency": True}})
    world.send_body("HIGH", old_body("o-7"))
    message = Message(kind="order.placed", data={"number": "o-7", "amount": 5}, id="o-7", source="shop")
    world.send_body("HIGH", message.to_body())

    assert world.step("HIGH") == set()

    assert [message.id for message, _, _ in seen] == ["o-7"]


def test_without_an_id_each_message_of_sqs_is_its_own_and_keeps_its_id_at_each_delivery():
    """A random one would make each delivery another message."""
    world, ids = World(), []
    world.consumer.decoder()(lambda _record: Decoded(kind="note"))

    @world.consumer.handler("note")
    def note(message):
        ids.append(message.id)
        if len(ids) == 1:
            raise ValueError

    message_id = world.send_body("HIGH", "hello")
    world.step("HIGH")
    world.clock.advance(3600)
    world.step("HIGH")

    assert ids == [message_id] * 2


@ENGINES
def test_a_decoded_message_is_cancelled_by_its_kind_and_id(engine):
    """It is an override's like any other, and listed as cancelled."""
    scenario = Overridden(engine=engine)
    world, seen = scenario.world, []
    world.consumer.decoder(lane="MAIN")(read_order)
    world.consumer.handler("order.placed")(lambda message: seen.append(message.id))
    for number in ("o-1", "o-2"):
        world.send_body("MAIN", old_body(number), group=number)
    scenario.put("cancel", kind="order.*", ids=("o-1",))

    world.step("MAIN")

    assert scenario.cancelled() == ["o-1"]
    assert seen == ["o-2"]


def test_a_decoded_message_moves_to_another_lane_as_a_message():
    """Where no decoder would know its body."""
    scenario = Overridden()
    world, seen = scenario.world, []
    world.consumer.decoder(lane="MAIN")(read_order)
    world.consumer.handler("order.placed")(lambda message, context: seen.append((message.id, context.lane)))
    world.send_body("MAIN", old_body("o-1"))
    scenario.put("prioritize", priority=50, ids=("o-1",))

    world.step("MAIN")
    world.step("HIGH")

    assert seen == [("o-1", "HIGH")]


def test_tests_see_its_dead_letter_with_kind_and_id():
    """As `lanes dead-letters list` does."""
    consumer = Consumer()
    consumer.decoder()(read_order)

    @consumer.handler("order.placed")
    def refuse(_message):
        raise DeadLetter("no such customer")

    lanes = InMemoryLanes(consumer)
    lanes.send_body("MAIN", old_body("o-1"), group="g")
    lanes.run_until_idle()

    letter = lanes.assert_dead_lettered(kind="order.placed", reason="no such customer")
    assert (letter.id, letter.group, letter.data) == ("o-1", "g", {"number": "o-1", "amount": 5})


def test_its_dead_letter_is_stored_as_a_message():
    """So it runs again without a decoder, and the lists of dead letters show its kind and id."""
    world = World()
    world.consumer.decoder()(lambda _record: Decoded(kind="order.placed", id="o-1"))

    @world.consumer.handler("order.placed")
    def refuse(_message):
        raise DeadLetter("no such customer")

    world.send_body("HIGH", old_body("o-1"))
    world.step("HIGH")

    (letter,) = world.queues.dead["HIGH"].receive(10)
    assert Message.from_body(letter.body).id == "o-1"


def test_tests_see_a_decoded_message_as_its_handler_does():
    """Handled, failed and dead-lettered ones have the kind and id of the decoder."""
    consumer = Consumer()
    consumer.decoder()(read_order)
    consumer.handler("order.placed")(lambda _message: None)
    lanes = InMemoryLanes(consumer)
    lanes.send_body("MAIN", old_body("o-1"))
    lanes.run_until_idle()

    assert lanes.assert_handled(kind="order.placed").id == "o-1"


@ENGINES
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("<order/>", "its decoder read_order failed: JSONDecodeError: Expecting value"),
        ("{}", "its decoder read_order failed: KeyError: 'number'"),
        ('{"number": 7}', "its decoder read_order failed: InvalidMessageError: "),
        (
            json.dumps({"number": "o", "text": "x" * (LARGEST_BODY_BYTES - 40)}),
            "its decoder read_order failed: MessageTooLargeError: ",
        ),
    ],
    ids=["not JSON", "no id", "no text as id", "too large"],
)
def test_a_body_that_its_decoder_cannot_read_is_dead_lettered_as_it_came(engine, body, reason):
    """With the reason, also beside a raw handler; its neighbours go on."""
    world, seen = world_of(engine)
    world.consumer.raw_handler(lambda _record: seen.append("raw"))
    message_id = world.send_body("HIGH", body, group="one")
    world.send_body("HIGH", old_body("o-2"), group="one")

    world.step("HIGH")

    assert world.queues.notes[message_id].reason.startswith(reason)
    (letter,) = world.queues.dead["HIGH"].receive(10)
    assert letter.body == body
    assert [message.id for message, _, _ in seen] == ["o-2"]


def test_a_decoder_that_ends_the_process_leaves_the_others_alone():
    """A body on which it calls `sys.exit` would fail every batch, until SQS gave up all of them."""
    world, seen = World(), []

    @world.consumer.decoder()
    def exits(record):
        return sys.exit(record.body) if record.body == "bad" else Decoded(kind="note")

    world.consumer.handler("note")(seen.append)
    message_id = world.send_body("HIGH", "bad", group="one")
    world.send_body("HIGH", "good", group="two")
    world.step("HIGH")

    assert world.queues.notes[message_id].reason.endswith("exits failed: SystemExit: bad")
    assert len(seen) == 1


async def reads_later(_record):
    """Look like a decoder."""


@pytest.mark.parametrize(
    ("lane", "function", "problem"),
    [
        (1, read_order, "takes the name of a lane, .* not 1"),
        (None, reads_later, "reads_later is not a decoder. Use a plain function"),
        (None, None, "None is not a decoder"),
    ],
)
def test_what_can_read_no_body_is_refused_at_registration(lane, function, problem):
    """Else each body of the lane would become a dead letter."""
    with pytest.raises(TypeError, match=problem):
        Consumer().decoder(lane=lane)(function)


def test_another_result_than_a_decoded_is_a_mistake_that_is_named():
    """A message would have a random id at each delivery."""
    world = World()

    @world.consumer.decoder()
    def made(_record):
        return Message(kind="note")

    message_id = world.send_body("HIGH", "hello")

    world.step("HIGH")

    assert world.queues.notes[message_id].reason.endswith(
        "made failed: TypeError: a decoder returns a Decoded or None, not Message"
    )


def test_a_decoder_leaves_a_body_to_the_raw_handler():
    """By returning None, for what is not its own."""
    world, bodies = World(), []
    world.consumer.decoder(lane="HIGH")(lambda _record: None)
    world.consumer.raw_handler(lambda record: bodies.append(record.body))
    world.send_body("HIGH", "hello")

    assert world.step("HIGH") == set()
    assert bodies == ["hello"]


def test_a_lane_has_its_own_decoder_and_the_others_the_common_one():
    """Two programs may send in two forms."""
    world, seen = World(), []
    world.consumer.decoder(lane="HIGH")(lambda record: Decoded(kind="high", data=record.body))
    world.consumer.decoder()(lambda record: Decoded(kind="other", data=record.body))
    for kind in ("high", "other"):
        world.consumer.handler(kind)(lambda message: seen.append((message.kind, message.data)))
    for lane in ("HIGH", "MAIN"):
        world.send_body(lane, lane)
        world.step(lane)

    assert seen == [("high", "HIGH"), ("other", "MAIN")]


def test_a_lane_without_one_names_the_cure():
    """The dead letter says what to write, and for which lanes it was written: a name may be misspelt."""
    world, _ = world_of(lane="HIGH")
    message_id = world.send_body("MAIN", old_body("o-1"))

    world.step("MAIN")

    assert world.queues.notes[message_id].reason == (
        "not a CloudEvents 1.0 JSON event: specversion is None; it must be '1.0'; for bodies of another form register "
        "a @consumer.decoder or @consumer.raw_handler (only these lanes have a decoder: HIGH)"
    )


def test_a_second_decoder_of_a_lane_is_refused():
    """Only one of them could ever run."""
    consumer = Consumer()
    for lane in ("HIGH", None):
        consumer.decoder(lane=lane)(read_order)
        with pytest.raises(DuplicateHandlerError, match="raw bodies"):
            consumer.decoder(lane=lane)(read_order)
    assert consumer.decoder(lane="MAIN")(read_order) is read_order
