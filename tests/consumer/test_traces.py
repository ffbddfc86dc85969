"""The trace of a message goes on in its handler, in what that sends, and in the log."""

import pytest

from lanes import Message, current_priority, current_traceparent, processing_priority
from lanes.consumer.handlers import Handlers
from lanes.errors import DeadLetter
from lanes.trace_context import TraceContext, continuing_trace
from tests.support.memory import World, record_with

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
XRAY_HEADER = f"Root=1-{TRACE[:8]}-{TRACE[8:]};Parent=00f067aa0ba902b7;Sampled=1"


def handled(traceparent):
    """Give what a handler sees of its trace: in its context, and for what it sends."""
    world, seen = World(), []

    @world.consumer.handler("work")
    def work(message, context):
        seen.extend((message.traceparent, context.traceparent, current_traceparent()))

    message = Message(kind="work", group="g", traceparent=traceparent)
    world.send_body("HIGH", message.to_body())
    event = world.receive("HIGH")
    world.delete("HIGH", event, kept=world.invoke("HIGH", event))
    return world, seen


def test_a_handler_runs_at_a_place_of_its_own_in_the_messages_trace():
    """And so does what it sends: the same trace, another parent."""
    _, (brought, mine, sent) = handled(TRACEPARENT)

    trace = TraceContext.parse(mine)
    assert brought == TRACEPARENT
    assert mine == sent
    assert (trace.trace_id, trace.is_sampled) == (TRACE, True)
    assert trace.span_id != TraceContext.parse(TRACEPARENT).span_id


@pytest.mark.parametrize("none", [None, "00-1-2-01", "", "x" * 100_000, f"00-{'0' * 32}-00f067aa0ba902b7-01"])
def test_a_message_of_no_trace_or_a_broken_one_is_handled_as_ever(none):
    """Whoever traces must not cost a message."""
    world, (_, mine, sent) = handled(none)

    assert (mine, sent) == (None, None)
    (event,) = world.recorder.named("message_handled")
    assert event["trace_id"] is None


def test_a_message_of_no_trace_does_not_join_that_of_whoever_runs_the_consumer():
    """As in a test of an application."""
    with continuing_trace(TRACEPARENT):
        _, seen = handled(None)

    assert seen == [None, None, None]


def test_a_handler_without_a_context_is_in_the_messages_trace_too():
    """What it sends goes on with it."""
    world, seen = World(), []
    world.consumer.handler("work")(lambda _message: seen.append(current_traceparent()))

    world.send_body("HIGH", Message(kind="work", traceparent=TRACEPARENT).to_body())

    assert world.step("HIGH") == set()
    assert TraceContext.parse(*seen).trace_id == TRACE


@pytest.mark.parametrize("error", [None, ValueError, DeadLetter("no"), SystemExit])
def test_whoever_runs_the_consumer_has_its_trace_and_priority_back(error):
    """However the handler ended; a message without a priority takes the one that it finds."""
    world, seen = World(), []

    @world.consumer.handler("work")
    def work(_message):
        seen.append(current_priority())
        if error is not None:
            raise error

    with continuing_trace(TRACEPARENT), processing_priority(7):
        for priority in (None, 70):
            message = Message(kind="work", priority=priority, traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
            world.send_body("HIGH", message.to_body(), group=f"of-{priority}")
            world.step("HIGH")
        after = current_priority(), current_traceparent()

    assert seen == [7, 70]
    assert after == (7, TRACEPARENT)


def test_every_event_of_a_message_has_the_traces_id():
    """One search finds them all."""
    world = World({"consumer": {"max_attempts": 2, "backoff_base": 1}})

    @world.consumer.handler("work")
    def work(message, context):
        if message.data == "bad" or context.attempt == 1:
            raise ValueError

    @world.consumer.handler("hopeless")
    def hopeless(message):
        raise DeadLetter("no")

    for kind, data in (("work", "good"), ("work", "bad"), ("hopeless", None)):
        message = Message(kind=kind, data=data, id=f"{kind} {data}", traceparent=TRACEPARENT)
        world.send_body("HIGH", message.to_body(), group=message.id.replace(" ", "-"))
    for _ in range(4):
        world.step("HIGH")
        world.clock.now += 60

    events = [*world.recorder.events, *world.recorder.problems]
    about = {"message_handled", "message_failed", "message_dead_lettered", "handler_failed"}
    assert about <= {name for name, _ in events}
    assert {fields["trace_id"] for name, fields in events if name in about} == {TRACE}


@pytest.mark.parametrize(
    ("traceparent", "expected"),
    [(None, TRACE), ("00-1-2-01", TRACE), (f"00-{'a' * 32}-{'b' * 16}-00", "a" * 32)],
)
def test_the_header_that_sqs_keeps_of_a_traced_sender_counts_where_the_message_says_nothing(
    traceparent, expected
):
    """Services of AWS put the trace there, and know no traceparent."""
    handlers = Handlers()
    handlers.add(["work"], print)
    body = Message(kind="work", traceparent=traceparent).to_body()

    assert (
        handlers.resolve(
            record_with("m", body=body, attributes={"AWSTraceHeader": XRAY_HEADER})
        ).trace.trace_id
        == expected
    )


def test_a_raw_body_belongs_to_the_trace_of_that_header():
    """It has no other place for one."""
    handlers = Handlers()
    handlers.add_raw(print)

    assert (
        handlers.resolve(
            record_with("m", body="hello", attributes={"AWSTraceHeader": XRAY_HEADER})
        ).trace.trace_id
        == TRACE
    )
    assert (
        handlers.resolve(record_with("m", body="hello", attributes={"AWSTraceHeader": "Root=?"})).trace
        is None
    )


def test_the_attribute_that_opentelemetry_writes_counts_where_the_message_says_nothing():
    """Its instrumentations of SQS touch no body; X-Ray's header names the invocation of the sender."""
    handlers = Handlers()
    handlers.add(["work"], print)
    handlers.add_raw(print)
    other = f"00-{'c' * 32}-{'d' * 16}-01"

    def trace_of(body, attribute=other):
        beside = {"traceparent": {"dataType": "String", "stringValue": attribute}}
        aws = {"AWSTraceHeader": XRAY_HEADER}
        record = record_with("m", body=body, attributes=aws, message_attributes=beside)
        return handlers.resolve(record).trace.trace_id

    silent = Message(kind="work").to_body()
    assert [trace_of(silent), trace_of("hello")] == ["c" * 32] * 2
    assert trace_of(Message(kind="work", traceparent=f"00-{'a' * 32}-{'b' * 16}-00").to_body()) == "a" * 32
    assert trace_of(silent, "00-1-2-01") == TRACE
