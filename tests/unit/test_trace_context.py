"""Traces: reading W3C trace context and X-Ray's ids, and which trace a message sent now belongs to."""

import asyncio
import contextlib
import contextvars
import logging
import subprocess
import sys
import threading

import pytest
from aws_xray_sdk import core as xray
from aws_xray_sdk import global_sdk_config
from aws_xray_sdk.core import AWSXRayRecorder
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace as opentelemetry

from lanes.trace_context import TraceContext, continuing_trace, current_trace, current_traceparent

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{SPAN}-01"
OTHER = f"00-{'a' * 32}-{'b' * 16}-00"
SEGMENT = "53995c3f42cd8ad8"

hexadecimal = st.text("0123456789abcdef", min_size=1)
trace_ids = st.text("0123456789abcdef", min_size=32, max_size=32).filter(lambda text: text.strip("0"))
span_ids = st.text("0123456789abcdef", min_size=16, max_size=16).filter(lambda text: text.strip("0"))


@given(trace_id=trace_ids, span_id=span_ids, is_sampled=st.booleans())
def test_what_is_written_is_read_again(trace_id, span_id, is_sampled):
    """As W3C trace context, and by X-Ray's ids."""
    trace = TraceContext(trace_id=trace_id, span_id=span_id, is_sampled=is_sampled)

    assert TraceContext.parse(str(trace)) == trace
    assert TraceContext.of_xray(trace.xray_trace_id, span_id, is_sampled=is_sampled) == trace
    header = f"Root={trace.xray_trace_id};Parent={span_id};Sampled={int(is_sampled)};Lineage=1:2:3"
    assert TraceContext.of_xray_header(header) == trace


@given(
    st.text()
    | st.binary()
    | st.none()
    | st.integers()
    | st.builds("-".join, st.lists(hexadecimal, min_size=2, max_size=6))
)
def test_anything_else_is_no_trace_and_no_error(text):
    """Whatever comes with a message, or what is read of it is whole."""
    trace = TraceContext.parse(text)

    assert trace is None or TraceContext.parse(str(trace)) == trace


@given(st.text(alphabet="RootParentSampled=;-0123456789abcdef 1\n"))
def test_no_header_of_x_ray_is_an_error(header):
    """Some services leave parts of it out."""
    trace = TraceContext.of_xray_header(header)

    assert trace is None or TraceContext.parse(str(trace)) == trace


@pytest.mark.parametrize(
    "broken",
    [
        "",
        TRACE,
        TRACEPARENT.upper(),
        f" {TRACEPARENT}",
        f"{TRACEPARENT}\n",
        f"{TRACEPARENT}-",
        f"{TRACEPARENT}-00",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-0x",
        f"00-{TRACE[1:]}-{SPAN}-01",
    ],
    ids=repr,
)
def test_what_w3c_calls_invalid_is_no_trace(broken):
    """Each rule of the recommendation by itself."""
    assert TraceContext.parse(broken) is None


@pytest.mark.parametrize("later", [f"01-{TRACE}-{SPAN}-01", f"cc-{TRACE}-{SPAN}-03-what-comes"])
def test_a_later_version_is_read_as_this_one(later):
    """It may only add to it."""
    assert str(TraceContext.parse(later)) == TRACEPARENT


def test_only_the_flag_of_sampling_is_kept():
    """Others are not defined in this version, and go out as zero."""
    assert str(TraceContext.parse(f"00-{TRACE}-{SPAN}-fe")) == f"00-{TRACE}-{SPAN}-00"


def test_a_child_is_another_place_in_the_same_trace():
    """Which nobody has given before."""
    trace = TraceContext.parse(TRACEPARENT)
    children = {trace.child() for _ in range(10)}

    assert len({child.span_id for child in children} | {SPAN}) == 11
    assert {(child.trace_id, child.is_sampled) for child in children} == {(TRACE, True)}


def test_blocks_nest_and_end_also_by_an_exception():
    """As the blocks of priority do."""
    with continuing_trace(TRACEPARENT):
        with contextlib.suppress(KeyError), continuing_trace(OTHER):
            assert current_traceparent() == OTHER
            raise KeyError
        with continuing_trace(None):
            assert current_traceparent() is None

        assert current_traceparent() == TRACEPARENT
    assert current_traceparent() is None


