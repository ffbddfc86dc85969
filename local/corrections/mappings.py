"""
Corrections of moto's event source mappings on queues: those that Lambda refuses are refused.

moto accepts a queue with a visibility timeout below the function timeout, a batching window on a FIFO queue and a
second mapping of the same queue and function, and answers too large a batch size with a server error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import moto.awslambda.models as functions
from moto.awslambda.exceptions import LambdaClientError
from moto.sqs.models import sqs_backends

from lanes.mapping.rules import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Mapping


class MappingExistsError(LambdaClientError):  # type: ignore[misc]
    """The queue is mapped to the function already."""

    code = 409

    def __init__(self, mapping: Any) -> None:
        super().__init__(
            "ResourceConflictException",
            f'An event source mapping with SQS arn (" {mapping.event_source_arn} ") and function '
            f'(" {mapping.function_arn} ") already exists. Please update or delete the existing mapping with UUID '
            f"{mapping.uuid}",
        )


def install() -> None:
    """Refuse such mappings in this process; called once by `cloudformation.install`."""
    backend = functions.LambdaBackend
    create, update = backend.create_event_source_mapping, backend.update_event_source_mapping

    def create_event_source_mapping(self: Any, spec: dict[str, Any]) -> Any:
        arn, name = spec.get("EventSourceArn", ""), spec.get("FunctionName", "")
        queue = _queue(self, arn)
        if queue is not None and name:
            function = self.get_function(name)
            for mapping in self._event_source_mappings.values():
                if (mapping.event_source_arn, mapping.function_arn) == (arn, function.function_arn):
                    raise MappingExistsError(mapping)
            _check(queue, function, spec)
        return create(self, spec)

    def update_event_source_mapping(self: Any, uuid: str, spec: dict[str, Any]) -> Any:
        mapping = self.get_event_source_mapping(uuid)
        queue = None if mapping is None else _queue(self, mapping.event_source_arn)
        if queue is not None:
            function = self.get_function(spec.get("FunctionName") or mapping.function_arn)
            _check(queue, function, mapping.get_configuration() | spec)
        return update(self, uuid, spec)

    backend.create_event_source_mapping = create_event_source_mapping
    backend.update_event_source_mapping = update_event_source_mapping


def _queue(backend: Any, arn: str) -> Any:
    """Return the queue with an ARN; None for a stream."""
    queue = sqs_backends[backend.account_id][backend.region_name].queues.get(arn.rpartition(":")[2])
    return queue if queue is not None and queue.queue_arn == arn else None


def _check(queue: Any, function: Any, wanted: Mapping[str, Any]) -> None:
    # AWS: the function timeout is at most the visibility timeout (Lambda developer guide, "Configuring a queue to use
    # with Lambda"); batch size and batching window are those of "SQS event source mapping parameters".
    if queue.visibility_timeout < function.timeout:
        raise _refusal(
            f"Queue visibility timeout: {queue.visibility_timeout} seconds is less than "
            f"Function timeout: {function.timeout} seconds"
        )
    if not queue.fifo_queue:
        return
    if int(wanted.get("MaximumBatchingWindowInSeconds") or 0):
        raise _refusal("Batching window is not supported for FIFO queues.")
    size = int(wanted.get("BatchSize") or MAX_BATCH)
    if size > MAX_BATCH:
        raise _refusal(f"BatchSize {size} exceeds {MAX_BATCH}, the maximum for FIFO queues.")


def _refusal(message: str) -> LambdaClientError:
    return LambdaClientError("InvalidParameterValueException", message)
