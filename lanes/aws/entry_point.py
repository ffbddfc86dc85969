"""
The function's entry point: it imports your module, and returns what comes within seconds while that fails.

AWS: a function whose module can't be imported fails each invocation, and its batches stay hidden until their visibility
timeout ends, six times the function timeout (Lambda developer guide, "Handling errors for an SQS event source").
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
from typing import TYPE_CHECKING, Any

from lanes.config.deployment import HANDLER_VARIABLE
from lanes.consumer.outcome import outage_floor
from lanes.errors import AwsError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.consumer.records import PartialBatchResponse, RawRecord
    from lanes.consumer.runtime import Runtime

    Handler = Callable[[Mapping[str, Any], Any], PartialBatchResponse]

LONGEST_RETURN = 60
"""Most seconds for which an import that fails alone keeps records away; the shorter ones are one for each receive."""

_known: list[Handler] = []


def lambda_handler(event: Mapping[str, Any], context: Any) -> PartialBatchResponse:
    """
    Let your module handle an event; if it can't be imported, return all records without an attempt.

    Raises:
        TypeError: a batch was answered by something else than a partial batch response, such as None of a wrapper that
            forgets to return. AWS takes that for success and deletes the batch (Lambda developer guide, "Implementing
            partial batch responses").
    """
    if not _known:
        try:
            _known.append(_imported())
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a module may end its process, too
            return _returned(event, context, error)
    answer = _known[0](event, context)
    if isinstance(event, dict) and "Records" in event and not _is_partial_response(answer):
        raise TypeError(
            f"{os.environ[HANDLER_VARIABLE]} answered a batch with {answer!r:.200}; return the answer of "
            "Consumer.lambda_handler, without which AWS would delete messages that were not handled"
        )
    return answer


def _is_partial_response(answer: object) -> bool:
    return isinstance(answer, dict) and isinstance(answer.get("batchItemFailures"), list)


def _imported() -> Handler:
    module, _, function = os.environ[HANDLER_VARIABLE].rpartition(".")
    handler: Handler = getattr(importlib.import_module(module), function)
    return handler


def _returned(event: Mapping[str, Any], context: Any, error: BaseException) -> PartialBatchResponse:
    """Report the failed import, in an `except` block, and return the records of an event soon."""
    # Late: with a module that can be imported, it loads these itself.
    from lanes.aws.runtime import runtime_from_env
    from lanes.consumer import telemetry as report
    from lanes.consumer.records import read_batch, response_for

    try:
        queue, records = read_batch(event)
    except ConfigurationError:
        raise error from None
    runtime = runtime_from_env()
    deployment = runtime.deployment
    lane = deployment.config.lanes[0] if deployment.is_bell(queue) else deployment.lane_of_queue(queue)
    report.import_failed(runtime.telemetry, queue, records, lane=lane.name, context=context)
    # What can't be returned comes back when its visibility ends.
    with contextlib.suppress(AwsError):
        _return_soon(runtime, None if deployment.is_bell(queue) else lane.name, records)
    return response_for(records)


def _return_soon(runtime: Runtime, lane: str | None, records: Sequence[RawRecord]) -> None:
    from lanes.consumer.settlement import VisibilityChange

    receives = max(record.receive_count for record in records)
    seconds = math.ceil(max(min(receives, LONGEST_RETURN), outage_floor(receives)))
    if lane is not None:
        changes = [
            VisibilityChange(message_id=one.message_id, receipt_handle=one.receipt_handle, seconds=seconds)
            for one in records
        ]
        runtime.queues.change_visibility(lane, changes)
    elif runtime.bell is not None:
        for record in records:
            runtime.bell.return_after(record.receipt_handle, seconds)


if HANDLER_VARIABLE in os.environ:
    # Before the first event, in the time that Lambda gives a new environment for it.
    with contextlib.suppress(Exception, SystemExit):
        _known.append(_imported())
