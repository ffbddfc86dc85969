"""
Traces through Powertools: a subsegment of X-Ray for each run of a handler, and one for what was not handled.

Imported only where tracing is on, since the library behind it takes longer to load than the rest of the consumer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import traceback
from typing import TYPE_CHECKING, Any, ParamSpec

from aws_lambda_powertools.tracing import Tracer

from lanes.consumer.context import Yielded
from lanes.errors import DeadLetter, Retry
from lanes.trace_context import TraceContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lanes.config import Lane
    from lanes.consumer.ledger import Cause
    from lanes.consumer.records import RawRecord
    from lanes.consumer.telemetry import Telemetry
    from lanes.consumer.work import Work

P = ParamSpec("P")

RAW = "raw body"
"""Name of the subsegment of a body that names no kind."""

SHOWN = {
    "batch_yielded": "yielded",
    "batch_returned": "returned",
    "message_dead_lettered": "dead-lettered",
    "duplicate_skipped": "skipped as done before",
}
"""Events that have a subsegment of their own, by its name."""

_log = logging.getLogger(__name__)


def _harmless(step: Callable[P, None]) -> Callable[P, None]:
    """Keep whatever goes wrong in a step away from the message that is being traced."""

    @functools.wraps(step)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            step(*args, **kwargs)
        except Exception:  # noqa: BLE001 - a message must not fail because somebody watches it
            _log.warning("a trace could not be recorded", exc_info=True)

    return guarded


class XRayTracing:
    """
    Records what the consumer does with each message in the trace that Lambda made for the invocation.

    A subsegment is named after the kind. Its annotations are `lane`, `group`, `message_id`, `id`, `attempt`, `cause`
    (why the record was received), `outcome`, and `trace_id`, that of the trace that the message brought along. Outside
    of Lambda Powertools switches itself off, and nothing is recorded.

    Raises:
        ModuleNotFoundError: the X-Ray library is not in the function.

    """

    def __init__(self) -> None:
        # Without patching: it would load every client library that there is, and trace the consumer's own calls.
        self._recorder: Any = Tracer(auto_patch=False).provider

    @contextlib.contextmanager
    def attempt(
        self, lane: Lane, record: RawRecord, work: Work, *, attempt: int, cause: Cause
    ) -> Iterator[TraceContext | None]:
        """Record the run of a handler, and give the place of its subsegment in the message's trace."""
        segment = _Subsegment(self._recorder)
        segment.begin(work.kind or RAW)
        segment.annotate(
            lane=lane.name,
            group=record.group,
            message_id=record.message_id,
            id=work.id,
            attempt=attempt,
            cause=cause.value,
            trace_id=work.trace_id,
        )
        try:
            yield segment.place_in(work.trace)
        except BaseException as error:
            segment.failed(error)
            raise
        else:
            segment.annotate(outcome="handled")
        finally:
            segment.end()

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        """Record what became of messages that were not handled."""
        if name not in SHOWN:
            return
        segment = _Subsegment(self._recorder)
        segment.begin(SHOWN[name])
        segment.annotate(**fields)
        segment.end()


class TracedTelemetry:
    """
    Telemetry whose events are in the trace too.

    Args:
        telemetry: where everything is reported to.
        tracing: is told of each event.

    """

    def __init__(self, telemetry: Telemetry, tracing: XRayTracing) -> None:
        self._telemetry = telemetry
        self._tracing = tracing
        self.begin = telemetry.begin
        self.problem = telemetry.problem
        self.count = telemetry.count
        self.milliseconds = telemetry.milliseconds
        self.end = telemetry.end

    def event(self, name: str, /, **fields: Any) -> None:
        """Report something that happened, and record it."""
        self._telemetry.event(name, **fields)
        self._tracing.event(name, fields)


class _Subsegment:
    """One subsegment; no method raises, and each does nothing where there is none."""

    def __init__(self, recorder: Any) -> None:
        self._recorder = recorder
        self._open: Any = None

    @_harmless
    def begin(self, name: str) -> None:
        self._open = self._recorder.begin_subsegment(name)

    @_harmless
    def annotate(self, **fields: Any) -> None:
        """Texts and numbers can be searched for; the rest is kept beside them."""
        if self._open is None:
            return
        for key, value in fields.items():
            if isinstance(value, str | int | float):
                self._open.put_annotation(key, value)
            elif value is not None:
                self._open.put_metadata(key, value)

    def failed(self, error: BaseException) -> None:
        """Tell how a handler was left; to yield is no fault, and to ask for another attempt only half of one."""
        if isinstance(error, Yielded):
            self.annotate(outcome="yielded")
        elif isinstance(error, Retry):
            self.annotate(outcome="retry")
            self._mark_as_error()
        else:
            self.annotate(outcome="dead_letter" if isinstance(error, DeadLetter) else "failed")
            self._mark_as_fault(error)

    @_harmless
    def _mark_as_error(self) -> None:
        if self._open is not None:
            self._open.add_error_flag()

    @_harmless
    def _mark_as_fault(self, error: BaseException) -> None:
        if self._open is not None:
            self._open.add_exception(error, traceback.extract_tb(error.__traceback__))

    @_harmless
    def end(self) -> None:
        if self._open is not None:
            self._recorder.end_subsegment()

    def place_in(self, trace: TraceContext | None) -> TraceContext | None:
        """Give the subsegment's place in the message's trace, or in the invocation's where the message has none."""
        here = None
        if self._open is not None and self._open.sampled:
            here = TraceContext.of_xray(self._open.trace_id, self._open.id, is_sampled=True)
        if trace is None:
            return here
        return trace.child() if here is None else dataclasses.replace(trace, span_id=here.span_id)