def test_a_block_that_ends_late_leaves_those_opened_after_it():
    """As a block of priority does, also in another context."""

    def left_half_way():
        with continuing_trace(OTHER):
            yield

    here, elsewhere = left_half_way(), left_half_way()
    next(here)
    contextvars.copy_context().run(next, elsewhere)
    with continuing_trace(TRACEPARENT):
        here.close()
        elsewhere.close()
        assert current_traceparent() == TRACEPARENT
    assert current_traceparent() is None


def test_a_block_of_a_broken_trace_has_none():
    """What comes from outside is never trusted to be well-formed."""
    with continuing_trace("00-1-2-01"):
        assert current_traceparent() is None


def test_threads_and_tasks_have_their_own_blocks():
    """What one sends never lands in the trace of another."""
    seen = []

    async def task():
        with continuing_trace(OTHER):
            await asyncio.sleep(0)

    async def tasks():
        await asyncio.gather(task(), task())
        seen.append(current_traceparent())

    with continuing_trace(TRACEPARENT):
        thread = threading.Thread(target=lambda: seen.append(current_traceparent()))
        thread.start()
        thread.join()
        asyncio.run(tasks())

    assert seen == [None, TRACEPARENT]


def opentelemetry_span(trace_id=TRACE, span_id=SPAN):
    """Make a span of OpenTelemetry current."""
    context = opentelemetry.SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=opentelemetry.TraceFlags(1)
    )
    return opentelemetry.use_span(opentelemetry.NonRecordingSpan(context))


def test_a_span_of_opentelemetry_is_continued():
    """Without a word in the application; without a span there is none."""
    assert current_traceparent() is None
    with opentelemetry_span():
        assert current_traceparent() == TRACEPARENT


@pytest.fixture
def recorder(monkeypatch):
    """Give a recorder of X-Ray that sends to nobody: neither it nor the library's own keeps its socket."""
    made = AWSXRayRecorder()
    made.configure(service="orders", sampling=False, context_missing="LOG_ERROR")
    made.emitter.send_entity = lambda _entity: None
    for one in (made, xray.xray_recorder):
        one.emitter._socket.close()
    monkeypatch.setattr(xray, "xray_recorder", made)
    was_enabled = global_sdk_config.sdk_enabled()
    global_sdk_config.set_sdk_enabled(True)  # the Tracer of Powertools turns it off outside of Lambda
    yield made
    global_sdk_config.set_sdk_enabled(was_enabled)


def test_a_segment_of_x_ray_is_continued(recorder):
    """With its ids in W3C's form, the innermost subsegment as the place."""
    with recorder.in_segment("shop") as segment:
        assert current_trace().xray_trace_id == segment.trace_id
        with recorder.in_subsegment("order") as subsegment:
            trace = current_trace()

    assert (trace.xray_trace_id, trace.span_id, trace.is_sampled) == (segment.trace_id, subsegment.id, True)


def test_without_a_segment_x_ray_is_not_asked(recorder, caplog):
    """It would log an error for each message."""
    with caplog.at_level(logging.DEBUG):
        assert current_traceparent() is None

    assert not caplog.records


def test_a_span_within_the_blocks_trace_is_the_place():
    """It says more exactly where in the trace the message was sent."""
    with continuing_trace(TRACEPARENT), opentelemetry_span(span_id=SEGMENT):
        assert current_traceparent() == f"00-{TRACE}-{SEGMENT}-01"


def test_a_span_of_another_trace_does_not_break_the_blocks():
    """The invocation's own trace must not cut the message's."""
    with continuing_trace(OTHER), opentelemetry_span():
        assert current_traceparent() == OTHER


def test_no_tracing_library_is_imported():
    """Asking costs nothing where nobody traces."""
    code = (
        "import sys; from lanes import current_traceparent; assert current_traceparent() is None; "
        "sys.exit(any(name.partition('.')[0] in ('opentelemetry', 'aws_xray_sdk') for name in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
