"""
The trace of a message: the ids of W3C trace context, and their form in X-Ray.

Owns the word trace. This module records nothing and imports no tracing library: it reads the current span of
OpenTelemetry or segment of X-Ray if your application has loaded one of these libraries.
"""

from __future__ import annotations

import os
import re
import sys
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lanes.blocks import Opened, begin, end, innermost

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

# Later versions may append fields; the two ids and the flags keep their positions.
TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
XRAY_ID = re.compile(r"1-([0-9a-f]{8})-([0-9a-f]{24})")
FORBIDDEN_VERSION = "ff"
NO_TRACE, NO_SPAN = "0" * 32, "0" * 16
SAMPLED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """
    A span of a trace: the one that sent a message, or the current one.

    Attributes:
        trace_id: 32 hexadecimal digits, the same for the whole trace.
        span_id: 16 hexadecimal digits of this span.
        is_sampled: whether the trace is recorded.
    """

    trace_id: str
    span_id: str
    is_sampled: bool = False

    @classmethod
    def parse(cls, traceparent: object) -> TraceContext | None:
        """Read a W3C `traceparent`; return None if it is invalid, which must not break anything else."""
        match = TRACEPARENT.fullmatch(traceparent) if isinstance(traceparent, str) else None
        if match is None:
            return None
        version, trace_id, span_id, flags, more = match.groups()
        if (
            version == FORBIDDEN_VERSION
            or (version == "00" and more)
            or trace_id == NO_TRACE
            or span_id == NO_SPAN
        ):
            return None
        return cls(trace_id=trace_id, span_id=span_id, is_sampled=bool(int(flags, 16) & SAMPLED))

    @classmethod
    def of_xray(cls, trace_id: str, segment_id: str, *, is_sampled: bool) -> TraceContext | None:
        """Build it from X-Ray's ids (`1-<8 digits>-<24 digits>` and 16 digits); None if they are invalid."""
        match = XRAY_ID.fullmatch(trace_id)
        flags = SAMPLED if is_sampled else 0
        return cls.parse(f"00-{match[1]}{match[2]}-{segment_id}-{flags:02x}") if match else None

    @classmethod
    def of_xray_header(cls, header: str | None) -> TraceContext | None:
        """Read a tracing header of X-Ray (`Root=...;Parent=...;Sampled=1`); None if it names no segment."""
        if not header:
            return None
        parts = dict(part.strip().partition("=")[::2] for part in header.split(";"))
        return cls.of_xray(
            parts.get("Root", ""), parts.get("Parent", ""), is_sampled=parts.get("Sampled") == "1"
        )

    @property
    def xray_trace_id(self) -> str:
        """The trace id in the form of X-Ray."""
        return f"1-{self.trace_id[:8]}-{self.trace_id[8:]}"

    def child(self) -> TraceContext:
        """Return a new span of the same trace."""
        return replace(self, span_id=_new_span_id())

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{SAMPLED if self.is_sampled else 0:02x}"


def xray_header(traceparent: str | None) -> str | None:
    """Return X-Ray's tracing header for a sampled trace, which AWS passes on beside the message; else None."""
    trace = TraceContext.parse(traceparent)
    if trace is None or not trace.is_sampled:
        return None
    return f"Root={trace.xray_trace_id};Parent={trace.span_id};Sampled=1"


CONTINUED_TRACE: ContextVar[Opened[TraceContext | None] | TraceContext | None] = ContextVar(
    "lanes_trace", default=None
)


def continuing_trace(traceparent: str | TraceContext | None) -> AbstractContextManager[None]:
    """
    Continue a trace in the messages that you send inside the block.

    Handlers run in such a block, with the trace of their message. Blocks nest, also end after an exception, and are
    isolated between threads and asyncio tasks. Without a valid `traceparent` the block has no trace.

    Args:
        traceparent: W3C trace context, for example from an HTTP header.

    Example:
        >>> with continuing_trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"):
        ...     current_traceparent()
        '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    """
    return _Continuation(
        traceparent if isinstance(traceparent, TraceContext) else TraceContext.parse(traceparent)
    )


class _Continuation:
    """The context manager that `continuing_trace` returns."""

    __slots__ = ("_trace",)

    def __init__(self, trace: TraceContext | None) -> None:
        self._trace = trace

    def __enter__(self) -> None:
        begin(CONTINUED_TRACE, self, self._trace)

    def __exit__(self, *_error: object) -> None:
        end(CONTINUED_TRACE, self)


def current_traceparent() -> str | None:
    """
    Return the W3C trace context that a message sent now would get, or None.

    It is that of the innermost `continuing_trace` block. Without a block it is the current span of OpenTelemetry or
    segment of X-Ray, if your application has loaded one of them. A span of the block's own trace wins over the block.
    """
    trace = current_trace()
    return None if trace is None else str(trace)


def current_trace() -> TraceContext | None:
    """Return the same as a record."""
    continued = innermost(CONTINUED_TRACE)
    recorded = _opentelemetry_span() or _xray_entity()
    if continued is None or (recorded is not None and recorded.trace_id == continued.trace_id):
        return recorded
    return continued


def _opentelemetry_span() -> TraceContext | None:
    # Looked up, not imported: an application without the library pays nothing.
    library = sys.modules.get("opentelemetry.trace")
    if library is None:
        return None
    span = library.get_current_span().get_span_context()
    return TraceContext.parse(f"00-{span.trace_id:032x}-{span.span_id:016x}-{int(span.trace_flags):02x}")


def _xray_entity() -> TraceContext | None:
    library = sys.modules.get("aws_xray_sdk.core")
    recorder: Any = getattr(library, "xray_recorder", None)
    if recorder is None:
        return None
    context = recorder.context
    if context.context_missing and not getattr(getattr(context, "_local", None), "entities", None):
        return None  # outside of a segment the recorder would log an error
    entity = recorder.get_trace_entity()
    if entity is None or type(entity).__name__.startswith("Dummy"):
        return None  # a placeholder without the ids of a trace
    return TraceContext.of_xray(entity.trace_id, entity.id, is_sampled=bool(entity.sampled))


def _new_span_id() -> str:
    while (span_id := os.urandom(8).hex()) == NO_SPAN:
        pass
    return span_id
